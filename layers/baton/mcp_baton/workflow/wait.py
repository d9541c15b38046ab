"""Waits: steps that end when a callback arrives or a time is reached (docs/waiting.md). Pure."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from msgspec import Struct

from mcp_baton.exceptions import RegistrationError
from mcp_baton.protocol.json import Json

EXAMPLE: Final = "2026-11-28T09:00:00+01:00"

_UNITS: Final = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))


class Callback(Struct, frozen=True):
    """A result that an external system sends to a waiting step (docs/waiting.md).

    Attributes:
        returns: The type of the callback's body: any type that pydantic knows. The body is the step's result.
        within: How long the step waits after the run has reached it.
        on_timeout: What happens after that: the step fails, or is skipped (`skip`).

    Raises:
        RegistrationError: `within` is no time, or `on_timeout` or `returns` has another value.
    """

    returns: Any
    within: timedelta
    on_timeout: Literal["fail", "skip"] = "fail"

    def __post_init__(self) -> None:
        if not isinstance(self.within, timedelta) or self.within <= timedelta():
            raise RegistrationError(f"Callback: within={self.within!r} is no time; write within=timedelta(days=3)")
        if self.on_timeout not in ("fail", "skip"):
            raise RegistrationError(f"Callback: on_timeout={self.on_timeout!r} is not possible; write 'fail' or 'skip'")
        if isinstance(self.returns, str):
            raise RegistrationError(f"Callback: returns={self.returns!r} is text; write the type {self.returns}")

    @property
    def timed_out(self) -> str:
        return f"timed out: no callback within {duration_text(self.within)}"


def milliseconds(time: timedelta) -> int:
    return round(time.total_seconds() * 1000)


def duration_text(time: timedelta) -> str:
    """A duration in the largest unit that gives a whole number: `3 days`, `36 hours`."""
    seconds = time.total_seconds()
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds % size == 0), _UNITS[-1])
    return f"{seconds / size:g} {unit}{'' if seconds == size else 's'}"


def hours_text(time_ms: int) -> str:
    """A duration in hours: `29 hours`, `0.5 hours`."""
    hours = time_ms / 3_600_000
    return f"{hours:.4g} hour{'' if hours == 1 else 's'}"


def time_of(value: Json) -> int | str:
    """A time in ISO 8601 with its offset from UTC, as epoch milliseconds; or what is wrong with it."""
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        time = None
    if time is None:
        return f"sleep: the value is no time in ISO 8601; give a text such as {EXAMPLE}"
    if time.tzinfo is None:
        return f"sleep: the time has no offset from UTC, so it names no moment; give a text such as {EXAMPLE}"
    return (time.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
