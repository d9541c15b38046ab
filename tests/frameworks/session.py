"""What the sessions of all Python frameworks share. It runs in the environment of the framework.

    python -m tests.frameworks.langchain.session <<<'{"api": …, "variant": "openai", "sessions": [[URL, ["plain"]]]}'

reads such lines, and prints for each what its sessions ended with, as JSON by the name of the script: the last text, or
the error. All sessions share a process, because the import of a framework takes seconds.
"""

import asyncio
import io
import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

type Ask = Callable[[str], Awaitable[Any]]
type Connected = Callable[[str, dict[str, str], str, str], AbstractAsyncContextManager[Ask]]
"""`connected(url, headers, api, variant)` connects the framework with a server. The result sends a prompt to a model of
the API at this address, and returns the model's last text.
"""


def run(connected: Connected) -> None:
    """Hold the sessions that the lines of the input name."""

    async def hold_all(options: Any) -> dict[str, str]:
        ends: dict[str, str] = {}
        for url, scripts in options["sessions"]:
            try:
                async with connected(url, options["headers"], options["api"], options["variant"]) as ask:
                    for script in scripts:
                        ends[script] = await end_of(ask, script)
            except Exception as error:  # noqa: BLE001 - a framework may raise an error of any type
                ends = dict.fromkeys(scripts, "".join(describe(error))) | ends
        return ends

    # No framework reads the lines.
    lines, sys.stdin = sys.stdin, io.StringIO()

    async def main() -> None:
        while line := await asyncio.to_thread(lines.readline):
            # Frameworks print, too.
            sys.stdout.write(f"\nEnds: {json.dumps(await hold_all(json.loads(line)))}\n")
            sys.stdout.flush()

    asyncio.run(main())


async def end_of(ask: Ask, script: str) -> str:
    """Hold one session, and return its last text or its error."""
    try:
        return str(await ask(f"Follow the script {script}."))
    except Exception as error:  # noqa: BLE001 - a framework may raise an error of any type
        return "".join(describe(error))


def describe(error: BaseException) -> list[str]:
    """Return an error and, if it is a group, the errors in it."""
    inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return [f"{type(error).__name__}: {error}\n", *(line for each in inner for line in describe(each))]
