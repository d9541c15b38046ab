"""When a step's tool is called again within a run (docs/workflows.md, Trying again)."""

import os
import sys
from collections.abc import Callable, Iterable
from typing import cast

from msgspec import Struct
from msgspec.structs import force_setattr

from mcp_baton.exceptions import ToolError

MAX_ATTEMPTS = 100
MAX_WAIT_S = 400 * 86_400
"""No task lives longer than 400 days."""


def system_random_fraction() -> float:
    """A random number from 0 up to 1. It comes from the system, because functions restored from one snapshot share the
    state of `random`."""
    return int.from_bytes(os.urandom(4)) / 2**32


class Retry(Struct, frozen=True):
    """Call a step's tool again when it raised one of these exceptions, as long as the function's time allows it.

    Attributes:
        attempts: Calls in all, the first one included: 1 to 100.
        first_s: The wait before the second call, seconds: at most 400 days, as `max_s`.
        factor: Each further wait is this many times the one before.
        max_s: No wait is longer, seconds.
        jitter: Wait a random part of that time, so that calls that failed together are not repeated together.
        on: The exception types after which the tool is called again. A `ToolError(…, retryable=False)` is never one.
    """

    attempts: int = 3
    first_s: float = 0.5
    factor: float = 2.0
    max_s: float = 30.0
    jitter: bool = True
    on: tuple[type[Exception], ...] = (ToolError,)

    def __post_init__(self) -> None:
        on: object = self.on
        if isinstance(on, type):
            force_setattr(self, "on", (on,))
        elif isinstance(on, Iterable) and not isinstance(on, str):
            force_setattr(self, "on", tuple(on))

    @property
    def faults(self) -> list[str]:
        """Which fields are out of range, each with the correction."""
        on: object = self.on
        is_attempts = type(self.attempts) is int and 1 <= self.attempts <= MAX_ATTEMPTS
        is_on = isinstance(on, tuple) and all(isinstance(kind, type) and issubclass(kind, Exception) for kind in on)
        least_max_s = self.first_s if _is_number(self.first_s, 0, MAX_WAIT_S) else 0
        checks = {
            "attempts": (is_attempts, f"a whole number from 1 to {MAX_ATTEMPTS}, the first call included"),
            "first_s": (_is_number(self.first_s, 0, MAX_WAIT_S), f"a number from 0 to {MAX_WAIT_S}"),
            "factor": (_is_number(self.factor, 1), "a number of 1 or more"),
            "max_s": (
                _is_number(self.max_s, least_max_s, MAX_WAIT_S),
                f"a number from {least_max_s:g} to {MAX_WAIT_S}",
            ),
            "jitter": (isinstance(self.jitter, bool), "True or False"),
            "on": (bool(on) and is_on, "one or more types of exceptions, e.g. (ToolError, ConnectionError)"),
        }
        return [
            f"Retry({name}={getattr(self, name)!r}) is not possible; give {remedy}"
            for name, (is_valid, remedy) in checks.items()
            if not is_valid
        ]

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


def _is_number(value: object, least: float, most: float = sys.float_info.max) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and least <= cast("float", value) <= most
