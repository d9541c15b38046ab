"""What was meant by a name that nothing has. Imported when an error is made, since `difflib` takes time."""

from collections.abc import Iterable


def meant(name: object, known: Iterable[str]) -> str:
    """How a sentence about an unknown name ends: with the known one that is like it, or with all that are known.

    Args:
        name: What was written.
        known: The names that could have been; nothing is said where there are none.
    """
    names = list(known)
    close = closest(name, names)
    if close is not None:
        return f"; did you mean {close!r}?"
    return f"; known are {', '.join(names)}" if names else ""


def closest(name: object, known: Iterable[str]) -> str | None:
    """The known name that is most like another; `None` where none is like it."""
    from difflib import get_close_matches

    if not isinstance(name, str):
        return None
    names = {each.lower(): each for each in known}
    found = get_close_matches(name.lower(), names, n=1)
    return names[found[0]] if found else None


def place_of(function: object) -> str | None:
    """Where a function begins, as `FILE:LINE`; `None` of what has no lines."""
    code = getattr(getattr(function, "__wrapped__", function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else None


def allowed_name(name: str) -> str:
    """A name like this one that every host takes."""
    import re

    return re.sub(r"[^A-Za-z0-9_-]", "_", name if re.match("[A-Za-z_]", name) else f"_{name}")[:64]
