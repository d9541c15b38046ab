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
