"""When a step's tool is called again within a run (docs/workflows.md, Trying again)."""

import math
import os
from collections.abc import Callable, Iterable
from typing import cast

from msgspec import Struct
from msgspec.structs import force_setattr

from mcp_baton.exceptions import RegistrationError, ToolError

MAX_ATTEMPTS = 100


def system_random_fraction() -> float:
    """A random number from 0 up to 1. It comes from the system, because functions restored from one snapshot share the
    state of `random`."""
    return int.from_bytes(os.urandom(4)) / 2**32


class Retry(Struct, frozen=True):
    """Call a step's tool again when it raised one of these exceptions, as long as the function's time allows it.

    Attributes:
        attempts: Calls in all, the first one included: 1 to 100.
        first_s: The wait before the second call, seconds.
        factor: Each further wait is this many times the one before.
        max_s: No wait is longer, seconds.
        jitter: Wait a random part of that time, so that calls that failed together are not repeated together.
        on: The exception types after which the tool is called again. A `ToolError(…, retryable=False)` is never one.

    Raises:
        RegistrationError: a value is out of range.
    """

    attempts: int = 3
    first_s: float = 0.5
    factor: float = 2.0
    max_s: float = 30.0
    jitter: bool = True
    on: tuple[type[Exception], ...] = (ToolError,)

    def __post_init__(self) -> None:
        if type(self.attempts) is not int or not 1 <= self.attempts <= MAX_ATTEMPTS:
            raise _error("attempts", self.attempts, f"a whole number from 1 to {MAX_ATTEMPTS}, the first call included")
        _check_number("first_s", self.first_s, 0)
        _check_number("factor", self.factor, 1)
        _check_number("max_s", self.max_s, self.first_s)
        if not isinstance(self.jitter, bool):
            raise _error("jitter", self.jitter, "True or False")
        types = tuple(self.on) if isinstance(self.on, Iterable) else (self.on,)
        if not types or not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in types):
            raise _error("on", self.on, "one or more types of exceptions, e.g. (ToolError, ConnectionError)")
        force_setattr(self, "on", types)

    def wait_s(self, attempts: int, rng: Callable[[], float] = system_random_fraction) -> float:
        """The wait after this many attempts, seconds.

        Args:
            rng: Gives a number from 0 up to 1; used only with jitter.
        """
        try:
            wait_s = min(self.max_s, self.first_s * self.factor ** (attempts - 1))
        except OverflowError:
            wait_s = self.max_s
        return wait_s * rng() if self.jitter else wait_s


def _check_number(field: str, value: object, least: float) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(cast("float", value)) or cast("float", value) < least:
        raise _error(field, value, f"a number of {least:g} or more")


def _error(field: str, value: object, remedy: str) -> RegistrationError:
    return RegistrationError(f"Retry({field}={value!r}): give {remedy}")
