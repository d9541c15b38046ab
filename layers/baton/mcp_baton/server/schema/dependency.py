"""`Depends`: declares what a server makes for a function and closes after it (docs/tools.md, Dependencies).

Only a server that uses it loads this module.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Literal, get_args

from mcp_baton.exceptions import RegistrationError
from mcp_baton.light_dataclasses import dataclass

type Lifetime = Literal["request", "process"]
"""Whether something is made for each call and closed after it, or kept for the process: the `scope` of `Depends`."""
type Factory = Callable[..., object]


@dataclass(frozen=True, slots=True)
class Dependency:
    """A dependency as it was declared.

    Attributes:
        factory: Makes it.
        scope: `request` for one each call, `process` for one that is kept.
    """

    filled_by_server: ClassVar[bool] = True

    factory: Factory
    scope: Lifetime


def Depends(factory: Factory, scope: Lifetime = "request") -> Any:  # noqa: N802 - it is read as a type's name
    """Have a parameter filled by the server: `db: Annotated[Database, Depends(database)]`, or as its default.

    Args:
        factory: A plain function, a generator, a context manager (a class, or what `contextlib.contextmanager` makes),
            or the async kinds of these. Its own parameters may be the `Context` and other dependencies.
        scope: `request`: made for each call, and closed when the call has ended. `process`: made at its first use and
            kept.

    Raises:
        RegistrationError: the factory cannot be called, or there is no such scope.
    """
    given: object = factory
    if not callable(given):
        named = getattr(given, "__name__", None) or "factory"
        raise RegistrationError(
            f"Depends({factory!r}): this is no function that makes a value; write Depends({named}), without calling it"
        )
    if scope not in get_args(Lifetime.__value__):
        raise RegistrationError(f"Depends(…, scope={scope!r}): the scope is 'request' or 'process'")
    return Dependency(factory, scope)


Depends.is_depends = True  # type: ignore[attr-defined]  # it is known again where it was not called
