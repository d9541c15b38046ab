"""A server whose workflow waits for a callback and then for a time, for the tests of commands."""

from datetime import timedelta

from mcp_baton import Context, Server, sleep_until, step, wait_for_callback
from mcp_baton.aws import handler

server = Server("ci")
addresses: dict[str, str] = {}


@server.tool
def start_build(branch: str, ctx: Context) -> str:
    addresses[branch] = ctx.callback_url("build")
    return "started"


@server.tool
def address_of(branch: str) -> str:
    """Return the callback address that the build server was given."""
    return addresses[branch]


@server.tool
def deploy(image: str) -> str:
    return f"{image} is deployed"


@server.workflow
def release(branch: str) -> None:
    step(start_build)(branch=branch)  # type: ignore[call-arg]
    build = wait_for_callback("build", dict[str, str], within=timedelta(hours=2))
    step(deploy)(image=build["image"])


@server.workflow
def release_later(branch: str) -> None:
    """Release a branch after a night."""
    sleep_until("night", timedelta(hours=9))
    step(deploy)(image=branch)


lambda_handler = handler(server)
