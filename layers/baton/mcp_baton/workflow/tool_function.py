"""A step's tool that was given as a function (docs/workflows.md)."""

from collections.abc import Callable


class ToolFunction(str):
    """The function that a step was given as its tool, and its own name until the server says which tool it is."""

    __slots__ = ("function",)
    function: Callable[..., object]

    @classmethod
    def of(cls, function: Callable[..., object]) -> "ToolFunction":
        """The stand-in for a function."""
        made = cls(getattr(function, "__name__", None) or repr(function))
        made.function = function
        return made


def tool_of(tool: str | Callable[..., object] | None) -> str | None:
    """The tool of a step as the step keeps it: its name, or what stands for its function."""
    return tool if tool is None or isinstance(tool, str) else ToolFunction.of(tool)
