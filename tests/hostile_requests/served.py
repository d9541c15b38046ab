"""The server that the hostile requests are sent to. It has tools, resources, prompts and workflows of each kind."""

import enum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from mcp_baton import Argument, Context, Fetch, Header, Server, ToolStep, Workflow, constant, prompt_arg, step_output

server = Server("rude", version="1.0.0", instructions="Returns its input.")


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


class Line(BaseModel):
    sku: str = Field(min_length=1, max_length=20)
    count: int = Field(ge=1, le=1_000_000)
    price: float = 0.0
    colour: Colour = Colour.RED
    tags: dict[str, list[int]] = {}


@server.tool
def echo(text: str) -> str:
    return text


@server.tool
def plain(a: int, b: float, c: bool, d: list, e: dict) -> dict:  # type: ignore[type-arg]
    return {"a": a, "b": b, "c": c, "d": d, "e": e}


@server.tool
def order(
    lines: list[Line], to: Annotated[str, Field(pattern=r"^[a-z]+@[a-z]+$")], mode: Literal["a", "b"] = "a"
) -> int:
    return sum(line.count for line in lines)


@server.tool
def anything(value: Any = None) -> Any:
    return value


@server.tool
async def later(number: int, ctx: Context) -> int:
    ctx.report_progress(1, 2, "half")
    ctx.log("warning", {"number": number})
    return number


@server.tool
def mirrored(region: Annotated[str, Header("Region")]) -> str:
    return region


@server.tool
def asking(ctx: Context) -> str:
    return str(ctx.elicit("name", "Who are you?", {"type": "object", "properties": {"name": {"type": "string"}}}))


@server.resource("docs://all", mime_type="text/markdown")
def all_docs() -> str:
    return "# All"


@server.resource("docs://{topic}/{+rest}")
def docs(topic: str, rest: str) -> dict[str, str]:
    return {"topic": topic, "rest": rest}


@server.resource("tree://{+root}/{+branch}/leaf")
def tree(root: str, branch: str) -> str:
    return f"{root} {branch}"


@server.resource("date://{y}-{m}-{d}")
def date(y: str, m: str, d: str) -> str:
    return f"{d}.{m}.{y}"


@server.prompt
def greeting(name: str, times: int = 1) -> str:
    return f"Hello {name}!" * min(times, 3)


@server.completion("greeting", "name")
def names(typed: str, arguments: dict[str, Any]) -> list[str]:
    return [typed + "kim", *map(str, arguments)]


server.add_workflow(
    Workflow(
        name="flow",
        description="order lines",
        arguments=[
            Argument("text", "A text", required=True),
            Argument("count", "How many", type=int),
            Argument("skus", "Which", type=list[str]),
        ],
        steps=[
            ToolStep("echo", tool="echo", arguments={"text": prompt_arg("text")}, guidance="Mind {text}."),
            Fetch("read", resources=["docs://{topic}/x"], template_bindings={"topic": step_output("echo")}),
            ToolStep("any", tool="anything", arguments={"value": constant({"x": "{text}"})}, retryable=True),
            ToolStep("later", tool="later", arguments={"number": prompt_arg("count")}),
        ],
    )
)
server.add_workflow(
    Workflow(
        name="plain_flow",
        description="echo",
        durable=False,
        arguments=[Argument("text", "A text", required=True)],
        steps=[ToolStep("echo", tool="echo", arguments={"text": prompt_arg("text")})],
    )
)
