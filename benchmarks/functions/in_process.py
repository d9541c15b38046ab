"""Calls a handler over and over in this process, as told on stdin, and tells each batch's medians on stdout.

A line in is `{"event": …, "expected": …, "count": n}`; a line out is `{"cpu": …, "wall": …}`, microseconds of one call.
CPU time is that of the whole process: what a handler's other threads do counts.
"""

import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

type Handler = Callable[[dict[str, Any], object], dict[str, Any]]


class InvocationContext:
    """As much of Lambda's context object as handlers look at."""

    aws_request_id = "8476a536-e9f4-11e8-9739-2dfe598c3fcd"
    function_name = "benchmark"

    def get_remaining_time_in_millis(self) -> int:
        """Always the same: nothing here is about deadlines."""
        return 30_000


def main(target: str) -> None:
    """Serve batches until stdin ends."""
    module, _, name = target.partition(":")
    answers = sys.stdout
    with redirect_stdout(sys.stderr):  # where a handler prints its metrics
        handler: Handler = getattr(importlib.import_module(module), name)
        for line in sys.stdin:
            print(json.dumps(batch(handler, **json.loads(line))), flush=True, file=answers)


def batch(handler: Handler, event: dict[str, Any], expected: str, count: int) -> dict[str, float]:
    """Microseconds of the median call."""
    context, cpu, wall = InvocationContext(), [], []
    for _ in range(count):
        # A handler may keep or change what it is given: each call gets an event of its own, as from the runtime.
        given = json.loads(json.dumps(event))
        began_cpu, began = time.process_time_ns(), time.perf_counter_ns()
        answer = handler(given, context)
        ended, ended_cpu = time.perf_counter_ns(), time.process_time_ns()
        wall.append((ended - began) / 1000)
        cpu.append((ended_cpu - began_cpu) / 1000)
        if answer.get("statusCode") != 200 or expected not in answer["body"]:
            raise LookupError(f"a wrong answer: {answer}")
    return {"cpu": statistics.median(cpu), "wall": statistics.median(wall)}


if __name__ == "__main__":
    main(sys.argv[1])
