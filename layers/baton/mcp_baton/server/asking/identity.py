"""What tells a call from every other call, through all the rounds in which it asks the client (docs/workflows.md,
Idempotency keys)."""

from msgspec import Struct, field

from mcp_baton.protocol.json import Json
from mcp_baton.workflow.keys import Key, own_key


class Identity(Struct, frozen=True):
    """Which call it is.

    Attributes:
        key: Its idempotency key.
        task: The task that it names.
        step: The step of that task whose key it is.
        values: The digest of the values that the placeholders in its arguments stand for; `None` without one.
    """

    key: Key = field(default_factory=own_key)
    task: str | None = None
    step: str | None = None
    values: str | None = None

    def to_json(self) -> dict[str, Json]:
        """As a `requestState` carries it to the next round."""
        carried: dict[str, Json] = {"key": self.key(), "task": self.task, "step": self.step}
        return carried if self.values is None else carried | {"values": self.values}


def identity_of(carried: Json) -> Identity | None:
    """The identity that a `requestState` has carried; `None` for one that carries none."""
    match carried:
        case {"key": str(key), "task": str() | None as task, "step": str() | None as step, **others}:
            values = others.get("values")
            return Identity(lambda: key, task, step, values if isinstance(values, str) else None)
        case _:
            return None


def carried_to(identity: Identity | None, task: str | None) -> Identity | None:
    """An earlier round's identity, where it is that of a call of this task: with another task it is another call."""
    return identity if identity is not None and identity.task == task else None
