"""`Context`: what a tool can ask of, and say to, the request that it runs in (docs/tools.md)."""

from collections.abc import Mapping, MutableMapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, overload

from mcp_baton.protocol.json import Json, dumps
from mcp_baton.server.asking.asker import Question, TaskBegins, supports
from mcp_baton.server.content import ResourceContent
from mcp_baton.server.running.notifications import Logs, send_progress

if TYPE_CHECKING:
    from mcp_baton.server.asking.forms import Schema
    from mcp_baton.server.asking.questions import Elicited, Roots, Said, Sampled


class Context(Logs):
    """The request that a tool runs in. A parameter annotated with it is filled in, and is not part of the schema.

    In a tool that was abandoned, or whose task was cancelled, the next call raises and ends the tool.
    """

    @property
    def request_id(self) -> str:
        """The id of the invocation, as it stands in the logs."""
        return self._call.request_id

    @property
    def owner(self) -> str | None:
        """The authenticated identity of the caller; `None` for a caller without one."""
        return self._call.owner

    @property
    def attempt(self) -> int:
        """Which call of its step this is within a run, from 1 on (docs/workflows.md, Trying again)."""
        return self._call.attempt

    @property
    def idempotency_key(self) -> str:
        """A text to give to an API that does nothing twice for the same one: 32 hex digits (docs/workflows.md,
        Idempotency keys).

        It is the same for every call of one step of one task with the same arguments: each attempt of its `Retry`, a
        resume, and a continuation that can only mean that step. Any other call has one that no other call has, and
        keeps it when it asks the client and runs again.
        """
        return self._call.key()

    @property
    def claims(self) -> Mapping[str, Any]:
        """The caller's claims, to read: what API Gateway's authorizer vouches for; empty where there is none."""
        return MappingProxyType(dict(self._call.claims))

    @property
    def task(self) -> MutableMapping[str, Json] | None:
        """The variables of the task that this call belongs to, to read and to set; `None` without a task."""
        self._check()
        return self._call.variables

    def remaining_ms(self) -> int | None:
        """Milliseconds until the function is stopped; `None` where nothing stops it."""
        self._check()
        return self._call.remaining_ms()

    def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell the client how far the tool has come, if it asked to be told.

        Args:
            progress: Grows with each call; a report that does not is left out, as MCP wants it.
            total: What `progress` will be at the end, where that is known.
            message: What is being done, for a person.

        Raises:
            ValueError, TypeError: something of it is not JSON.
        """
        self._check()
        send_progress(self._call, progress, total, message)

    def start_task(self) -> None:
        """Begin the background: in a tool with `task_start="explicit"`, whose client can have a task, the request is
        answered with the task here, and a worker calls the function again, with the answers that it has had so far
        (docs/background.md). There, and in any other call, it does nothing.
        """
        self._check()
        if self._call.starts_task:
            raise TaskBegins(dict(self._call.answers), self._call.key())

    @overload
    def elicit(
        self,
        message: str,
        schema: "Schema" = None,
        *,
        key: str | None = None,
        response_type: "Schema" = None,
        timeout_s: float | None = None,
    ) -> "Elicited": ...
    @overload
    def elicit(self, key: str, message: str, schema: "Schema", *, timeout_s: float | None = None) -> "Elicited": ...
    def elicit(self, *positional: Any, **named: Any) -> "Elicited":
        """Ask the person at the client to fill in a form: `elicit(message, schema, *, key=None, timeout_s=None)`. In
        the 2026 era, and in the background, the function runs again from its start once there is an answer, and this
        call then returns it.

        Args:
            positional: `message`, what to tell the person; and `schema`, a JSON Schema of flat primitive fields, or a
                type: a model, a dataclass, or a plain one, whose value is the answer's `data`. Without one the form has
                no fields. `key` may stand before them, as it once had to.
            named: The same by their names; `response_type` is another name for `schema`. `key` names the question
                within this call, and stays the same from run to run. Without one it is made of the question's number
                in the call and its text: a call that does not ask in the same order each time names its keys.
                `timeout_s` is how long the answer is waited for (docs/tools.md, Asking the client); in the background
                a task waits until it expires.

        Raises:
            ToolError: the client cannot be asked, or the answer does not fit.
            ValueError: the schema has fields within fields, or the key has asked something else in this call, or
                in this task.
        """
        return self._elicit("elicit", positional, named)

    @overload
    def elicit_url(
        self, message: str, url: str, *, key: str | None = None, timeout_s: float | None = None
    ) -> "Elicited": ...
    @overload
    def elicit_url(self, key: str, message: str, url: str, *, timeout_s: float | None = None) -> "Elicited": ...
    def elicit_url(self, *positional: Any, **named: Any) -> "Elicited":
        """Ask the person at the client to go to a page, for what must not pass through the client:
        `elicit_url(message, url, *, key=None, timeout_s=None)`. As `elicit`."""
        return self._elicit("elicit_url", positional, named)

    def sample(
        self,
        key: str,
        messages: "Said | Sequence[Said]",
        *,
        max_tokens: int = 1_000,
        timeout_s: float | None = None,
        **options: Json,
    ) -> "Sampled":
        """Ask the client's model. As `elicit`.

        Args:
            key: Names the question within this call.
            messages: Text, content, a `Message`, or a list of those.
            max_tokens: As many tokens may the answer have.
            options: Further params of `sampling/createMessage`, e.g. `systemPrompt`, `temperature`.
        """
        from mcp_baton.server.asking.questions import sampling

        answer: Sampled = self.ask(sampling(key, messages, max_tokens=max_tokens, timeout_s=timeout_s, **options))[0]
        return answer

    def list_roots(self, key: str, *, timeout_s: float | None = None) -> "Roots":
        """Ask for the folders that the client lets the server work on. As `elicit`."""
        from mcp_baton.server.asking.questions import roots

        answer: Roots = self.ask(roots(key, timeout_s=timeout_s))[0]
        return answer

    def ask(self, *questions: Question) -> list[Any]:
        """Ask several things in one round: `ctx.ask(elicitation(...), sampling(...), roots(...))`.

        Returns:
            The answers, in the order of the questions: `Elicited`, `Sampled`, `Roots`.

        Raises:
            ValueError: a key has asked something else in this call.
        """
        self._check()
        for question in questions:
            self._note(question)
        answers = self._call.asker.ask(questions)
        self._call.answers.update({question.key: answer for question, answer in zip(questions, answers, strict=True)})
        return [question.read(answer) for question, answer in zip(questions, answers, strict=True)]

    async def aask(self, *questions: Question) -> list[Any]:
        """As `ask`, without blocking the event loop while the client has not answered."""
        import asyncio

        return await asyncio.to_thread(self.ask, *questions)

    def client_supports(self, capability: str) -> bool:
        """Whether the client can be asked: `elicitation`, `elicitation.url`, `sampling`, `roots`. Yes where that is not
        known: for a client of the handshake era that sends no session id."""
        return supports(self._call.envelope, capability)

    def read_resource(self, uri: str) -> list[ResourceContent]:
        """Read a resource of this server: `ctx.read_resource("docs://refunds")[0].content`. In an `async def`, use
        `aread_resource`.

        Returns:
            A list of one `ResourceContent`, with `content` (text or bytes) and `mime_type`.

        Raises:
            ToolError: there is no such resource. Exceptions of the resource's function are raised as they are.
        """
        self._check()
        return self._call.read(uri, self)

    async def aread_resource(self, uri: str) -> list[ResourceContent]:
        """As `read_resource`, without blocking the event loop."""
        import asyncio

        return await asyncio.to_thread(self.read_resource, uri)

    def _elicit(self, method: str, positional: Sequence[Any], named: Mapping[str, Any]) -> "Elicited":
        from mcp_baton.server.asking.arguments import question_of

        answer: Elicited = self.ask(question_of(method, self._call.questions + 1, positional, named))[0]
        return answer

    def _note(self, question: Question) -> None:
        """Count a question, and hold what it asks against what its key has asked before in this call."""
        asks = f"{question.method} {dumps(question.params, sort_keys=True)}"
        if self._call.asked.setdefault(question.key, asks) != asks:
            raise ValueError(
                f"question key {question.key!r}: it has asked something else in this call; give each its own"
            )
        self._call.questions += 1
