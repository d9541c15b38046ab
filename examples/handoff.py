"""Parses a handoff: the calls that it names, and the values of its placeholders."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_CALL = re.compile(
    r"^\d+\. (?:[Rr]ead the resource .+?, then )*[Cc]all (?P<tool>\S+) with (?P<arguments>\{.*\})$"
    r"(?:\n +Then: Read the resource .*$)*(?:\n +Note: (?P<note>.*)$)?",
    re.MULTILINE,
)
_OUTPUT = re.compile(r"<(?:field '(?P<path>[^']+)'|output) from (?P<tool>[^> ]+)>")
_OPEN = re.compile(r"<(?:missing: |invalid: |prompt arg |task variable |output from |field ')[^<>]+>")


class Unfilled(Exception):
    """A placeholder without a known value."""


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A tool call in the handoff. `note` is the workflow's guidance; empty for none."""

    tool: str
    arguments: dict[str, Any]
    note: str


def planned_calls(handoff: str) -> list[PlannedCall]:
    """Return the tool calls in a handoff, in order."""
    return [
        PlannedCall(found["tool"], json.loads(found["arguments"]), found["note"] or "")
        for found in _CALL.finditer(handoff)
    ]


def filled(call: PlannedCall, results: Mapping[str, Any], decided: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call's arguments without placeholders.

    Args:
        call: The call.
        results: The results of tools, by tool.
        decided: The values that the model or its user has decided, by argument. They replace those of the call.

    Raises:
        Unfilled: a value is still unknown.
    """
    arguments = {name: _known(value, results) for name, value in call.arguments.items()} | dict(decided)
    for name, value in arguments.items():
        if isinstance(value, str) and _OPEN.fullmatch(value):
            raise Unfilled(f"{call.tool} needs a value for {name!r}")
    return arguments


def _known(value: Any, results: Mapping[str, Any]) -> Any:
    found = _OUTPUT.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return value
    if found["tool"] not in results:
        raise Unfilled(f"{found['tool']} has not been called yet")
    known = results[found["tool"]]
    for key in (found["path"] or "").split(".") if found["path"] else ():
        known = known[int(key)] if isinstance(known, list) else known[key]
    return known
