"""`baton publish`: the descriptions of a server for the MCP registry (docs/commands.md, Publish)."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlsplit

import typer

from mcp_baton.cli import options
from mcp_baton.exceptions import BatonError
from mcp_baton.protocol.envelope import REVISIONS

if TYPE_CHECKING:
    from mcp_baton.workflow.server_view import Options

SERVER_SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
CARD_SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
GUIDE: Final = "https://modelcontextprotocol.io/registry/quickstart"

MAX_LENGTHS: Final[Mapping[str, int]] = {"title": 100, "description": 100, "version": 255}
"""The maximum lengths of texts in both documents, characters."""

ICON_TYPES: Final = ("image/png", "image/jpeg", "image/jpg", "image/svg+xml", "image/webp")
ICON_URL: Final = 255

FOREIGN_HOSTS: Final = r"([^.]+|[0-9.]+|\[.*|.*\.amazonaws\.com(\.cn)?|.*\.on\.aws)"
"""Hosts whose domain does not belong to the operator: hosts of AWS, IP addresses, and names without a domain."""


def publish(
    target: options.Target,
    url: Annotated[
        str | None, typer.Option(parser=options.endpoint, metavar="URL", help="The deployed server: https://…/mcp.")
    ] = None,
    stack: Annotated[
        str | None, typer.Option(metavar="NAME", help="The deployed stack, instead of --url and --header.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            parser=options.registry_name,
            metavar="NAMESPACE/NAME",
            help="The name in the registry, such as io.github.kim/shop. Default: from the URL's domain.",
        ),
    ] = None,
    description: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="What the server does, for people. Default: the server's title."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A header with a secret that each client must send, such as x-api-key; may be repeated.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the documents, and publish nothing.")] = False,
) -> int:
    """Print server.json and the server card for a registry.

    Publishing itself is not supported yet: use --dry-run, and the official mcp-publisher.
    """
    from mcp_baton.local.clean_text import print_json
    from mcp_baton.local.loader import load
    from mcp_baton.server.server import Server

    if not dry_run:
        raise BatonError(
            "publishing is not supported yet. Add --dry-run, save the member 'server.json' in a file of that "
            f"name, and run `mcp-publisher login github` (or dns, http) and `mcp-publisher publish` beside it: {GUIDE}"
        )
    if (url is None) == (stack is None):
        raise BatonError("name the deployment: either --url or --stack")
    headers = [options.header_name(text) for text in header or ()]
    if stack is not None:
        url, headers = _stack_address(stack)
    server = load(target, Server)
    server.check()
    print_json(documents(server.options, str(url), name, description, headers))
    return 0


def documents(
    server: "Options", url: str, name: str | None, description: str | None, headers: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Return `server.json` and the server card, by file name.

    Neither lists tools, resources or prompts: clients get the lists from the server.

    Raises:
        BatonError: a value is missing, or the registry would refuse it.
    """
    if not url.startswith("https://"):
        raise BatonError(f"{url} is not public: registries list only https:// URLs")
    texts = {
        "title": server.title,
        "description": description or server.title,
        "version": server.version,
    }
    if not texts["description"]:
        raise BatonError("the server has no title: describe it with --description")
    for field, limit in MAX_LENGTHS.items():
        if len(texts[field] or "") > limit:
            raise BatonError(
                f"the {field} has {len(texts[field] or '')} characters, and registries take at most {limit}"
            )
    remote: dict[str, Any] = {"type": "streamable-http", "url": url}
    if headers:
        remote["headers"] = [{"name": header, "isRequired": True, "isSecret": True} for header in headers]
    identity: dict[str, Any] = {
        "name": name or _name(server.name, url),
        **texts,
        "websiteUrl": server.website_url,
        "icons": [icon for icon in server.icons if _is_listed(icon)],
    }
    identity = {field: value for field, value in identity.items() if value}
    revisions = {"supportedProtocolVersions": list(REVISIONS)}
    return {
        "server.json": {"$schema": SERVER_SCHEMA, **identity, "remotes": [remote]},
        "server-card.json": {"$schema": CARD_SCHEMA, **identity, "remotes": [{**remote, **revisions}]},
    }


def _name(name: str, url: str) -> str:
    """Return the name in the namespace of the URL's domain: `com.example.shop/orders` for shop.example.com."""
    host = urlsplit(url).hostname or ""
    if re.fullmatch(FOREIGN_HOSTS, host):
        raise BatonError(f"{host} is not your domain: name the server with --name, such as io.github.kim/shop")
    return options.registry_name(".".join(reversed(host.split("."))) + "/" + re.sub(r"[^A-Za-z0-9._-]+", "-", name))


def _is_listed(icon: Mapping[str, Any]) -> bool:
    """Whether the registry takes an icon. It takes no `data:` URLs."""
    source = str(icon.get("src"))
    return (
        source.startswith("https://") and len(source) <= ICON_URL and icon.get("mimeType", ICON_TYPES[0]) in ICON_TYPES
    )


def _stack_address(stack: str) -> tuple[str, list[str]]:
    """Return the URL of a stack, and the headers with a secret that its callers send.

    Raises:
        BatonError: there is no such stack, or clients from a registry cannot call it.
    """
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        [description] = boto3.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
    except (BotoCoreError, ClientError) as error:
        raise BatonError(f"the stack {stack} cannot be read: {error}") from error
    parameters = {item["ParameterKey"]: item.get("ParameterValue", "") for item in description.get("Parameters", [])}
    outputs = {item["OutputKey"]: item["OutputValue"] for item in description.get("Outputs", [])}
    if "Url" not in outputs or "Auth" not in parameters:
        raise BatonError(f"the stack {stack} was not deployed from Baton's template: use --url")
    if parameters["Auth"] == "IAM":
        raise BatonError("Auth=IAM: registries cannot describe requests that are signed with AWS credentials")
    public = parameters.get("PublicUrl")
    url = f"{public.rstrip('/')}/mcp" if public else outputs["Url"]
    return url, ["x-api-key"] if parameters["Auth"] == "API_KEY" else []
