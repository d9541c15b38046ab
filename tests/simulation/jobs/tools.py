"""The tools that run as tasks in simulations of jobs."""

from dataclasses import dataclass
from functools import cache

from mcp_baton import Context, Server
from mcp_baton.protocol.json import Json
from mcp_baton.tools.questions import elicitation
from tests.simulation.servers import STAGE, weigh

FORM: dict[str, Json] = {"type": "object", "properties": {"by": {"type": "string"}}}


@dataclass(frozen=True, slots=True)
class JobPlan:
    """A call that becomes a task.

    Attributes:
        attempts: The maximum number of attempts until the client answers.
    """

    tool: str
    attempts: int


PLANS = (
    JobPlan("report", 3),
    JobPlan("charge", 1),
    JobPlan("weigh", 3),
    *(JobPlan("survey", 3),) * 2,
    *(JobPlan("order", 1),) * 3,
)


def report(of: int, ctx: Context) -> dict[str, Json]:
    return STAGE.call("report", {"of": of}, ctx)


def charge(of: int, ctx: Context) -> dict[str, Json]:
    return STAGE.call("charge", {"of": of}, ctx)


def survey(of: int, ctx: Context) -> dict[str, Json]:
    """Ask three questions at once, then another one."""
    result = STAGE.call("survey", {"of": of}, ctx)
    ctx.ask(*(elicitation(key, f"What is {key}?", FORM) for key in ("a", "b", "c")))
    ctx.elicit("last", "And what else?", FORM)
    return result


def order(of: int, ctx: Context) -> dict[str, Json]:
    """Ask before an action that must not be done twice."""
    result = STAGE.call("order", {"of": of}, ctx)
    ctx.elicit("sure", "Are you sure?", FORM)
    return result


@cache
def job_server() -> Server:
    server = Server("simulated jobs")
    for tool in (report, weigh, survey):
        server.add_tool(tool, task="required")
    for tool in (charge, order):
        server.add_tool(tool, task="required", idempotent=False)
    server.check()
    return server
