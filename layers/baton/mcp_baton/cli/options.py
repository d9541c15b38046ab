"""Arguments and options that several commands have, and the parsers of their values. Typer also passes default values
through a parser."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from inspect import Parameter, Signature, signature
from ipaddress import ip_address
from typing import Annotated, Any, Final, get_type_hints
from urllib.parse import urlsplit

import typer

from mcp_baton.cli.remote.errors import print_error
from mcp_baton.exceptions import BatonError
from mcp_baton.settings import ALIAS


def _matching(pattern: str, remedy: str) -> Callable[[str], str]:
    """Return a parser that accepts texts of a pattern."""

    def parse(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise typer.BadParameter(f"{text!r} {remedy}")
        return text

    return parse


database = _matching(r"embedded|https?://[^\s/?#]+/?", "is neither 'embedded' nor a URL such as http://127.0.0.1:8001")
table_name = _matching(r"[A-Za-z0-9_.-]{3,255}", "is not a table's name: use 3 to 255 of A-Z a-z 0-9 _ . -")
queue = _matching(
    r"https?://[^\s/?#]+/\S+", "is not a queue's URL: https://sqs.<region>.amazonaws.com/<account>/<name>"
)
alias = _matching(ALIAS, "is not a function's alias: use its ARN, or name:alias")
# RFC 9110, section 5.1
header_name = _matching(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", "is not the name of a header")


def is_loopback(host: str) -> bool:
    """Whether a host of a URL is this machine, so that nobody else can read the requests."""
    try:
        return host.lower() == "localhost" or ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_encryption(url: str, *, insecure_http: bool) -> None:
    """Refuse to send a secret without encryption. Raises `BatonError` if the URL begins with `http://`, and its host is
    another machine."""
    try:
        parts = urlsplit(url)
        scheme, host = parts.scheme, parts.hostname or ""
    except ValueError as error:
        raise BatonError(f"the server's URL is invalid: {error}") from None
    # Parsers disagree about the host before a backslash.
    if scheme != "https" and not insecure_http and ("\\" in url or not is_loopback(host)):
        raise BatonError(
            f"the credentials would reach {host} without encryption: use an https:// URL. --insecure-http allows it"
        )


SET_REGION: Final = "Set AWS_REGION to the region of the deployment, such as eu-central-1."


def environment_region() -> str | None:
    """Return `AWS_REGION`, which Lambda and the SDKs of other languages read; boto3 does not. If it is not set, boto3
    finds the region by `AWS_DEFAULT_REGION` or the profile."""
    return os.environ.get("AWS_REGION") or None


def check_region(region: str, remedy: str = SET_REGION) -> None:
    """Raise `BatonError` if this cannot be a region: botocore would look for its hosts, for seconds."""
    if not re.fullmatch(r"[a-z]{2}(-[a-z]+)+-[0-9]", region):
        raise BatonError(f"{region!r} is not the name of an AWS region. {remedy}")


# Without a scheme: `127.0.0.1:8000/mcp`.
_HOST: Final = re.compile(r"(?:localhost|[\w-]+(?:\.[\w-]+)+|\[[0-9a-fA-F:]+\]):\d+(?:/.*)?")


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """How to reach a server, or the table of its tasks: WHERE and the other options of the connection."""

    where: str | None
    table: Annotated[
        str | None,
        typer.Option("--table", metavar="NAME", help="For operators: read the DynamoDB table, not a server."),
    ] = None
    owner: Annotated[
        str | None,
        typer.Option("--owner", metavar="OWNER", help="With --table: the tasks' owner."),
    ] = None
    dynamodb: Annotated[
        str | None,
        typer.Option("--dynamodb", parser=database, metavar="URL", help="With --table: the URL of another DynamoDB."),
    ] = None
    api_key: Annotated[
        str | None, typer.Option("--api-key", metavar="KEY", help="Sent as x-api-key; env:NAME reads a variable.")
    ] = None
    token: Annotated[
        str | None, typer.Option("--token", metavar="TOKEN", help="Sent as a bearer token; env:NAME reads a variable.")
    ] = None
    aws: Annotated[
        bool, typer.Option("--aws", help="Sign the requests with AWS credentials (Signature Version 4).")
    ] = False
    header: Annotated[
        list[str] | None,
        typer.Option(
            "--header",
            metavar="NAME:VALUE",
            help="One more header; may be repeated. The value env:NAME reads a variable.",
        ),
    ] = None
    insecure_http: Annotated[
        bool, typer.Option("--insecure-http", help="Send credentials to another machine without encryption.")
    ] = False

    @property
    def is_target(self) -> bool:
        """Whether WHERE is a file or a module."""
        where = self.where or ""
        return "://" not in where and (".py" in where or ":" in where)

    @property
    def has_credentials(self) -> bool:
        return bool(self.api_key or self.token or self.aws or self.header)

    def check_where(self, *, may_be_target: bool) -> None:
        """Refuse a URL without its scheme, a file with credentials, a file for a command about existing tasks, and the
        options of a table."""
        if self.owner or self.dynamodb:
            raise BatonError("--owner and --dynamodb are for --table: a server lists the tasks of its caller")
        if _HOST.fullmatch(self.where or ""):
            raise BatonError(f"{self.where} is not a URL without its scheme: write http://{self.where}")
        if self.is_target and not may_be_target:
            raise BatonError(
                f"{self.where} would be served for this command only, without tasks: name the URL of its `baton serve`"
            )
        if self.is_target and self.has_credentials:
            raise BatonError(
                f"{self.where} is served in this process: --api-key, --token, --aws and --header are for URLs"
            )


Port = Annotated[int, typer.Option(min=0, max=65535, metavar="PORT", help="0 for a free port.")]
Host = Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen on.")]
Target = Annotated[
    str, typer.Argument(metavar="TARGET", help="The Server: app.py, app.py:server or package.module:server.")
]

Where = Annotated[
    str,
    typer.Argument(metavar="WHERE", help="A URL, or a file or module with a Server (app.py:server)."),
]
Served = Annotated[str, typer.Argument(metavar="WHERE", help="The server's URL.")]
WhereOrTask = Annotated[str, typer.Argument(metavar="WHERE", help="A URL. With --table, the task's id instead.")]
OptionalTask = Annotated[str | None, typer.Argument(metavar="TASK", help="The task's id, or a unique prefix of it.")]
WhereOrTable = Annotated[str | None, typer.Argument(metavar="WHERE", help="A URL; not with --table.")]
Task = Annotated[str, typer.Argument(metavar="TASK", help="The task's id, or a unique prefix of it.")]
Arguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="key=text, key:=JSON, or key=@FILE for the file's text."),
]

Table = Annotated[
    str | None, typer.Option("--table", parser=table_name, metavar="NAME", help="The DynamoDB table of the tasks.")
]
Database = Annotated[
    str | None, typer.Option("--dynamodb", parser=database, metavar="URL", help="The URL of another DynamoDB.")
]
ReadUnits = Annotated[
    float, typer.Option("--read-units", min=1, metavar="N", help="The maximum of read units of the table per second.")
]

_AS_JSON: Final = Annotated[bool, typer.Option("--json", help="Print one JSON document on the standard output.")]


def uses_server(
    where: Any, *, optional: bool = False, table: bool = False
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Decorate a command whose parameter `connection` has the `ConnectionOptions`: WHERE, which may be `optional`, and
    its options, those of a `table` included.

    The command prints its errors on the standard error and returns the exit code. With `--json` it also prints
    `{"error": {"message", "code"?, "data"?}}` on the standard output.
    """
    hints = get_type_hints(ConnectionOptions, include_extras=True)
    left_out = {"where"} if table else {"where", "table", "owner", "dynamodb"}
    shared = {field.name: field.default for field in fields(ConnectionOptions) if field.name not in left_out}

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        @wraps(command)
        def run(**values: Any) -> int:
            connection = ConnectionOptions(**{name: values.pop(name) for name in ("where", *shared)})
            try:
                return command(connection, **values)
            except BatonError as error:
                return print_error(error, as_json=values["as_json"])

        default = None if optional else Parameter.empty
        parameters = [Parameter("where", Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=where)]
        own = signature(command).parameters
        parameters += [own[name] for name in own if name not in ("connection", "as_json")]
        for name, value in shared.items():
            parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=value, annotation=hints[name]))
        parameters.append(Parameter("as_json", Parameter.KEYWORD_ONLY, default=False, annotation=_AS_JSON))
        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorate
