"""How one request moves between Baton's modules: which of them it enters, and how often.

Run at the root of the repository: `uv run python -m benchmarks.modules`. The handler answers a `prompts/get` for a
durable workflow of three steps, in process and warm. A module is entered whenever one of its functions is called by a
function of another module of Baton, in any thread; what lies between them (the standard library, generated code) is
skipped. `--ways` prints the functions, too.
"""

import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks.functions.in_process import InvocationContext
from emulators.gateway_requests import Probe, prompts_get
from emulators.small_dynamodb import SmallDynamoDB

PACKAGE = Path(__file__).parents[1] / "layers" / "baton" / "mcp_baton"
REGION = "eu-west-1"


class Entries:
    """How often each module was entered, and from where."""

    def __init__(self) -> None:
        self.ways: Counter[tuple[str, str, str]] = Counter()
        """By the module that called, the module that was called, and its function."""

    @property
    def modules(self) -> dict[str, int]:
        """How often each module was entered, the one that was entered most first."""
        counted: Counter[str] = Counter()
        for (_, module, _), count in self.ways.items():
            counted[module] += count
        return dict(counted.most_common())

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count what happens meanwhile, in all threads."""
        threading.setprofile_all_threads(self._note)
        try:
            yield
        finally:
            threading.setprofile_all_threads(None)

    def _note(self, frame: FrameType, event: str, _argument: object) -> None:
        if event != "call":
            return
        module = module_of(frame)
        if module is None:
            return
        caller = frame.f_back
        while caller is not None and module_of(caller) is None:
            caller = caller.f_back
        above = "" if caller is None else module_of(caller) or ""
        if above != module:
            self.ways[above, module, frame.f_code.co_name] += 1


def module_of(frame: FrameType) -> str | None:
    """Baton's module that a frame runs in, as `server/server`; `None` for any other."""
    path = Path(frame.f_code.co_filename)
    return path.relative_to(PACKAGE).with_suffix("").as_posix() if path.is_relative_to(PACKAGE) else None


def entries(environment: Mapping[str, str] = os.environ) -> Entries:
    """What the second prompt of a process enters."""
    probe, made = prompts_get("durable", start="1"), Entries()
    dynamodb = SmallDynamoDB()
    os.environ |= {**environment, "AWS_ENDPOINT_URL_DYNAMODB": dynamodb.url, "AWS_DEFAULT_REGION": REGION}
    os.environ |= {"AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none"}
    os.environ |= {"BATON_TABLE": "tasks", "BATON_ALLOW_ANONYMOUS": "on"}
    try:
        from benchmarks.functions.baton_handler import handler

        _ask(handler, probe)
        with made.counted():
            _ask(handler, probe)
    finally:
        dynamodb.shutdown()
        dynamodb.server_close()
    return made


def _forget_configuration() -> None:
    """Have Baton ask DynamoDB by itself, as on Lambda, whatever this machine sets for AWS's SDKs."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "BOTO")) or name.upper().endswith(("_PROXY", "_CA_BUNDLE")):
            del os.environ[name]
    os.environ["HOME"] = "/nonexistent"


def _ask(handler: Any, probe: Probe) -> None:
    answer = handler(probe.event, InvocationContext())
    if answer.get("statusCode") != 200 or probe.expected not in answer["body"]:
        raise LookupError(f"a wrong answer: {answer}")


def main() -> None:
    """Print how often each module is entered; with `--ways` also from which module, into which function."""
    _forget_configuration()
    found = entries()
    print(f"{len(found.modules)} modules, entered {sum(found.modules.values())} times in all\n")
    for module, count in found.modules.items():
        print(f"{count:5}  {module}")
        if "--ways" in sys.argv:
            for (above, below, name), times in found.ways.most_common():
                if below == module:
                    print(f"         {times:3}  {name}  from {above or 'outside'}")


if __name__ == "__main__":
    main()
