"""A client's answers to questions of tools (MCP client/elicitation, client/sampling, client/roots)."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp_baton import Context
from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.tools.templates import matches_template

if TYPE_CHECKING:
    from mcp_baton.tools.asking import ClientQuestion

MAX_PROBLEM_CHARS = 200


class Unanswered(Exception):
    """The server asked a question to which the test has no answer."""

    def __init__(self, key: str | None, text: str, why: str = "") -> None:
        key_text = f" (key {key!r})" if key else ""
        remedy = why or f"answer it beforehand: client.answers({{{text or key!r}: …}})"
        super().__init__(f"the server asks {text[:MAX_PROBLEM_CHARS]!r}{key_text}; {remedy}")
        self.key = key
        self.text = text
        self.wrong = bool(why)


@dataclass(slots=True)
class Answers:
    """Answers, by a question's key or text.

    A form for the workflows' own questions (`workflow_questions`: names and texts) that has no answer is declined: the
    workflow then pauses, and `Run.answer` answers it. Without `declines`, it stays open. `open` has the server's
    requests without an answer, by id: it does not repeat them soon.
    """

    can_answer: bool = True
    keys: dict[str, str] = field(default_factory=dict)
    open: dict[str, JsonObject] = field(default_factory=dict)
    workflow_questions: tuple[tuple[str, str], ...] = ()
    declines: bool = True
    _by_name: dict[str, Json] = field(default_factory=dict)
    _used: set[str] = field(default_factory=set)

    def add(self, answers: Mapping[str, Json] | None) -> None:
        """Add answers. `None` removes all, and the client can no longer answer questions."""
        self.can_answer = answers is not None
        if answers is None:
            self._by_name.clear()
        else:
            self._by_name.update(answers)

    def record_keys(self, context: Context) -> None:
        """Note the keys of a function's questions: up to 2025-11-25 they are not sent."""
        send = context.ask

        def ask(*questions: "ClientQuestion") -> list[Any]:
            for question in questions:
                self.keys[_identity(question.method, question.params)] = question.key
            return send(*questions)

        vars(context)["ask"] = ask

    def result(self, question: JsonObject, key: str | None = None) -> JsonObject:
        """Return the client's result for a question."""
        method, params = str(question["method"]), question.get("params", {})
        params = params if isinstance(params, Mapping) else {}
        text, tool_key = text_of(method, params), self.keys.get(_identity(method, params))
        key = key or tool_key
        schema = params.get("requestedSchema")
        fields = schema.get("properties") if isinstance(schema, Mapping) else None
        if isinstance(fields, Mapping) and fields and tool_key is None:
            if fields.keys() <= {name for name, _ in self.workflow_questions}:
                return self._form_result(fields, key, text)
            for question_name, template in self.workflow_questions:
                if matches_template(template, text):
                    return self._object_result(question_name, key, text)
        for name in (key, text):
            if name is not None and name in self._by_name:
                self._used.add(name)
                return self._reply(method, params, self._by_name[name], Unanswered(key, text, WRONG.get(method, "")))
        raise Unanswered(key, text)

    def _form_result(self, fields: Mapping[str, Any], key: str | None, text: str) -> JsonObject:
        """Return the result for a form with questions of a workflow, each by its name or text, or all by the form's.
        Raises `Unanswered` if only a part is answered, or the test has answers that have matched no question so far."""
        content: dict[str, Json] = {}
        for name, field_schema in fields.items():
            for known in (name, field_schema.get("description"), field_schema.get("title"), key, text):
                if known not in self._by_name:
                    continue
                answer = self._by_name[known]
                self._used.add(known)
                if answer in ("decline", "cancel"):
                    return {"action": str(answer)}
                if isinstance(answer, Mapping) and answer.keys() <= fields.keys() | {"value"}:
                    content |= {name: answer["value"]} if "value" in answer else answer
                elif known not in (key, text) or len(fields) == 1:
                    content[name] = answer
                break
        if content.keys() == fields.keys():
            return {"action": "accept", "content": content}
        return self._declined(fields.keys() - content.keys(), key, text, is_partial=bool(content))

    def _object_result(self, name: str, key: str | None, text: str) -> JsonObject:
        """Return the result for a form whose fields are those of the object that answers one question of a workflow.
        Raises `Unanswered` as `_form_result`."""
        known = next((known for known in (name, key, text) if known in self._by_name), None)
        if known is None:
            return self._declined({name}, key, text, is_partial=False)
        self._used.add(known)
        answer = self._by_name[known]
        return self._reply("elicitation/create", {}, answer, Unanswered(key, text, WRONG["elicitation/create"]))

    def _declined(self, names: Set[str], key: str | None, text: str, *, is_partial: bool) -> JsonObject:
        """Return the result for a form of a workflow without answers to the questions with these names."""
        if not is_partial and not self.declines:
            raise Unanswered(key, text)
        if is_partial or self._by_name.keys() - self._used:
            given, asked = (", ".join(map(repr, some)) for some in (self._by_name, names))
            remedy = "name each question by its name or its text, or 'decline' one"
            raise Unanswered(key, text, f"the answers {given} do not answer {asked}: {remedy}")
        return {"action": "decline"}

    def _reply(self, method: str, params: JsonObject, answer: Json, wrong: Unanswered) -> JsonObject:
        match method, answer:
            case "elicitation/create", ("decline" | "cancel") as action:
                return {"action": action}
            case "elicitation/create", Mapping() as fields:
                return {"action": "accept"} if params.get("mode") == "url" else {"action": "accept", "content": fields}
            case "sampling/createMessage", str(text):
                return {"role": "assistant", "content": {"type": "text", "text": text}, "model": "test"}
            case (("sampling/createMessage" | "roots/list"), Mapping() as result):
                return result
            case "roots/list", [*uris]:
                return {"roots": [{"uri": uri} for uri in uris]}
            case _:
                raise wrong


WRONG = {
    "elicitation/create": "its answer is a dict of the form's fields, 'decline' or 'cancel'",
    "sampling/createMessage": "its answer is a text or a CreateMessageResult",
    "roots/list": "its answer is a list of URIs or a ListRootsResult",
}


def text_of(method: str, params: JsonObject) -> str:
    """Return a question's text: a form's message, the last text for a model, or the method."""
    messages = params.get("messages")
    if isinstance(params.get("message"), str):
        return str(params["message"])
    if isinstance(messages, Sequence) and messages and isinstance(messages[-1], Mapping):
        content = messages[-1].get("content")
        blocks = content if isinstance(content, list) else [content]
        return "\n".join(str(block["text"]) for block in blocks if isinstance(block, Mapping) and "text" in block)
    return method


def _identity(method: str, params: JsonObject) -> str:
    # These two members are new each time a question is sent.
    members = {name: value for name, value in params.items() if name not in {"elicitationId", "_meta"}}
    return f"{method} {dumps(members, sort_keys=True)}"
