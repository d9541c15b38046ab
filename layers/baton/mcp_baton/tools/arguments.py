"""Names of functions, and arguments of prompts."""

import re
from typing import Any, Final

from msgspec import Struct

from mcp_baton.protocol.json import Json

NAME: Final = "1 to 64 of A-Z a-z 0-9 _ -, a letter or _ first"
"""The rule, in words."""


TASK_ID: Final = "task_id"
"""The argument of a tool, or of a prompt, that names a task (docs/workflows.md, As a tool)."""


NEW_TASK: Final = "new"
"""The task id with which a call of a workflow's tool always starts a new task (docs/workflows.md, Repeated calls)."""


_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


def is_portable_name(name: str) -> bool:
    """Whether every host accepts this name."""
    return _NAME.fullmatch(name) is not None


class Argument(Struct, frozen=True):
    """A prompt argument.

    Attributes:
        name: Its name. A workflow function takes it from the parameter: `Annotated[str, Argument(secret=True)]`.
        description: What it is, for the person or model that fills it in.
        required: Whether the prompt can be used without it.
        type: What the string that a client sends is converted to: any type that pydantic knows.
        default: The value of an optional argument that is left out, as JSON: it is converted as if the client had sent
            it. `None` for no default.
        secret: Its value is never stored. `<secret NAME>` is shown instead of it, and it must be given again with a
            resume (docs/workflows.md, Secret arguments).
        other_names: Further names by which a caller may give it. A workflow function takes them from `AliasChoices`.
    """

    name: str = ""
    description: str = ""
    required: bool = False
    type: Any = str
    default: Json = None
    secret: bool = False
    other_names: tuple[str, ...] = ()

    @property
    def shown_description(self) -> str:
        """The description that lists show."""
        note = "Secret: it is not stored, and must be given again when the task is resumed." if self.secret else ""
        return " ".join(text for text in (self.description, note) if text)


TASK_ARGUMENT: Final = Argument(
    TASK_ID, "The task_id of an earlier result, to continue that task. Leave it out to start anew."
)
