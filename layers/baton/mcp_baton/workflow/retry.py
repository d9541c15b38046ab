"""`Retry`: how often, and after which waits, a step's tool is called again within one run (docs/workflows.md)."""

import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import cast

from mcp_baton.exceptions import RegistrationError, ToolError

MAX_ATTEMPTS = 100


def random_fraction() -> float:
    """A number from 0 up to 1. Of the system's, so that functions restored from one snapshot do not draw the same."""
    return int.from_bytes(os.urandom(4)) / 2**32


@dataclass(frozen=True, slots=True)
class Retry:
    """Call a step's tool again when it raised one of these exceptions, as long as the function's time allows it.

    Attributes:
        attempts: Calls in all, the first one included: 1 to 100.
        first_s: The wait before the second call, seconds.
        factor: Each further wait is this many times the one before.
        max_s: No wait is longer, seconds.
        jitter: Wait a random part of that time, so that calls that failed together are not made again together.
        on: The exception types after which the tool is called again. A `ToolError(…, retryable=False)` is never one.

    Raises:
        RegistrationError: a value that cannot be meant.
    """

    attempts: int = 3
    first_s: float = 0.5
    factor: float = 2.0
    max_s: float = 30.0
    jitter: bool = True
    on: tuple[type[Exception], ...] = (ToolError,)

    def __post_init__(self) -> None:
        if type(self.attempts) is not int or not 1 <= self.attempts <= MAX_ATTEMPTS:
            raise _wrong("attempts", self.attempts, f"a whole number from 1 to {MAX_ATTEMPTS}, the first call included")
        _check_number("first_s", self.first_s, 0)
        _check_number("factor", self.factor, 1)
        _check_number("max_s", self.max_s, self.first_s)
        if not isinstance(self.jitter, bool):
            raise _wrong("jitter", self.jitter, "True or False")
        object.__setattr__(self, "on", _exceptions(self.on))

    def wait_s(self, attempts: int, rng: Callable[[], float] = random_fraction) -> float:
        """The wait after so many attempts, seconds.

        Args:
            attempts: The calls that were made, 1 or more.
            rng: Gives a number from 0 up to 1; asked only where there is jitter.
        """
        try:
            longest = min(self.max_s, self.first_s * self.factor ** (attempts - 1))
        except OverflowError:
            longest = self.max_s
        return longest * rng() if self.jitter else longest


def _check_number(field: str, value: object, least: float) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(cast("float", value)) or cast("float", value) < least:
        raise _wrong(field, value, f"a number of {least:g} or more")


def _exceptions(on: object) -> tuple[type[Exception], ...]:
    named = tuple(on) if isinstance(on, Iterable) else (on,)
    if not named or not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in named):
        raise _wrong("on", on, "one or more types of exceptions, e.g. (ToolError, ConnectionError)")
    return cast("tuple[type[Exception], ...]", named)


def _wrong(field: str, value: object, remedy: str) -> RegistrationError:
    return RegistrationError(f"Retry({field}={value!r}): give {remedy}")
