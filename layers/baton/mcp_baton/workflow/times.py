"""Times and durations, as workflows and texts have them. Pure."""

from datetime import UTC, datetime, timedelta
from typing import Final

from mcp_baton.protocol.json import Json

EXAMPLE: Final = "2026-11-28T09:00:00+01:00"

_UNITS: Final = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))


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
        if time is not None and time.tzinfo is not None:
            return (time.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        time = None
    if time is None:
        return f"the value is not a time in ISO 8601, in the years 1 to 9999; give a text such as {EXAMPLE}"
    return f"the time has no offset from UTC, so it names no moment; give a text such as {EXAMPLE}"
