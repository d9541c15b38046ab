"""`Depends`: declares a value that the server creates for a function and closes after it (docs/tools.md)."""

import math
from collections.abc import Callable
from typing import Any, Final, Literal, get_args

from msgspec import Struct

from mcp_baton.exceptions import RegistrationError

type Lifetime = Literal["request", "process"]
"""The `scope` of `Depends`: created for each call and closed after it, or kept for the process."""
type Factory = Callable[..., object]

CREATION_TIMEOUT_S: Final = 30.0
"""The default time limit to create a process-scoped dependency, seconds."""


class Dependency(Struct, frozen=True):
    """A declared dependency."""

    factory: Factory
    scope: Lifetime
    timeout_s: float = CREATION_TIMEOUT_S


def Depends(factory: Factory, scope: Lifetime = "request", timeout_s: float | None = None) -> Any:  # noqa: N802 - it is read as a type's name
    """Let the server fill a parameter: `db: Annotated[Database, Depends(database)]`, or `Depends` as its default.

    Args:
        factory: A plain function, a generator, a context manager (a class, or a function with
            `contextlib.contextmanager`), or the async form of these. Its parameters may be the `Context` and other
            dependencies.
        scope: `request`: created for each call and closed after it. `process`: created at the first use and kept.
        timeout_s: The time limit of a factory with the scope `process`, seconds; 30 by default. A call whose dependency
            takes longer fails, and the next call tries again.

    Raises:
        RegistrationError: the factory is not callable, the scope is unknown, or `timeout_s` is given for the scope
            `request` or is not above 0.
    """
    value: object = factory
    if not callable(value):
        name = getattr(value, "__name__", None) or "factory"
        raise RegistrationError(
            f"Depends({factory!r}): this is not a factory function; write Depends({name}), without calling it"
        )
    if scope not in get_args(Lifetime.__value__):
        raise RegistrationError(f"Depends(…, scope={scope!r}): the scope is 'request' or 'process'")
    if timeout_s is None:
        return Dependency(factory, scope)
    if scope == "request":
        raise RegistrationError(f"Depends(…, timeout_s={timeout_s!r}): timeout_s needs scope='process'; leave it out")
    if not 0 < timeout_s < math.inf:
        raise RegistrationError(f"Depends(…, timeout_s={timeout_s!r}): give a number of seconds above 0")
    return Dependency(factory, scope, timeout_s)
