"""Reads a task's item for the judge, without Baton's own reading code."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, cast

from mcp_baton.protocol.json import Json, loads
from mcp_baton.tasks.dynamodb.attributes import decode
from mcp_baton.tasks.dynamodb.lists import record_in
from mcp_baton.tasks.dynamodb.values import ValuePointer, pointer_in
from mcp_baton.tasks.record import PAUSE_REASONS, PROGRESS
from tests.simulation.dynamodb.paths import Attribute, Item

TERMINAL = frozenset({"completed", "failed", "cancelled"})
SETTLED = frozenset({"completed", "skipped"})
_SERIAL = re.compile(r"failed #(\d+)")


def status_of(item: Item) -> str:
    return str(item["status"]["S"])


def expires_ms(item: Item) -> int:
    """Return when an item expires, epoch milliseconds."""
    return int(item["expires_at"]["N"]) * 1000


def variables_of(item: Item) -> Mapping[str, Attribute]:
    return cast("Mapping[str, Attribute]", item["variables"]["M"])


def steps_of(item: Item) -> dict[str, str]:
    steps = variables_of(item)[PROGRESS]["M"]["steps"]["L"]
    return {step["M"]["name"]["S"]: step["M"]["status"]["S"] for step in steps}


def paused_at(item: Item) -> str | None:
    """Return the first step that has stopped."""
    return next((step for step, _ in reasons_of(item)), None)


def reasons_of(item: Item) -> list[tuple[str, Mapping[str, Attribute]]]:
    """Return the stopped steps with their reasons, in order."""
    stored = variables_of(item).get(PAUSE_REASONS, {"L": []})["L"]
    reasons = [cast("Mapping[str, Attribute]", reason["M"]) for reason in stored]
    return [(str((reason.get("failedStep") or reason["blockedStep"])["S"]), reason) for reason in reasons]


def is_waiting(item: Item, step: str) -> bool:
    """Return whether the reason of a step is a wait. It remains after a callback has completed the step."""
    return any(name == step and reason["type"]["S"] == "waiting" for name, reason in reasons_of(item))


def claim_of(item: Item) -> tuple[str, int, int] | None:
    """Return the claim: its id, its number, and when it ends, epoch milliseconds."""
    run = item.get("run")
    if run is None:
        return None
    return run["M"]["id"]["S"], int(run["M"]["number"]["N"]), int(run["M"]["until"]["N"])


def value_of(item: Item, name: str, stored: Callable[[str, str], Json]) -> Json:
    attribute = variables_of(item)[name]
    if "S" in attribute:
        with suppress(ValueError):
            return loads(attribute["S"])
    return stored(item["sk"]["S"].removeprefix("TASK#"), name)


def decoded(attribute: Any) -> Json:
    record = record_in(attribute)
    return record.in_order(()) if record else decode(attribute)


def is_outside(attribute: Any) -> bool:
    """Return whether a value, or a part of a list, is stored outside the task's item."""
    record = record_in(attribute)
    return pointer_of(attribute) is not None or bool(record and record.chunks)


def pointer_of(attribute: Any) -> ValuePointer | None:
    """Return where a value is stored outside the task's item, or `None` if it is in the item."""
    return pointer_in(attribute)


def serial_in(value: Json) -> int | None:
    """Return the number of the call that produced this value, or `None`."""
    if not isinstance(value, Mapping):
        return None
    serial = value.get("serial")
    if isinstance(serial, int):
        return serial
    error = value.get("error")
    match = _SERIAL.search(error) if isinstance(error, str) else None
    return int(match[1]) if match else None
