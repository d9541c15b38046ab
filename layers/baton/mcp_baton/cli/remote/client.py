"""A client of a server, for the commands."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Final, override

from msgspec import structs

from mcp_baton.cli.remote.arguments import ArgumentError, unknown
from mcp_baton.cli.remote.errors import CommandFailure, Unreachable, ended_message
from mcp_baton.cli.remote.printing import ProgressDisplay, RunResult
from mcp_baton.cli.remote.questions import Stopped, Terminal
from mcp_baton.exceptions import BatonError
from mcp_baton.present.view import NEXT_KEY, WAITS_FOR_KEY, TaskView, view_in_meta, view_in_result
from mcp_baton.protocol.envelope import CAPABILITIES_KEY, CLIENT_INFO_KEY, TASK_ID_KEY, TASKS_EXTENSION
from mcp_baton.protocol.json import JsonObject
from mcp_baton.tasks.step_ids import bare_task_id
from mcp_baton.testing.mcp_client import JsonRpcError, McpClient
from mcp_baton.testing.results import Run, omit
from mcp_baton.tools.schema.prompt_arguments import SECRETS

MAX_TASKS_SEARCHED: Final = 1_000
"""The number of newest tasks among which a prefix is looked up."""
POLL_MS: Final = (100, 60_000)
"""The minimum and the maximum of the time between two polls, whatever the server requests."""
ANSWER_DELAY_S: Final = 1.0
"""The time before a task is polled after its question was answered."""

type Receive = Callable[[dict[str, Any]], bool]
"""Gets each message of an answer when it arrives. Returns whether it was the last one."""


type Send = Callable[[Mapping[str, Any], Mapping[str, str], Receive], int]
"""Sends a message with headers to a server, and reads the answer. Returns its HTTP status."""


@dataclass
class Remote(McpClient):
    """A server, with the terminal that answers its questions and shows its progress. Requests raise `JsonRpcError` if
    the server answers with an error, `Unreachable` if it does not answer, and `Denied` if it rejects the caller.

    Attributes:
        target: The file or module that is served in this process, for one command; `None` for a server.
    """

    transport: Send
    terminal: Terminal
    progress: ProgressDisplay
    sleep: Callable[[float], None]
    target: str | None = None
    _tools: dict[str, dict[str, Any]] = field(default_factory=dict)
    era = "2026"

    @property
    @override
    def declared(self) -> JsonObject:
        return {
            CLIENT_INFO_KEY: {"name": "baton", "version": version("mcp-baton")},
            # Declared even without a terminal, where questions are declined: some servers reject other clients.
            CAPABILITIES_KEY: {"extensions": {TASKS_EXTENSION: {}}, "elicitation": {"form": {}}},
        }

    @override
    def input_schema(self, tool: str) -> Mapping[str, Any]:
        schema: Mapping[str, Any] = self._tools.get(tool, {}).get("inputSchema", {})
        return schema

    @override
    def answer(self, question: JsonObject, key: str) -> JsonObject:
        return self.terminal.answer(question)

    @override
    def exchange(self, message: JsonObject, headers: Mapping[str, str], *, is_repeat: bool) -> tuple[JsonObject, int]:
        responses: list[dict[str, Any]] = []

        def receive(received: dict[str, Any]) -> bool:
            if received.get("method") == "notifications/progress":
                self.progress.notify(received.get("params", {}))
            elif "method" not in received and ("result" in received or "error" in received):
                responses.append(received)
            return bool(responses)

        status = self.transport(message, headers, receive)
        if not responses:
            problem = f"the answer to {message['method']} is incomplete"
            raise Unreachable(f"{problem}. If the request has a task, look at the task")
        return responses[0], status

    def tool(self, name: str) -> dict[str, Any]:
        self._tools = {str(tool["name"]): tool for tool in self.pages("tools/list", "tools")}
        return _named(name, self._tools, "tool")

    def prompt(self, name: str) -> dict[str, Any]:
        prompts = {str(item["name"]): item for item in self.pages("prompts/list", "prompts")}
        if name not in prompts:
            with suppress(JsonRpcError, Unreachable):  # a server may have no tools
                if any(name == tool["name"] for tool in self.pages("tools/list", "tools")):
                    raise ArgumentError(f"{name!r} is a tool, and not a prompt: use `baton call`")
        return _named(name, prompts, "prompt")

    def tasks(self, limit: int | None) -> list[dict[str, Any]]:
        """Return the caller's newest tasks; all for `None`. Only the 2025 era lists tasks."""
        return self.pages("tasks/list", "tasks", era="2025", limit=limit)

    def find_task(self, prefix: str) -> str:
        """Return the id of the caller's only task with this prefix, which may name a step, too. A whole id needs no
        list. Raises `BatonError` if no id or several ids have it."""
        prefix = bare_task_id(prefix)
        if re.fullmatch(r"[0-9a-z]{37}", prefix):
            return prefix
        ids = [str(task["taskId"]) for task in self.tasks(MAX_TASKS_SEARCHED) if str(task["taskId"]).startswith(prefix)]
        if not prefix or not ids:
            raise BatonError(f"no task begins with {prefix!r}: `baton tasks` lists them")
        if len(ids) > 1:
            examples = ", ".join(ids[:5]) + (", …" if len(ids) > 5 else "")
            raise BatonError(f"{len(ids)} tasks begin with {prefix!r}: {examples}. Write more of the id")
        return ids[0]

    def task(self, task_id: str) -> TaskView:
        """Return a task with its suggested calls."""
        return view_in_result(self.result("tasks/get", {"taskId": task_id}, {NEXT_KEY: True}))

    def workflow_of(self, prefix: str) -> tuple[str, str]:
        """Return the id and the workflow of a task that can be resumed. Raises `CommandFailure` if it has ended, or it
        belongs to a tool."""
        state = self.task(self.find_task(prefix))
        if state.ended:
            raise CommandFailure(ended_message(f"the task {state.task_id}", state.status))
        if state.workflow is None:
            raise CommandFailure(f"the task {state.task_id} belongs to a tool and needs no resume")
        return state.task_id, state.workflow

    def end_task(self, task_id: str, result: Mapping[str, Any] | None = None) -> TaskView:
        """Cancel a task, or complete it with a result. Raises `CommandFailure` if it has already ended."""
        state = self.task(task_id)
        if not state.ended:
            self.result("tasks/cancel", {"taskId": task_id, **({} if result is None else {"result": result})})
            state = self.task(task_id)
            # The 2026 era acknowledges the request even if the task ended in the meantime.
            if result is None and state.status == "cancelled":
                return state
            if result is not None and state.result_by and _without_meta(state.result) == _without_meta(result):
                return state
        raise CommandFailure(ended_message(f"the task {task_id}", state.status))

    def run(self, name: str, arguments: Mapping[str, str], task_id: str | None = None) -> RunResult:
        """Run a workflow, or resume a task of it."""
        run = Run.of(self.result("prompts/get", {"name": name, "arguments": dict(arguments)}, _meta_for(task_id)))
        return RunResult(name, run, self._task_after_run(run.meta) if "task_id" in run.meta else None)

    def _task_after_run(self, meta: Mapping[str, Any]) -> TaskView:
        """Return the task after a run: as it is stored, unless the changes of the run were not stored."""
        view = view_in_meta(meta)
        try:
            stored_task = self.task(view.task_id)
        except JsonRpcError:
            return view
        if meta.get("persisted", True) is True:
            return stored_task
        return structs.replace(stored_task, steps=view.steps, status=view.status, pauses=view.pauses)

    def run_with_secrets(self, name: str, arguments: dict[str, str], task_id: str | None) -> RunResult:
        """Run a workflow, or resume a task of it, and ask the user for missing secret arguments."""
        while True:
            try:
                return self.run(name, arguments, task_id)
            except JsonRpcError as error:
                names = error.data.get(SECRETS) if isinstance(error.data, Mapping) else None
                secrets = names if isinstance(names, list) else []
                missing = [secret for secret in secrets if isinstance(secret, str) and secret not in arguments]
                if not missing or not self.terminal.interactive:
                    raise
                try:
                    arguments |= {secret: self.terminal.secret(secret) for secret in missing}
                except Stopped:
                    raise error from None

    def call(self, tool: str, arguments: Mapping[str, Any], task_id: str | None = None) -> dict[str, Any]:
        """Call a tool and return the result. If the call becomes a task, wait until it ends. `task_id` is the task of
        the workflow to which the call belongs. Raises `CommandFailure` if its own task failed or was cancelled."""
        result = self.result("tools/call", {"name": tool, "arguments": dict(arguments)}, _meta_for(task_id))
        return self._wait_for_task(result) if result.get("resultType") == "task" else result

    def _wait_for_task(self, task: Mapping[str, Any]) -> dict[str, Any]:
        task_id = str(task["taskId"])
        self.progress.say(f"task {task_id}")
        if self.target is not None:
            task = self._poll(task_id)  # its worker has already run
        try:
            while True:
                match task.get("status"):
                    case "completed":
                        result: dict[str, Any] = task.get("result", {})
                        return result
                    case "failed":
                        raise CommandFailure(f"the task {task_id} failed: {task.get('error', {}).get('message', '')}")
                    case "cancelled":
                        raise CommandFailure(f"the task {task_id} was cancelled")
                    case "input_required" if task.get("inputRequests"):
                        questions = task["inputRequests"]
                        answers = {key: self.terminal.answer(question) for key, question in questions.items()}
                        self.result("tasks/update", {"taskId": task_id, "inputResponses": answers})
                        self.sleep(ANSWER_DELAY_S)
                    case _ if self.target is not None and _waits_for_others(task):
                        raise CommandFailure(
                            f"the task {task_id} {task['statusMessage']}. {ends_with_command(self.target)}"
                        )
                    case _:
                        self.sleep(min(max(task.get("pollIntervalMs", 1_000), POLL_MS[0]), POLL_MS[1]) / 1000)
                task = self._poll(task_id)
        except KeyboardInterrupt:
            continues = f"The task {task_id} continues. Use its id with baton show and baton cancel."
            self.terminal.say(continues if self.target is None else ends_with_command(self.target))
            raise

    def _poll(self, task_id: str) -> dict[str, Any]:
        task = self.result("tasks/get", {"taskId": task_id})
        if task.get("statusMessage"):
            self.progress.say(str(task["statusMessage"]))
        return task


def ends_with_command(target: str) -> str:
    return f"The task ends with this command: serve {target} with `baton serve`, and run it there"


def _waits_for_others(task: Mapping[str, Any]) -> bool:
    """Whether a task waits only for people or other systems, which cannot reach a server in this process."""
    kinds = task.get("_meta", {}).get(WAITS_FOR_KEY, ())
    return bool(kinds) and "time" not in kinds


def _without_meta(result: Any) -> Any:
    """Return a result without the members that the server adds to the result of a tool."""
    return omit(result, "resultType", "_meta") if isinstance(result, Mapping) else result


def _meta_for(task_id: str | None) -> dict[str, Any]:
    return {"progressToken": "baton"} | ({} if task_id is None else {TASK_ID_KEY: task_id})


def _named(name: str, items: Mapping[str, dict[str, Any]], kind: str) -> dict[str, Any]:
    if name not in items:
        raise unknown(kind, name, list(items))
    return items[name]
