"""Why a run stopped, as a test reads it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcp_baton.protocol.json import Json, JsonObject, dumps_spaced

SHOWN = 120
"""Characters of a text in a `repr`."""

_UNTOLD = frozenset({"failedStep", "blockedStep", "suggestedTool"})


@dataclass(frozen=True, slots=True, repr=False)
class Pause:
    """Why a run stopped. Its fields are attributes: `pause.suggested_tool`, `pause.missing_fields`, `pause.error`, …

    Attributes:
        type: `toolError`, `schemaMismatch`, … (docs/workflows.md).
        fields: Everything else, under the names of the wire.
    """

    type: str
    fields: JsonObject

    @property
    def step(self) -> str:
        """The step that failed or could not start."""
        return str(self.fields.get("failedStep", self.fields.get("blockedStep")))

    def __getattr__(self, name: str) -> Any:
        wire = re.sub(r"_(\w)", lambda found: found[1].upper(), name)
        if name.startswith("_") or wire not in self.fields:
            has = ", ".join(re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", field) for field in self.fields)
            raise AttributeError(f"a pause of type {self.type} has no {name!r}; it has type, step, {has}")
        return self.fields[wire]

    def to_dict(self) -> dict[str, Json]:
        """The pause reason as it is sent and stored."""
        return {"type": self.type, **self.fields}

    def __repr__(self) -> str:
        told = [f"{name} {short(value)}" for name, value in self.fields.items() if value and name not in _UNTOLD]
        why = short(self.fields["error"]) if "error" in self.fields else ", ".join(told)
        return f"{self.type} at {self.step!r}" + (f": {why}" if why else "")


def pause_in(reason: object, of: object) -> Pause:
    """A pause reason as it is sent.

    Raises:
        AttributeError: there is none; says what `of` is.
    """
    if isinstance(reason, Mapping):
        return Pause(reason["type"], {name: value for name, value in reason.items() if name != "type"})
    raise AttributeError(f"nothing has stopped it: {of!r}")


def short(value: object) -> str:
    """A value as a `repr` shows it: JSON, cut where it is long."""
    text = dumps_spaced(value) if isinstance(value, Mapping | list | str) else repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
