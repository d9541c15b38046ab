"""`Depends`: declares what a server makes for a function and closes after it (docs/tools.md, Dependencies)."""

import math
from collections.abc import Callable
from typing import Any, Final, Literal, get_args

from msgspec import Struct

from mcp_baton.exceptions import RegistrationError

type Lifetime = Literal["request", "process"]
"""Whether something is made for each call and closed after it, or kept for the process: the `scope` of `Depends`."""
type Factory = Callable[..., object]

MAKING_S: Final = 30.0
"""How long making something for the process may take, seconds, unless its `Depends` says something else."""


class Dependency(Struct, frozen=True):
    """A dependency as it was declared.

    Attributes:
        factory: Makes it.
        scope: `request` for one each call, `process` for one that is kept.
        timeout_s: How long a factory of the scope `process` may take, seconds.
    """

    factory: Factory
    scope: Lifetime
    timeout_s: float = MAKING_S


def Depends(factory: Factory, scope: Lifetime = "request", timeout_s: float | None = None) -> Any:  # noqa: N802 - it is read as a type's name
    """Have a parameter filled by the server: `db: Annotated[Database, Depends(database)]`, or as its default.

    Args:
        factory: A plain function, a generator, a context manager (a class, or what `contextlib.contextmanager` makes),
            or the async kinds of these. Its own parameters may be the `Context` and other dependencies.
        scope: `request`: made for each call, and closed when the call has ended. `process`: made at its first use and
            kept.
        timeout_s: How long a factory of the scope `process` may take, seconds; 30 if it is not given. A call whose
            dependency takes longer fails, and the next one tries again.

    Raises:
        RegistrationError: the factory cannot be called, there is no such scope, or `timeout_s` is given for the scope
            `request` or is not above 0.
    """
    given: object = factory
    if not callable(given):
        named = getattr(given, "__name__", None) or "factory"
        raise RegistrationError(
            f"Depends({factory!r}): this is no function that makes a value; write Depends({named}), without calling it"
        )
    if scope not in get_args(Lifetime.__value__):
        raise RegistrationError(f"Depends(…, scope={scope!r}): the scope is 'request' or 'process'")
    if timeout_s is None:
        return Dependency(factory, scope)
    if scope == "request":
        raise RegistrationError(
            f"Depends(…, timeout_s={timeout_s!r}): only scope='process' has a limit of its own; leave out timeout_s"
        )
    if not 0 < timeout_s < math.inf:
        raise RegistrationError(f"Depends(…, timeout_s={timeout_s!r}): give a number of seconds above 0")
    return Dependency(factory, scope, timeout_s)
