"""The names of tools, workflows and their arguments: those that every host takes (docs/tools.md, Names).

MCP itself takes more (server/tools, Tool Names), but hosts pass them on to models' APIs, which do not.
"""

import re
from typing import Final

NAME: Final = "1 to 64 of A-Z a-z 0-9 _ -, a letter or _ first"
"""The rule, in words."""

TASK_ID: Final = "task_id"
"""The argument of a tool, or of a prompt, that names a task (docs/workflows.md, As a tool)."""

TASK_ACTION: Final = "task_action"
"""The argument of a workflow's tool that says what else is to be done than to run it (docs/console.md)."""

TASK_RESULT: Final = "task_result"
"""The argument beside it that holds the result with which a task is completed."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


def hosts_take(name: str) -> bool:
    """Whether every host takes this name."""
    return _NAME.fullmatch(name) is not None
