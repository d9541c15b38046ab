"""Commands that use the HTTP API beside the MCP endpoint: `baton approvals`, `approve` and `deny` (docs/approvals.md),
and `callback`, which sends the result of a waiting step as another system does (docs/waiting.md)."""

import json
import re
from typing import Annotated, Any, Final, Literal

import typer

from mcp_baton.cli.options import ConnectionOptions, Served, uses_server
from mcp_baton.cli.remote.connection import open_http
from mcp_baton.cli.remote.errors import EXIT_DONE, EXIT_FAILED
from mcp_baton.cli.remote.printing import console, details, records
from mcp_baton.cli.remote.questions import Terminal, at_terminal
from mcp_baton.exceptions import BatonError
from mcp_baton.local.clean_text import print_json
from mcp_baton.protocol.json import MAX_DEPTH, loads
from mcp_baton.testing.mcp_client import all_approvals

type State = Literal["waiting", "approved", "denied", "withdrawn"]
Approval = Annotated[str, typer.Argument(metavar="ID", help="The approval's id.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="The reason, which the requester reads.")]


@uses_server(Served)
def approvals(
    connection: ConnectionOptions,
    state: Annotated[
        State, typer.Option("--state", help="Which approvals to list: waiting, approved, denied or withdrawn.")
    ] = "waiting",
    *,
    as_json: bool,
) -> int:
    """List the approvals of your groups, newest first."""
    with open_http(connection) as server:
        approvals = all_approvals(lambda query: server.call("GET", "approvals", query=query), state)
    rows = [[approval[member] for member in ("approvalId", "message", "owner", "expiresAt")] for approval in approvals]
    if as_json:
        print_json({"approvals": approvals})
    else:
        columns = ("approval", "question", "requested by", "expires")
        console().print(records(columns, rows) if rows else "no approvals")
    return EXIT_DONE


@uses_server(Served)
def approve(
    connection: ConnectionOptions, approval: Approval, reason: Reason = "", yes: Yes = False, *, as_json: bool
) -> int:
    """Show a call and approve it."""
    return _decide(connection, approval, "approve", reason, confirmed=yes, as_json=as_json)


@uses_server(Served)
def deny(
    connection: ConnectionOptions, approval: Approval, reason: Reason = "", yes: Yes = False, *, as_json: bool
) -> int:
    """Show a call and deny it."""
    return _decide(connection, approval, "deny", reason, confirmed=yes, as_json=as_json)


@uses_server(Served)
def callback(
    connection: ConnectionOptions,
    address: Annotated[
        str, typer.Argument(metavar="ADDRESS", help="The address that a tool has made, or only its last part.")
    ],
    body: Annotated[str, typer.Argument(metavar="BODY", help="The JSON that the step waits for.")],
    *,
    as_json: bool,
) -> int:
    """Send a callback to a waiting step."""
    try:
        payload = loads(body, MAX_DEPTH)
    except ValueError as error:
        raise BatonError(f"BODY is not JSON: {error}") from error
    with open_http(connection, has_secret_path=True) as server:
        reply = server.call("POST", f"callbacks/{address.rpartition('/')[2]}", body=payload)
    if as_json:
        print_json(reply)
    else:
        console().print("accepted")
    return EXIT_DONE


def _decide(
    connection: ConnectionOptions, approval_id: str, decision: str, reason: str, *, confirmed: bool, as_json: bool
) -> int:
    """Show a call, ask for confirmation, and send the decision with the digest of the call that it has shown."""
    if not re.fullmatch(r"[\w-]+", approval_id):
        raise BatonError(f"{approval_id!r} is not an approval's id: `baton approvals` lists them")
    with open_http(connection) as server:
        approval = server.call("GET", f"approvals/{approval_id}")
        if not as_json:
            # Nothing is cut off: the end of a word may matter.
            console().print(details((name, _text(approval[key])) for name, key in _DETAILS.items() if key in approval))
        if not confirmed:
            if not at_terminal():
                raise BatonError("there is no terminal to confirm the decision: add --yes")
            terminal = Terminal(interactive=True)
            if terminal.line(f"{decision.capitalize()} this call? [y/N]").strip().lower() not in ("y", "yes"):
                return EXIT_FAILED
        body = {"decision": decision, "digest": approval["digest"], "reason": reason, "from": "cli"}
        result = server.call("POST", f"approvals/{approval_id}", body=body)
    if as_json:
        print_json(result)
    else:
        console().print(f"{result['state']} at {result['decidedAt']}")
    return EXIT_DONE


_DETAILS: Final = {
    "question": "message",
    "tool": "tool",
    "arguments": "arguments",
    "requested by": "owner",
    "workflow": "workflow",
    "step": "step",
    "task": "task",
    "requested": "askedAt",
    "expires": "expiresAt",
    "state": "state",
}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
