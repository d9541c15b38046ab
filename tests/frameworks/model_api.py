"""A server with the APIs of OpenAI, Gemini and Anthropic. A function answers for the model.

Frameworks send it the tools in the form into which they have converted them, and the results of calls in the form in
which their model sees them.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, override

from emulators.answering import Answer, Request, answering
from tests.hosts.phrases import Call

type JsonDict = dict[str, Any]

SCRIPT: Final = re.compile(r"Follow the script (\w+)\.")
DONE: Final = "The script is done."


@dataclass(frozen=True, slots=True)
class Turn:
    """What a model sees when it is asked for its next message.

    Attributes:
        number: The number of messages that the model has written before.
        tools: The input schema of each tool.
        shown: What the model has not seen before: the results of its last calls, in their order.
    """

    script: str
    number: int
    tools: dict[str, JsonDict]
    shown: tuple[str, ...]


type Respond = Callable[[Turn], Sequence[Call]]
"""Returns the model's next calls. Without a call, the model writes `DONE`."""


class Dialect(ABC):
    """The API of one provider. Messages are `(is the model's, texts)`."""

    path: re.Pattern[str]

    @abstractmethod
    def tools(self, body: JsonDict) -> dict[str, JsonDict]:
        """Return the input schemas."""

    @abstractmethod
    def messages(self, body: JsonDict) -> Iterator[tuple[bool, list[str]]]:
        """Yield the messages of the conversation."""

    @abstractmethod
    def reply(self, calls: Sequence[Call], number: int) -> JsonDict:
        """Return the response with the model's message."""

    def stream(self, reply: JsonDict) -> Iterator[JsonDict]:
        """Yield the events of a streamed response. Only some clients of Anthropic's API ask for one."""
        raise NotImplementedError

    def answer(self, body: JsonDict, respond: Respond) -> Answer:
        turn = self.turn(body)
        reply = self.reply(respond(turn), turn.number)
        if not body.get("stream"):
            return Answer.json(reply)
        events = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in self.stream(reply))
        return Answer(200, {"Content-Type": "text/event-stream"}, events.encode())

    def turn(self, body: JsonDict) -> Turn:
        number, is_last_by_model, shown = 0, False, list[str]()
        for is_by_model, texts in self.messages(body):
            if is_by_model:
                number += not is_last_by_model
                shown = []
            else:
                shown += texts
            is_last_by_model = is_by_model
        script = SCRIPT.search(json.dumps(body))
        return Turn(script[1] if script else "", number, self.tools(body), tuple(shown))


def texts_of(content: Any) -> list[str]:
    """Return the texts of a message, whose content is a text or a list of blocks."""
    if isinstance(content, str):
        return [content]
    blocks = [block if isinstance(block, str) else str(block.get("text", block)) for block in content or ()]
    return ["\n".join(blocks)] if blocks else [""]


class ChatCompletions(Dialect):
    """OpenAI's first API, which many others imitate."""

    path = re.compile(r".*/chat/completions$")

    @override
    def tools(self, body: JsonDict) -> dict[str, JsonDict]:
        return {tool["function"]["name"]: tool["function"]["parameters"] for tool in body.get("tools") or ()}

    @override
    def messages(self, body: JsonDict) -> Iterator[tuple[bool, list[str]]]:
        for message in body["messages"]:
            if message["role"] not in ("system", "developer"):
                yield message["role"] == "assistant", texts_of(message.get("content"))

    @override
    def reply(self, calls: Sequence[Call], number: int) -> JsonDict:
        message: JsonDict = {"role": "assistant", "content": None if calls else DONE}
        if calls:
            message["tool_calls"] = [
                {
                    "id": identifier,
                    "type": "function",
                    "function": {"name": call.tool, "arguments": json.dumps(call.arguments)},
                }
                for identifier, call in identified(calls, number)
            ]
        reason = "tool_calls" if calls else "stop"
        return {
            "id": f"chat-{number}",
            "object": "chat.completion",
            "created": 0,
            "model": "gpt-5",
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }


class Responses(Dialect):
    """OpenAI's newer API."""

    path = re.compile(r".*/responses$")

    @override
    def tools(self, body: JsonDict) -> dict[str, JsonDict]:
        return {tool["name"]: tool["parameters"] for tool in body.get("tools") or ()}

    @override
    def messages(self, body: JsonDict) -> Iterator[tuple[bool, list[str]]]:
        for item in body["input"]:
            if item.get("type") == "function_call_output":
                yield False, texts_of(item["output"])
            elif item.get("type") == "function_call" or item.get("role") == "assistant":
                yield True, []
            elif item.get("role") == "user":
                yield False, texts_of(item["content"])

    @override
    def reply(self, calls: Sequence[Call], number: int) -> JsonDict:
        output: list[JsonDict] = [
            {
                "type": "function_call",
                "id": f"fc_{identifier}",
                "call_id": identifier,
                "name": call.tool,
                "arguments": json.dumps(call.arguments),
                "status": "completed",
            }
            for identifier, call in identified(calls, number)
        ]
        text = {"type": "output_text", "text": DONE, "annotations": []}
        message = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [text]}
        return {
            "id": f"response-{number}",
            "object": "response",
            "created_at": 0,
            "model": "gpt-5",
            "status": "completed",
            "output": output or [message],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": {
                "input_tokens": 1,
                "output_tokens": 1,
                "total_tokens": 2,
                "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens_details": {"reasoning_tokens": 0},
            },
        }


class Gemini(Dialect):
    path = re.compile(r".*:generateContent$")

    @override
    def tools(self, body: JsonDict) -> dict[str, JsonDict]:
        declared = [tool for part in body.get("tools") or () for tool in part.get("functionDeclarations", ())]
        names = ("parametersJsonSchema", "parameters_json_schema", "parameters")
        return {tool["name"]: next((tool[name] for name in names if name in tool), {}) for tool in declared}

    @override
    def messages(self, body: JsonDict) -> Iterator[tuple[bool, list[str]]]:
        for content in body["contents"]:
            results = [part["functionResponse"]["response"] for part in content["parts"] if "functionResponse" in part]
            texts = [part["text"] for part in content["parts"] if "text" in part]
            yield content.get("role") == "model", ["\n".join(leaves(result)) for result in results] or texts

    @override
    def reply(self, calls: Sequence[Call], number: int) -> JsonDict:
        parts: list[JsonDict] = [{"functionCall": {"name": call.tool, "args": call.arguments}} for call in calls]
        content = {"role": "model", "parts": parts or [{"text": DONE}]}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        return {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}], "usageMetadata": usage}


class Anthropic(Dialect):
    path = re.compile(r".*/messages(\?.*)?$")

    @override
    def tools(self, body: JsonDict) -> dict[str, JsonDict]:
        return {tool["name"]: tool["input_schema"] for tool in body.get("tools") or ()}

    @override
    def messages(self, body: JsonDict) -> Iterator[tuple[bool, list[str]]]:
        for message in body["messages"]:
            content = message["content"]
            results = [block for block in content if isinstance(block, dict) and block["type"] == "tool_result"]
            texts = [text for block in results for text in texts_of(block.get("content"))]
            yield message["role"] == "assistant", texts or texts_of(content)

    @override
    def reply(self, calls: Sequence[Call], number: int) -> JsonDict:
        content: list[JsonDict] = [
            {"type": "tool_use", "id": identifier, "name": call.tool, "input": call.arguments}
            for identifier, call in identified(calls, number)
        ]
        return {
            "id": f"message-{number}",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-5",
            "content": content or [{"type": "text", "text": DONE}],
            "stop_reason": "tool_use" if calls else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }

    @override
    def stream(self, reply: JsonDict) -> Iterator[JsonDict]:
        yield {"type": "message_start", "message": {**reply, "content": [], "stop_reason": None}}
        for index, block in enumerate(reply["content"]):
            is_call = block["type"] == "tool_use"
            start = {**block, "input": {}} if is_call else {**block, "text": ""}
            delta = (
                {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
                if is_call
                else {"type": "text_delta", "text": block["text"]}
            )
            yield {"type": "content_block_start", "index": index, "content_block": start}
            yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}
        delta = {"stop_reason": reply["stop_reason"], "stop_sequence": None}
        yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 1}}
        yield {"type": "message_stop"}


DIALECTS: Final = (ChatCompletions(), Responses(), Gemini(), Anthropic())


def identified(calls: Sequence[Call], number: int) -> Iterator[tuple[str, Call]]:
    """Yield each call with an id that no other call of the conversation has."""
    return ((f"call_{number}_{index}", call) for index, call in enumerate(calls))


def leaves(node: Any) -> Iterator[str]:
    """Yield the texts in a JSON value."""
    if isinstance(node, dict):
        for value in node.values():
            yield from leaves(value)
    elif isinstance(node, list):
        for value in node:
            yield from leaves(value)
    elif isinstance(node, str):
        yield node


@contextmanager
def model_api(respond: Respond) -> Iterator[str]:
    """Serve the APIs, and yield the address."""

    def answer(request: Request) -> Answer:
        dialect = next((dialect for dialect in DIALECTS if dialect.path.match(request.target)), None)
        if dialect is None:
            return Answer.json({"error": {"message": f"there is no {request.target}"}}, 404)
        try:
            return dialect.answer(json.loads(request.body), respond)
        except AssertionError as error:
            # The framework ends the session with an error, which the test shows.
            return Answer.json({"error": {"message": str(error)}}, 400)

    with answering(answer) as address:
        yield address
