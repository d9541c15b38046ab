"""How commands that speak to a server end: their exit codes, and what is said where they cannot do their work."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from mcp_baton.exceptions import BatonError, StoreError, StoreUnavailable, TaskFinished, TaskNotFound
from mcp_baton.protocol.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND

DONE: Final = 0
FAILED: Final = 1
WRONG_USAGE: Final = 2
PAUSED: Final = 3
UNREACHABLE: Final = 4


class Unreachable(BatonError):
    """The server does not answer, or what answers is none."""


def faulty(what: str) -> Unreachable:
    """The error for an answer that breaks the protocol or has no end, in two lines."""
    return Unreachable(f"{what}\nThe server is faulty or hostile. Nothing more is read from it; tell its operator")


class Denied(BatonError):
    """The server does not let the caller in."""


class Failure(BatonError):
    """What was asked for has failed."""


class Rejected(BatonError):
    """The server answered with a JSON-RPC error.

    Attributes:
        code: Its code, e.g. `-32602`.
        data: Its `data`; `None` where there is none.
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


def code_of(error: BatonError) -> int:
    """The exit code of a command that an error ends."""
    match error:
        case Unreachable() | Denied() | StoreUnavailable():
            return UNREACHABLE
        case Rejected(code=code):
            return WRONG_USAGE if code in (INVALID_PARAMS, METHOD_NOT_FOUND) else FAILED
        case TaskNotFound():
            return WRONG_USAGE  # as -32602, which a server answers
        case Failure() | StoreError():
            return FAILED
        case _:
            return WRONG_USAGE


def words_of(error: BatonError) -> str:
    """An error in words for a terminal."""
    match error:
        case TaskNotFound():
            return "there is no such task of this owner"
        case TaskFinished():
            return f"the task is {error.current.status.value}: nothing changes it"
        case Rejected():
            return f"the server refused the request: {error} ({error.code})"
        case _:
            return str(error)


def ends(command: Callable[..., int]) -> Callable[..., int]:
    """A command that says on the standard error why it cannot do its work, and ends with the fitting code. With
    `--json` the reason is on the standard output, too: `{"error": {"message", "code"?, "data"?}}`."""

    @wraps(command)
    def run(*positional: Any, **named: Any) -> int:
        try:
            return command(*positional, **named)
        except BatonError as error:
            words = words_of(error)
            if named.get("as_json"):
                from mcp_baton.cli.remote.printing import print_json

                told = {"code": error.code, "data": error.data} if isinstance(error, Rejected) else {}
                print_json({"error": {"message": words, **{name: it for name, it in told.items() if it is not None}}})
            from mcp_baton.local.clean_text import echo

            echo(f"baton: {words}", err=True)
            return code_of(error)

    return run
