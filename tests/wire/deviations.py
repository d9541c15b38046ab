"""Where Baton's messages differ from the official definitions on purpose, or those are wrong: the whole list."""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deviation:
    """One difference.

    Attributes:
        complaint: What the judge says of it.
        reason: Why it stays.
    """

    complaint: re.Pattern[str]
    reason: str


DEVIATIONS = (
    Deviation(
        re.compile(r"schema \S+: \w*Error\w*: id: null is not .*"),
        "An error of a request that could not be read has `id: null`: JSON-RPC 2.0 (section 5) and the official models "
        "demand it, the JSON schemas only know it left out.",
    ),
)


def left_of(complaints: list[str]) -> list[str]:
    """The complaints that no deviation explains."""
    return [found for found in complaints if not any(known.complaint.fullmatch(found) for known in DEVIATIONS)]
