"""A scripted model: it sees tools and texts, follows the texts, and knows what its user knows.

It understands only the documented phrases (`phrases`). So if it cannot finish a workflow, the texts lack an
instruction.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.hosts.host import Host
from tests.hosts.phrases import PLACEHOLDER, Call, Reading, read

MOST_CALLS = 30
SECRET = "<secret "
ITS_OWN = ("<missing: ", "<invalid: ", SECRET)
"""The beginnings of placeholders that only the model or its user can replace."""
NEXT_IN_JSON = ("message", "baton_next", "baton_next_")


class Lost(AssertionError):
    """The texts did not tell the model how to continue."""


@dataclass
class Model:
    """A model that makes the first suggested call literally, and its user.

    Attributes:
        knows: The user's answers, by the name of an argument.
        wait: Lets this many seconds pass.
        tell: What the user does when the model reports that a person has to decide.
    """

    host: Host
    knows: Mapping[str, Any] = field(default_factory=dict)
    wait: Callable[[float], object] = lambda _: None
    tell: Callable[[], object] = lambda: None
    _go_on: Call | None = None

    def finish(self, call: Call) -> str:
        """Make a call and continue until the workflow is done. Return the text that the model saw last."""
        for _ in self.steps(call):
            pass
        return self.host.shown[-1]

    def follow(self, text: str) -> str:
        """Do the same, starting with a text from the user: the last message of a prompt."""
        call = self._next(read(text), text, None)
        return self.finish(call) if call else text

    def steps(self, call: Call | None) -> Iterator[str]:
        """Do the same call by call. Yield the text of each result."""
        while call is not None:
            if len(self.host.calls) >= MOST_CALLS:
                raise Lost(self.story("goes round in circles"))
            shown = self.host.call(call)
            yield shown
            call = self._next(read(prose(shown)), prose(shown), call)

    def _next(self, reading: Reading, text: str, made: Call | None) -> Call | None:
        self._go_on = reading.go_on or self._go_on
        has_ended = made is not None and made.arguments.get("task_action") == "cancel"
        if reading.done or reading.left_to_client or has_ended:
            return None
        if reading.again_s is not None:
            self.wait(reading.again_s)
            return made
        if reading.waits:
            self.tell()
            return self._going_on() or made
        if reading.end is not None:
            return reading.end
        if text.startswith("Error: "):
            # The connection broke. A person would say "try again", and the model knows its task if it was told the id.
            return self._going_on() or made
        if reading.calls:
            return self._filled(reading.calls[0])
        if self._go_on:
            return self._going_on()
        raise Lost(self.story("is not told how to go on"))

    def _going_on(self) -> Call | None:
        return self._go_on and Call(self._go_on.tool, self._values(self._go_on))

    def _filled(self, call: Call) -> Call:
        """Return a call with the user's values. Placeholders that the server replaces are sent back unchanged."""
        taken = self.host.tools()[call.tool].get("properties", {})
        arguments = self._values(call)
        known = {name: value for name, value in self.knows.items() if name in taken and name not in arguments}
        return Call(call.tool, {**known, **arguments})

    def _values(self, call: Call) -> dict[str, Any]:
        return {name: self._value(name, value) for name, value in call.arguments.items()}

    def _value(self, name: str, value: Any) -> Any:
        if name == "answers":
            return {question: self.knows[question] for question in value}
        if not _placeholder(value) or not value.startswith(ITS_OWN):
            return value
        if name not in self.knows:
            raise Lost(self.story(f"must ask for {value}, and its user does not know it"))
        return self.knows[name]

    def story(self, what: str) -> str:
        """Return the calls and what they showed, for a failed assertion."""
        reported = zip(self.host.calls, self.host.shown, strict=True)
        return "\n\n".join([f"the model {what}", *(f"> {call}\n{shown}" for call, shown in reported)])


def prose(shown: str) -> str:
    """Return the text for the reader of a result: the whole text, or the JSON properties that are written for
    models.
    """
    try:
        reported = json.loads(shown)
    except ValueError:
        return shown
    found = [
        reported[name] for name in NEXT_IN_JSON if isinstance(reported, dict) and isinstance(reported.get(name), str)
    ]
    return found[-1] if found else shown


def _placeholder(value: Any) -> bool:
    return isinstance(value, str) and PLACEHOLDER.fullmatch(value) is not None
