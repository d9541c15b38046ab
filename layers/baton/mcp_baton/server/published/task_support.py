"""How a tool may run as a task of its own: what `task=`, `idempotent=` and `task_start=` say (docs/background.md)."""

from typing import Any, Final, Literal

from msgspec import Struct

from mcp_baton.exceptions import RegistrationError
from mcp_baton.protocol.json import Json
from mcp_baton.server.published.labels import AllLabels

type Support = Literal["forbidden", "optional", "required"]
type Start = Literal["call", "explicit"]

SUPPORTS: Final = ("forbidden", "optional", "required")
STARTS: Final = ("call", "explicit")


class ToolOptions(AllLabels, total=False):
    """What is shown of a tool (see `Labels`), and how it runs as a task, as keyword arguments."""

    task: Support
    """Whether a call may become a task of its own, which a worker makes in the background: `forbidden` (the default),
    `optional`, where the client can have tasks, or `required`, which no other client can call."""
    idempotent: bool
    """`False` for a function that must not be begun again when it is not known what became of it: where its worker dies
    the task fails. Otherwise it is begun up to three times; `ctx.idempotency_key` stays."""
    task_start: Start
    """`explicit` for a function that begins in the request and calls `ctx.start_task()` where the background begins."""


class TaskSupport(Struct, frozen=True):
    """How a tool may run as a task.

    Attributes:
        support: `forbidden`, `optional` or `required`.
        idempotent: Whether it may be begun again when it is not known what became of it.
        explicit: Whether its task begins where the function says so.
    """

    support: str = "forbidden"
    idempotent: bool = True
    explicit: bool = False

    @property
    def execution(self) -> dict[str, Json]:
        """The member `execution` of the tool's definition (MCP 2025-11-25, server/tools, Tool)."""
        return {"taskSupport": self.support}


NO_TASK = TaskSupport()


def task_support(options: dict[str, Any], what: str) -> TaskSupport:
    """Take what concerns tasks out of a tool's options. What is left are its labels.

    Raises:
        RegistrationError: an option has no such value, or says nothing where the tool never is a task.
    """
    support = options.pop("task", "forbidden")
    start = options.pop("task_start", "call")
    idempotent = options.pop("idempotent", True)
    for name, value, choices in (("task", support, SUPPORTS), ("task_start", start, STARTS)):
        if value not in choices:
            from mcp_baton.hints import meant

            raise RegistrationError(f"{what}: {name}={value!r} is not possible{meant(value, choices)}")
    if not isinstance(idempotent, bool):
        raise RegistrationError(f"{what}: idempotent={idempotent!r} is neither True nor False")
    if support == "forbidden" and (start != "call" or not idempotent):
        given = "task_start" if start != "call" else "idempotent"
        raise RegistrationError(f"{what}: {given} concerns tools that run as tasks; add task='optional' or 'required'")
    return TaskSupport(support, idempotent, start == "explicit")
