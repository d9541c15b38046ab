"""Functions with a type that a test chooses."""

from collections.abc import Callable, Iterator
from typing import Any

from mcp_baton import Server


def taking(annotation: Any, default: Any = ..., **options: Any) -> tuple[Server, list[Any]]:
    """Return a server whose tool `pay` has the argument `value` of this type, and the list of its values."""
    server, values = Server("bank"), list[Any]()

    def pay(value: Any) -> str:
        values.append(list(value) if isinstance(value, Iterator) else value)
        return "paid"

    pay.__annotations__["value"] = annotation
    if default is not ...:
        pay.__defaults__ = (default,)
    server.add_tool(pay, **options)
    return server, values


def returning(value: object, annotation: Any = Any) -> Callable[[], Any]:
    """Return a function, `do`, that returns this value and declares this type."""

    def do() -> Any:
        return value

    do.__annotations__["return"] = annotation
    return do
