"""WHERE: a URL, a file or module that is served in this process, or a profile's name."""

import json
import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from traceback import extract_tb
from typing import Annotated, Any, Final

import typer

from mcp_baton.cli import values
from mcp_baton.cli.remote.client import Remote, Transport
from mcp_baton.cli.remote.ending import faulty
from mcp_baton.cli.remote.printing import Progress, short
from mcp_baton.cli.remote.profiles import Access, profile, profiles_file, secret
from mcp_baton.cli.remote.questions import Terminal, at_terminal
from mcp_baton.exceptions import BatonError
from mcp_baton.local.gateway import proxy_event
from mcp_baton.local.log import TerminalHandler
from mcp_baton.server.server import Server
from mcp_baton.testing.client import Client
from mcp_baton.testing.connecting import connect
from mcp_baton.testing.wire import OWNER_HEADER, in_event

_HOST: Final = re.compile(r"(?:localhost|[\w-]+(?:\.[\w-]+)+|\[[0-9a-fA-F:]+\]):\d+(?:/.*)?")
"""`127.0.0.1:8000/mcp`: a URL without its scheme."""


UNUSABLE: Final = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors that an answer causes which is not formed as MCP wants it. Answers are not checked against a schema."""


class WhereError(BatonError):
    """What was said of the server cannot be used; says why, and what to do about it."""


@dataclass(frozen=True, slots=True)
class Way:
    """How the command line says to reach a server: what stands for WHERE, and the options beside it."""

    where: str
    api_key: str | None = None
    token: str | None = None
    aws: bool = False
    header: Sequence[str] | None = None

    @property
    def is_target(self) -> bool:
        """Whether it is a file or module."""
        return "://" not in self.where and (".py" in self.where or ":" in self.where)

    def shown_options(self) -> tuple[list[str], list[str]]:
        """The options as a command line that is printed has them, and the names of those that it must leave out,
        since a secret may stand in them."""
        named = {"--api-key": self.api_key, "--token": self.token}
        shown = [word for name, value in named.items() if value and value.startswith("env:") for word in (name, value)]
        left_out = [name for name, value in named.items() if value and not value.startswith("env:")]
        return [*shown, *(["--aws"] if self.aws else [])], [*left_out, *(["--header"] if self.header else [])]


@dataclass(frozen=True, slots=True)
class Connection:
    """A server that is reached, and who sits before it."""

    remote: Remote
    terminal: Terminal
    progress: Progress


def refuse_target(way: Way) -> None:
    """Refuse a file or module where a task is looked for: it would be served with no tasks in it.

    Raises:
        WhereError: it is one; says what to name instead.
    """
    if way.is_target and not _HOST.fullmatch(way.where):
        raise WhereError(
            f"{way.where} would be served for this command alone, with no tasks: name the URL of its `baton serve`"
        )


@contextmanager
def connection(way: Way, *, as_json: bool) -> Iterator[Connection]:
    """The server at WHERE.

    Raises:
        WhereError, ProfileError, LoadError: it cannot be told what that is.
        Unreachable, Denied: with its first request: it is not there, or lets nobody in.
    """
    progress = Progress(shown=not as_json)
    terminal = Terminal(interactive=not as_json and at_terminal(), quiet=progress.stop)

    def made(transport: Transport, sleep: Callable[[float], None]) -> Connection:
        return Connection(Remote(transport, terminal.answer, progress.told, sleep), terminal, progress)

    with progress:
        if way.is_target:
            if way.api_key or way.token or way.aws or way.header:
                raise WhereError(
                    f"{way.where} is served in this process: --api-key, --token, --aws and --header are for URLs"
                )
            if _HOST.fullmatch(way.where):
                raise WhereError(f"{way.where} is no URL without its scheme: write http://{way.where}")

            with connected(way.where) as transport:
                yield made(transport, transport.sleep)
            return
        access = access_of(way)
        try:
            from mcp_baton.cli.remote.http import HttpTransport
        except ModuleNotFoundError as error:
            raise WhereError(
                f"speaking to a server needs the package {error.name!r}: install mcp-baton[local]"
            ) from error
        import time

        server = HttpTransport(access)
        try:
            yield made(server, time.sleep)
        except UNUSABLE as error:
            place = extract_tb(error.__traceback__)[-1]
            what = f"{type(error).__name__}: {error}, {Path(place.filename).name} line {place.lineno}"
            raise faulty(f"{way.where} gave an answer that cannot be used ({short(what)})") from error
        finally:
            server.close()


def access_of(way: Way) -> Access:
    """How a URL, or the server of a profile, is reached; options come before what the profile says.

    Raises:
        WhereError: the URL or an option cannot be used.
        ProfileError: the profile cannot.
    """
    if "://" in way.where:
        if not way.where.startswith(("http://", "https://")):
            raise WhereError(f"{way.where} is no HTTP URL: it begins with http:// or https://")
        access = Access(way.where)
    else:
        access = profile(way.where, profiles_file())
    if way.api_key is not None:
        access = replace(access, api_key=secret(way.api_key, "--api-key"))
    if way.token is not None:
        access = replace(access, token=secret(way.token, "--token"))
    access = replace(access, aws=access.aws or way.aws, headers={**access.headers, **_headers(way.header or ())})
    if access.aws and access.token:
        raise WhereError("a request is either signed or carries a bearer token: leave --token or --aws (auth) out")
    return access


def _headers(told: Sequence[str]) -> dict[str, str]:
    made: dict[str, str] = {}
    for each in told:
        name, colon, value = each.partition(":")
        if not colon:
            # What was written may be a secret: it is not repeated.
            raise WhereError("--header is NAME:VALUE, and one has no colon")
        made[values.header(name.strip())] = value.strip()
    return made


_ENDED = object()


class InProcess:
    """Messages to a server in this process.

    Args:
        client: The server, as `mcp_baton.testing` serves it.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._ids = count(1)

    def close(self) -> None:
        """There is nothing to let go of: `connected` ends with it."""

    def sleep(self, seconds: float) -> None:
        """Let time pass for the server, where nothing is waited for."""
        self._client.clock.advance(seconds)

    def send(self, message: Mapping[str, Any], headers: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        """The messages of the answer, as the handler makes them."""
        sent = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **headers}
        sent[OWNER_HEADER] = self._client.owner or ""
        event = proxy_event(
            "POST",
            "/mcp",
            list(sent.items()),
            json.dumps(message).encode(),
            request_id=f"local-{next(self._ids)}",
            owner_header=OWNER_HEADER,
        )
        arrived: SimpleQueue[Any] = SimpleQueue()
        Thread(target=self._serve, args=(event, arrived), daemon=True, name="in-process server").start()
        while (told := arrived.get()) is not _ENDED:
            if isinstance(told, BaseException):
                raise told
            yield told

    def _serve(self, event: dict[str, Any], arrived: "SimpleQueue[Any]") -> None:
        try:
            sink = _Sink(arrived)
            response, _ = self._client.stage.function.invoke(event, sink.open)
            self._client.stage.worker.look()
            body = response.get("body") or ""
            if body:
                arrived.put(json.loads(body))
        except BaseException as error:  # noqa: BLE001 - it is raised where the answer is waited for
            arrived.put(error)
        finally:
            arrived.put(_ENDED)


class _Sink:
    """An answer that is streamed."""

    def __init__(self, arrived: "SimpleQueue[Any]") -> None:
        self._arrived = arrived
        self._rest = b""

    def open(self, _status: int, _headers: Mapping[str, str]) -> "_Sink":
        return self

    def write(self, data: bytes) -> None:
        *events, self._rest = (self._rest + data).split(b"\n\n")
        for event in events:
            for message in in_event(event.decode()):
                self._arrived.put(message)


@contextmanager
def connected(target: str) -> Iterator[InProcess]:
    """The server in a file or module, served here.

    Raises:
        LoadError: it cannot be had from there.
        WorkflowError: a workflow of it cannot work.
        SettingsError: moto is not installed.
    """
    from mcp_baton.local.loader import load

    # Without a handler, Python's last resort would print errors of tools as they are.
    logging.basicConfig(level=logging.WARNING, handlers=[TerminalHandler(sys.stderr, in_full=False, remedy="")])
    with connect(load(target, Server), owner="local") as client:
        yield InProcess(client)


Where = Annotated[
    str,
    typer.Argument(metavar="WHERE", help="A URL, a file or module with a Server (app.py:server), or a profile's name."),
]
Served = Annotated[str, typer.Argument(metavar="WHERE", help="A URL, or a profile's name.")]
WhereOrTask = Annotated[
    str,
    typer.Argument(metavar="WHERE", help="A URL, or a profile's name; not with --table."),
]
Task = Annotated[
    str | None, typer.Argument(metavar="TASK", help="The task's id, or so much of its beginning that one task has it.")
]
Arguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="key=text, key:=JSON, or key=@FILE for the file's text."),
]
ApiKey = Annotated[
    str | None, typer.Option("--api-key", metavar="KEY", help="Sent as x-api-key; env:NAME takes a variable's value.")
]
Token = Annotated[
    str | None, typer.Option("--token", metavar="TOKEN", help="Sent as a bearer token; env:NAME as for --api-key.")
]
Aws = Annotated[
    bool, typer.Option("--aws", help="Sign the requests with AWS credentials (Signature Version 4), as IAM asks for.")
]
Header = Annotated[
    list[str] | None, typer.Option("--header", metavar="NAME:VALUE", help="One more header; may be repeated.")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on the standard output, and nothing else.")]
Table = Annotated[
    str | None,
    typer.Option(
        "--table", metavar="NAME", help="For operators: the DynamoDB table itself, with AWS credentials, not a server."
    ),
]
Owner = Annotated[str | None, typer.Option("--owner", metavar="OWNER", help="With --table: whose tasks.")]
DynamoDB = Annotated[
    str | None,
    typer.Option(
        "--dynamodb", parser=values.database, metavar="URL", help="With --table: a DynamoDB that is not AWS's."
    ),
]
GoOn = Annotated[
    bool,
    typer.Option(
        "--continue", help="Make the calls that are left to the client, one by one, asking for what is missing."
    ),
]
