"""Steps that may run more than once, and the idempotency keys of their calls (docs/workflows.md, When a run is killed).

A run that was killed may have run any open step. A run whose write failed has run steps that are not recorded.
"""

import logging
from collections.abc import Callable
from functools import partial

from msgspec import Struct

from mcp_baton.protocol.json import JsonObject
from mcp_baton.tasks.keys import step_key
from mcp_baton.workflow.resolve import KnownValues
from mcp_baton.workflow.secrets import contains_argument
from mcp_baton.workflow.steps.step import Step

logger = logging.getLogger(__name__)

type Canonical = Callable[[str, JsonObject], JsonObject]
"""From a tool's name and arguments: the arguments as the tool receives them, without those that equal their
defaults."""


class Repeat(Struct, frozen=True):
    """A step that may run more than once.

    Attributes:
        key: The idempotency key of its call; `None` if its arguments are not known, or one of them contains a secret.
    """

    step: str
    key: str | None


def open_repeats(known: KnownValues, task_id: str, canonical: Canonical) -> tuple[Repeat, ...]:
    """The calls of the open steps, in order."""
    repeats = []
    for step in known.open_steps:
        if step.tool is not None:
            arguments = known.arguments_of(step)
            repeats.append(repeat(step, arguments if isinstance(arguments, dict) else None, known, task_id, canonical))
    return tuple(repeats)


def repeat(step: Step, arguments: JsonObject | None, known: KnownValues, task_id: str, canonical: Canonical) -> Repeat:
    """A step, with the key of its call. A call with a secret has no key here: the key is a digest, from which a short
    secret could be guessed.
    """
    if step.tool is None or arguments is None:
        return Repeat(step.name, None)
    for name, value in arguments.items():
        source = step.arguments.get(name)
        if contains_argument(source, known.secrets.names) or known.shown_value(value, source) != value:
            return Repeat(step.name, None)
    try:
        return Repeat(step.name, step_key(task_id, step.name, partial(canonical, step.tool, arguments))())
    except Exception:  # the type of a parameter runs the author's code, which may raise anything
        logger.exception("step %s: its idempotency key cannot be made", step.name)
        return Repeat(step.name, None)
