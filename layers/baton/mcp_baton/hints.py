"""Suggestions for unknown names. Imported when an error occurs, because importing `difflib` takes time."""

from collections.abc import Iterable


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return the end of a sentence about an unknown name: a similar known name, or all known names."""
    names = list(known)
    similar = closest(name, names)
    if similar is not None:
        return f"; did you mean {similar!r}?"
    return f"; known are {', '.join(names)}" if names else ""


def closest(name: object, known: Iterable[str]) -> str | None:
    from difflib import get_close_matches

    if not isinstance(name, str):
        return None
    names = {item.lower(): item for item in known}
    matches = get_close_matches(name.lower(), names, n=1)
    return names[matches[0]] if matches else None


def source_location(function: object) -> str | None:
    """Return where a function is defined, as `FILE:LINE`; `None` for a builtin."""
    code = getattr(getattr(function, "__wrapped__", function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else None


def allowed_name(name: str) -> str:
    """Return a similar name that every host accepts."""
    import re

    return re.sub(r"[^A-Za-z0-9_-]", "_", name if re.match("[A-Za-z_]", name) else f"_{name}")[:64]
