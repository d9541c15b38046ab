"""Which task variables a tool sets: what `sets=` says (docs/workflows.md, Task variables)."""

from collections.abc import Sequence
from typing import Final

from mcp_baton.exceptions import RegistrationError
from mcp_baton.tasks.record import ENGINE_PREFIX
from mcp_baton.tasks.variables import MCP_PREFIX

RESERVED: Final = (ENGINE_PREFIX, MCP_PREFIX)


def set_by_tool(names: Sequence[str], what: str) -> tuple[str, ...]:
    """What `sets=` says.

    Args:
        names: The names of task variables.
        what: The tool, for errors.

    Raises:
        RegistrationError: it is one text, or holds what is no name of a variable that a tool can set.
    """
    if isinstance(names, str):
        raise RegistrationError(f"{what}: sets is a list of task variables; write sets=[{names!r}]")
    for name in names:
        if not isinstance(name, str) or not name:
            raise RegistrationError(f"{what}: sets has {name!r}; a task variable's name is a text that is not empty")
        if name.startswith(RESERVED):
            raise RegistrationError(f"{what}: sets has {name!r}; names with this beginning are not a tool's to set")
    return tuple(dict.fromkeys(names))
