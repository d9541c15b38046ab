"""The server that the tests of the remote commands use."""

from typing import Annotated, Literal

from pydantic import BaseModel

from mcp_baton import (
    Argument,
    Context,
    Header,
    Server,
    ToolError,
    ToolStep,
    Workflow,
    ask_user,
    item,
    prompt_arg,
    step,
    step_output,
)
from mcp_baton.aws import handler

server = Server("s")


class Approval(BaseModel):
    approved_by: str
    amount: float = 10.0


@server.tool
def fetch(order: str) -> dict[str, str]:
    return {"order": order, "email": f"{order}@example.com"}


@server.tool
def refund(order: str, approved_by: str | None = None) -> str:
    if approved_by is None:
        raise ToolError("not [bold]approved[/bold]\x1b[31m")
    return f"R-{order}-{approved_by}"


@server.tool
def notify(email: str, text: str, copies: int = 0) -> str:
    """Send a mail."""
    return f"{email}: {text} ({copies})"


@server.tool
def sign(account: str, kind: Literal["now", "later"]) -> str:
    if kind == "later":
        raise ToolError("too late")
    return f"{account} signed it's {kind}"


@server.tool
def transfer(pin: int, note: str) -> str:
    if pin != 4711:
        raise ToolError("wrong PIN")
    return note


@server.tool
def approve(ctx: Context) -> str:
    answer = ctx.elicit("Who approves?", Approval)
    return f"{answer.action} {answer.data.approved_by} {answer.data.amount}" if answer.data else answer.action


@server.tool(task="required")
def count(ctx: Context, to: int = 3) -> str:
    for number in range(to):
        ctx.report_progress(number, to, "counting")
    if to > 5:
        raise ToolError("too many")
    return f"counted to {to}"


@server.tool
def region(where: Annotated[str, Header("Region")]) -> str:
    return where


@server.prompt
def greeting(name: str) -> str:
    """Greet a person."""
    return f"Greet {name}."


fetch_step = ToolStep("fetch", tool=fetch, arguments={"order": prompt_arg("order")})
refund_step = ToolStep("refund", tool=refund, arguments={"order": prompt_arg("order")}, guidance="Ask a supervisor.")
email = {"email": step_output("fetch", "email")}
order = Argument("order", "The order", required=True)
server.add_workflow(Workflow(name="done", description="do it", arguments=[order], steps=[fetch_step]))
server.add_workflow(
    Workflow(
        name="paused",
        description="refund it",
        arguments=[order],
        steps=[fetch_step, refund_step, ToolStep("notify", tool=notify, arguments=email)],
    )
)

account, pin = Argument("account", required=True), Argument("pin", required=True, secret=True, type=int)
sign_step = ToolStep("sign", tool=sign, arguments={"account": prompt_arg("account")})
transfer_step = ToolStep("transfer", tool=transfer, arguments={"pin": prompt_arg("pin"), "note": step_output("sign")})
server.add_workflow(Workflow(name="pay", description="pay", arguments=[account, pin], steps=[sign_step, transfer_step]))


@server.workflow
def tell(order: str) -> None:
    copies = ask_user("copies", "How many copies of {order}?", returns=int)
    step(notify)(email="a@example.com", text=order, copies=copies)


@server.tool
def pack(article: str) -> str:
    if article == "desk":
        raise ToolError("too large")
    return f"packed {article}"


@server.workflow
def pack_all() -> None:
    step(pack, each=["lamp", "desk", "book"])(article=item())


lambda_handler = handler(server)
