"""The errors and exit codes of commands that use a server."""

from typing import Final

from mcp_baton.exceptions import BatonError, StoreError, StoreUnavailable
from mcp_baton.local.clean_text import echo, print_json
from mcp_baton.protocol.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND
from mcp_baton.testing.mcp_client import EndlessAnswer, JsonRpcError

EXIT_DONE: Final = 0
EXIT_FAILED: Final = 1
EXIT_WRONG_USAGE: Final = 2
"""The exit code of a command that cannot start."""
EXIT_PAUSED: Final = 3
EXIT_UNREACHABLE: Final = 4


class Unreachable(BatonError):
    """The server does not answer, or it is not an MCP server."""


def protocol_error(problem: str) -> Unreachable:
    """Return the error for an answer that breaks the protocol or does not end."""
    return Unreachable(faulty(problem))


def faulty(problem: str) -> str:
    return f"{problem}\nThe server is faulty or hostile. The rest of its answer was not read; tell its operator"


class Denied(BatonError):
    """The server rejects the caller."""


class CommandFailure(BatonError):
    """The requested action failed."""


def code_of(error: BatonError) -> int:
    match error:
        case Unreachable() | Denied() | StoreUnavailable() | EndlessAnswer():
            return EXIT_UNREACHABLE
        case JsonRpcError(code=code):
            return EXIT_WRONG_USAGE if code in (INVALID_PARAMS, METHOD_NOT_FOUND) else EXIT_FAILED
        case CommandFailure() | StoreError():
            return EXIT_FAILED
        case _:
            return EXIT_WRONG_USAGE


def message_of(error: BatonError) -> str:
    match error:
        case JsonRpcError():
            return f"the server rejected the request: {error.message} ({error.code})"
        case EndlessAnswer():
            return faulty(str(error))
        case _:
            return str(error)


def ended_message(task: str, status: str) -> str:
    """Return the message for a command that would change a task that has ended."""
    return f"{task} is {status} and cannot be changed"


def print_error(error: BatonError, *, as_json: bool) -> int:
    """Print an error. Return the exit code."""
    message = message_of(error)
    if as_json:
        details = {"code": error.code, "data": error.data} if isinstance(error, JsonRpcError) else {}
        print_json({"error": {"message": message} | {key: item for key, item in details.items() if item is not None}})
    echo(f"baton: {message}", err=True)
    return code_of(error)
