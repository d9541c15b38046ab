"""`baton approvals`, `approve` and `deny`: the approvals that wait for people (docs/approvals.md)."""

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from mcp_baton.cli.options import ConnectionOptions, Served, check_encryption, uses_server
from mcp_baton.cli.remote.errors import EXIT_DONE, EXIT_FAILED
from mcp_baton.exceptions import BatonError

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from mcp_baton.cli.remote.http import HttpTransport

APPROVALS_RESOURCE: Final = "approvals"

type State = Literal["waiting", "approved", "denied", "withdrawn"]
Approval = Annotated[str, typer.Argument(metavar="ID", help="The approval's id.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="The reason, which the requester reads.")]


@uses_server(Served)
def approvals(
    connection: ConnectionOptions,
    state: Annotated[State, typer.Option("--state", help="Which approvals to list.")] = "waiting",
    *,
    as_json: bool,
) -> int:
    """List the approvals of your groups, newest first."""
    from mcp_baton.cli.remote.printing import console
    from mcp_baton.local.clean_text import print_json

    with open_http(connection) as server:
        records = _list_approvals(server, state)
        if as_json:
            print_json({"approvals": records})
        else:
            console().print(_table_of(records) if records else "no approvals")
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


def open_http(connection: ConnectionOptions, *, has_secret_path: bool = False) -> "closing[HttpTransport]":
    """Connect to the HTTP API of the server at WHERE. `has_secret_path` is whether a path is a credential."""
    from mcp_baton.cli.remote.http import HttpTransport, access_of

    connection.check_where(may_be_target=False)
    access = access_of(connection)
    if has_secret_path:
        check_encryption(access.url, insecure_http=access.insecure_http)
    return closing(HttpTransport(access))


def _list_approvals(server: "HttpTransport", state: State) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    query: dict[str, str] | None = {"state": state}
    while query is not None:
        page = server.call("GET", APPROVALS_RESOURCE, query=query)
        records += page["approvals"]
        query = {"state": state, "cursor": page["nextCursor"]} if "nextCursor" in page else None
    return records


def _decide(
    connection: ConnectionOptions, approval_id: str, decision: str, reason: str, *, confirmed: bool, as_json: bool
) -> int:
    """Show a call, ask for confirmation, and send the decision with the digest of the call that it has shown."""
    from mcp_baton.cli.remote.printing import console
    from mcp_baton.cli.remote.questions import Terminal, at_terminal
    from mcp_baton.local.clean_text import print_json

    with open_http(connection) as server:
        record = server.call("GET", f"{APPROVALS_RESOURCE}/{approval_id}")
        if not as_json:
            console().print(_details_of(record))
        if not confirmed:
            if not at_terminal():
                raise BatonError("there is no terminal to confirm the decision: add --yes")
            terminal = Terminal(interactive=True)
            if terminal.line(f"{decision.capitalize()} this call? [y/N]").strip().lower() not in ("y", "yes"):
                return EXIT_FAILED
        body = {"decision": decision, "digest": record["digest"], "reason": reason, "from": "cli"}
        result = server.call("POST", f"{APPROVALS_RESOURCE}/{approval_id}", body=body)
    if as_json:
        print_json(result)
    else:
        console().print(f"{result['state']} at {result['decidedAt']}")
    return EXIT_DONE


def _table_of(approvals: Sequence[Mapping[str, Any]]) -> "Group":
    from mcp_baton.cli.remote.printing import records

    members = ("approvalId", "message", "owner", "expiresAt")
    rows = [[record[member] for member in members] for record in approvals]
    return records(("approval", "question", "requested by", "expires"), rows)


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


def _details_of(record: Mapping[str, Any]) -> "Table":
    """Return the call with everything that the server shows of it. Nothing is cut off: the end of a word may matter."""
    from mcp_baton.cli.remote.printing import details

    values = {name: record[member] for name, member in _DETAILS.items() if member in record}
    return details(
        (name, value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False))
        for name, value in values.items()
    )
