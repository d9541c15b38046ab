"""A scripted model: it sees tools and texts, follows the texts, and knows what its user knows.

It understands only the documented phrases (`phrases`). So if it cannot finish a workflow, the texts lack an
instruction.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.hosts.phrases import PLACEHOLDER, Call, read

MAX_CALLS = 30
SECRET = "<secret "
USER_PLACEHOLDERS = ("<missing: ", "<invalid: ", SECRET)
"""The beginnings of placeholders that only the model or its user can replace."""
TEXT_MEMBERS = ("message", "baton_next", "baton_next_")


class MissingInstruction(AssertionError):
    """The texts did not tell the model how to continue."""


class Host(Protocol):
    """The program between a model and a server.

    Attributes:
        texts: What the host showed of the result of each.
    """

    calls: list[Call]
    texts: list[str]

    def tools(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the input schema of each tool."""

    def call(self, call: Call) -> str:
        """Make a call for the model. Return what the host shows of the result."""


@dataclass
class Model:
    """A model that makes the first suggested call literally, and its user.

    Attributes:
        answers: The user's answers, by the name of an argument.
        wait: Lets this many seconds pass.
        report: What the user does when the model reports that a person has to decide.
    """

    host: Host
    answers: Mapping[str, Any] = field(default_factory=dict)
    wait: Callable[[float], object] = lambda _: None
    report: Callable[[], object] = lambda: None
    _continue_call: Call | None = None

    def finish(self, call: Call) -> str:
        """Make a call and continue until the workflow is done. Return the text that the model saw last."""
        for _ in self.steps(call):
            pass
        return self.host.texts[-1]

    def follow(self, text: str) -> str:
        """Do the same, starting with a text from the user: the last message of a prompt."""
        call = self.next_call(text)
        return self.finish(call) if call else text

    def steps(self, call: Call | None) -> Iterator[str]:
        """Do the same call by call. Yield the text of each result."""
        while call is not None:
            if len(self.host.calls) >= MAX_CALLS:
                raise MissingInstruction(self.story("makes too many calls"))
            text = self.host.call(call)
            yield text
            call = self.next_call(text, call)

    def next_call(self, shown: str, last_call: Call | None = None) -> Call | None:
        """Return the call that a text suggests after the model's last call; `None` if the workflow is done."""
        text = prose(shown)
        reading = read(text)
        self._continue_call = reading.continue_call or self._continue_call
        has_ended = last_call is not None and last_call.arguments.get("task_action") == "cancel"
        if reading.done or reading.left_to_client or has_ended:
            return None
        if reading.retry_s is not None:
            self.wait(reading.retry_s)
            return last_call
        if reading.waits:
            self.report()
            return self._continuation() or last_call
        if reading.end is not None:
            return reading.end
        if text.startswith("Error: "):
            # The connection broke. A person would say "try again", and the model knows its task if it was told the id.
            return self._continuation() or last_call
        if reading.calls:
            return self._fill_in(reading.calls[0])
        if self._continue_call:
            return self._continuation()
        raise MissingInstruction(self.story("is not told how to continue"))

    def _continuation(self) -> Call | None:
        return self._continue_call and Call(self._continue_call.tool, self._values(self._continue_call))

    def _fill_in(self, call: Call) -> Call:
        """Return a call with the user's values. Placeholders that the server replaces are sent back unchanged."""
        parameters = self.host.tools()[call.tool].get("properties", {})
        arguments = self._values(call)
        answers = {name: value for name, value in self.answers.items() if name in parameters and name not in arguments}
        return Call(call.tool, {**answers, **arguments})

    def _values(self, call: Call) -> dict[str, Any]:
        return {name: self._value(name, value) for name, value in call.arguments.items()}

    def _value(self, name: str, value: Any) -> Any:
        if name == "answers":
            return {question: self.answers[question] for question in value}
        if not _placeholder(value) or not value.startswith(USER_PLACEHOLDERS):
            return value
        if name not in self.answers:
            raise MissingInstruction(self.story(f"must ask for {value}, and its user does not know it"))
        return self.answers[name]

    def story(self, problem: str) -> str:
        """Return the calls and what they showed, for a failed assertion."""
        exchanges = zip(self.host.calls, self.host.texts, strict=True)
        return "\n\n".join([f"the model {problem}", *(f"> {call}\n{text}" for call, text in exchanges)])


def prose(text: str) -> str:
    """Return the text for the reader of a result: the whole text, or the JSON properties that are written for
    models.
    """
    try:
        structure = json.loads(text)
    except ValueError:
        return text
    texts = [
        structure[name] for name in TEXT_MEMBERS if isinstance(structure, dict) and isinstance(structure.get(name), str)
    ]
    return texts[-1] if texts else text


def _placeholder(value: Any) -> bool:
    return isinstance(value, str) and PLACEHOLDER.fullmatch(value) is not None
