"""A client of a server, for the commands."""

import re
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from itertools import count
from typing import Any, Final

from msgspec import structs

from mcp_baton.cli.remote.arguments import unknown
from mcp_baton.cli.remote.errors import CommandFailure, Rejected, Unreachable, ended_message, protocol_error
from mcp_baton.cli.remote.printing import ProgressDisplay, short
from mcp_baton.cli.remote.questions import Stopped, Terminal
from mcp_baton.cli.remote.task import RunResult
from mcp_baton.exceptions import BatonError
from mcp_baton.present.view import NEXT_KEY, TaskView, view_in_meta, view_in_result
from mcp_baton.protocol.envelope import (
    CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    TASK_ID_KEY,
    TASKS_EXTENSION,
    VERSION_HEADER,
    VERSION_KEY,
)
from mcp_baton.testing.wire import REVISIONS, Era, parameter_headers, standard_headers
from mcp_baton.tools.schema.prompt_arguments import SECRETS

ROUNDS: Final = 100
"""The maximum number of times that one request may ask questions."""

PAGES: Final = 1_000
ENTRIES: Final = 100_000
"""The maximum number of pages and entries of a list."""

SEARCH_LIMIT: Final = 1_000
"""The number of newest tasks among which a prefix is looked up."""

PROGRESS_TOKEN: Final = {"progressToken": "baton"}

POLL_MS: Final = (100, 60_000)
"""The minimum and the maximum of the time between two polls, whatever the server requests, milliseconds."""

ANSWER_DELAY_S: Final = 1.0
"""The time before a task is polled after its question was answered, seconds."""

type Receive = Callable[[dict[str, Any]], bool]
"""Gets each message of an answer when it arrives. Returns whether it was the last one."""


type Send = Callable[[Mapping[str, Any], Mapping[str, str], Receive], None]
"""Sends a message with headers to a server, and reads the answer."""


class Remote:
    """A server, with the terminal that answers its questions and shows its progress.

    Requests raise `Rejected` if the server answers with an error, `Unreachable` if it does not answer, and `Denied` if
    it rejects the caller.

    Args:
        send: Sends a message to it.
        terminal: Answers its questions.
        progress: Shows its notifications.
        sleep: Waits for a number of seconds before a task is polled again.
    """

    def __init__(
        self, send: Send, terminal: Terminal, progress: ProgressDisplay, sleep: Callable[[float], None]
    ) -> None:
        self.terminal = terminal
        self.progress = progress
        self._send = send
        self._sleep = sleep
        self._ids = count(1)

    def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
        *,
        era: Era = "2026",
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Send a request, answer the server's questions, and return the result.

        `meta` and `headers` are added to those of the era. Only 2025 has `tasks/list`.
        """
        all_params = dict(params or {})
        for _ in range(ROUNDS):
            result = self._send_request(method, all_params, meta or {}, era, headers or {})
            if result.get("resultType") != "input_required":
                return result
            questions = result.get("inputRequests", {})
            all_params["inputResponses"] = {key: self.terminal.answer(question) for key, question in questions.items()}
            if "requestState" in result:
                all_params["requestState"] = result["requestState"]
        raise Rejected(0, f"{method} has asked {ROUNDS} times and asks again")

    def _send_request(
        self, method: str, params: Mapping[str, Any], meta: Mapping[str, Any], era: Era, headers: Mapping[str, str]
    ) -> dict[str, Any]:
        all_params = {**params, "_meta": {**_era_meta(era), **meta}} if era == "2026" or meta else params
        request = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": all_params}
        standard = standard_headers(method, params) if era == "2026" else {}
        responses: list[dict[str, Any]] = []

        def receive(message: dict[str, Any]) -> bool:
            if message.get("method") == "notifications/progress":
                self.progress.notify(message.get("params", {}))
            elif "method" not in message and ("result" in message or "error" in message):
                responses.append(message)
            return bool(responses)

        self._send(request, {VERSION_HEADER: REVISIONS[era], **standard, **headers}, receive)
        if not responses:
            raise Unreachable(f"the answer to {method} is incomplete. If the request has a task, look at the task")
        return _result(responses[0])

    def _pages(self, method: str, key: str, *, era: Era = "2026", limit: int | None = None) -> list[dict[str, Any]]:
        """Return the entries of a list. After `limit` entries, no further page is requested."""
        entries: list[dict[str, Any]] = []
        cursor: str | None = None
        for _ in range(PAGES):
            page = self.request(method, {} if cursor is None else {"cursor": cursor}, era=era)
            entries += page.get(key, [])
            cursor = page.get("nextCursor")
            if cursor is None or (limit is not None and len(entries) >= limit):
                return entries
            if len(entries) > ENTRIES:
                break
        raise protocol_error(f"the list of {method} does not end: {PAGES:,} pages or {ENTRIES:,} entries were read")

    def tool(self, name: str) -> dict[str, Any]:
        return _find_by_name(name, self._pages("tools/list", "tools"), "tool")

    def prompt(self, name: str) -> dict[str, Any]:
        return _find_by_name(name, self._pages("prompts/list", "prompts"), "prompt")

    def tasks(self, limit: int | None) -> list[dict[str, Any]]:
        """Return the caller's newest tasks; all for `None`."""
        return self._pages("tasks/list", "tasks", era="2025", limit=limit)

    def find_task(self, prefix: str) -> str:
        """Return the id of the caller's only task with this prefix."""
        return find_id(prefix, lambda: self.tasks(SEARCH_LIMIT))

    def task(self, task_id: str) -> TaskView:
        """Return a task with its suggested calls."""
        return view_in_result(self.request("tasks/get", {"taskId": task_id}, {NEXT_KEY: True}))

    def workflow_of(self, prefix: str) -> tuple[str, str]:
        """Return the id and the workflow of a task that can be resumed.

        Raises:
            Failure: it has ended, or it belongs to a tool.
        """
        state = self.task(self.find_task(prefix))
        if state.ended:
            raise CommandFailure(ended_message(f"the task {state.task_id}", state.status))
        if state.workflow is None:
            raise CommandFailure(f"the task {state.task_id} belongs to a tool and needs no resume")
        return state.task_id, state.workflow

    def end_task(self, task_id: str, result: Mapping[str, Any] | None = None) -> TaskView:
        """Cancel a task, or complete it with a result.

        Raises:
            Failure: it has already ended.
        """
        state = self.task(task_id)
        if not state.ended:
            params = {} if result is None else {"result": result}
            self.request("tasks/cancel", {"taskId": task_id, **params})
            state = self.task(task_id)
            # The 2026 era acknowledges the request even if the task ended in the meantime.
            if result is None and state.status == "cancelled":
                return state
            if result is not None and state.result_by and _without_meta(state.result) == _without_meta(result):
                return state
        raise CommandFailure(ended_message(f"the task {task_id}", state.status))

    def run(self, name: str, arguments: Mapping[str, str], task_id: str | None = None) -> RunResult:
        """Run a workflow, or resume a task of it."""
        result = self.request("prompts/get", {"name": name, "arguments": dict(arguments)}, _meta_for(task_id))
        meta, messages = result.get("_meta", {}), tuple(result.get("messages", ()))
        if "task_id" not in meta:
            return RunResult(name, messages, None)
        return RunResult(name, messages, self._task_after_run(meta), meta.get("persisted", True))

    def _task_after_run(self, meta: Mapping[str, Any]) -> TaskView:
        """Return the task after a run: as it is stored, unless the changes of the run were not stored."""
        view = view_in_meta(meta)
        try:
            stored_task = self.task(view.task_id)
        except Rejected:
            return view
        if meta.get("persisted", True) is True:
            return stored_task
        return structs.replace(stored_task, steps=view.steps, status=view.status, pause=view.pause)

    def run_with_secrets(self, name: str, arguments: dict[str, str], task_id: str | None = None) -> RunResult:
        """Run a workflow, or resume a task of it, and ask the user for missing secret arguments.

        Secrets that the user types are added to `arguments` for the command's next requests.
        """
        while True:
            try:
                return self.run(name, arguments, task_id)
            except Rejected as error:
                names = error.data.get(SECRETS) if isinstance(error.data, Mapping) else None
                secrets = names if isinstance(names, list) else []
                missing = [secret for secret in secrets if isinstance(secret, str) and secret not in arguments]
                if not missing or not self.terminal.interactive:
                    raise
                try:
                    arguments |= {secret: self.terminal.secret(secret) for secret in missing}
                except Stopped:
                    raise error from None

    def call(self, tool: Mapping[str, Any], arguments: Mapping[str, Any], task_id: str | None = None) -> dict[str, Any]:
        """Call a tool and return the result. If the call becomes a task, wait until the task ends.

        Args:
            tool: The tool as it is listed.
            arguments: Its arguments.
            task_id: The task of the workflow to which the call belongs.

        Raises:
            Failure: the call's task failed or was cancelled.
        """
        params = {"name": tool["name"], "arguments": dict(arguments)}
        headers = parameter_headers(tool.get("inputSchema", {}), arguments)
        result = self.request("tools/call", params, _meta_for(task_id), headers=headers)
        return self._wait_for_task(result) if result.get("resultType") == "task" else result

    def _wait_for_task(self, task: Mapping[str, Any]) -> dict[str, Any]:
        task_id = str(task["taskId"])
        self.progress.say(f"task {task_id}")
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
                        self.request("tasks/update", {"taskId": task_id, "inputResponses": answers})
                        self._sleep(ANSWER_DELAY_S)
                    case _:
                        self._sleep(min(max(task.get("pollIntervalMs", 1_000), POLL_MS[0]), POLL_MS[1]) / 1000)
                task = self.request("tasks/get", {"taskId": task_id})
                if task.get("statusMessage"):
                    self.progress.say(str(task["statusMessage"]))
        except KeyboardInterrupt:
            self.terminal.say(f"The task {task_id} continues. Use its id with baton show and baton cancel.")
            raise


def _result(message: Mapping[str, Any]) -> dict[str, Any]:
    if "error" in message:
        error = message["error"]
        code = error.get("code") if isinstance(error, dict) else None
        if not isinstance(code, int):
            raise protocol_error(f"the server answered with an error whose code is not a number: {short(error)}")
        raise Rejected(code, str(error.get("message", "")), error.get("data"))
    result: dict[str, Any] = message["result"]
    return result


def _without_meta(result: Any) -> Any:
    """Return a result without the members that the server adds to the result of a tool."""
    if not isinstance(result, Mapping):
        return result
    return {name: value for name, value in result.items() if name not in ("resultType", "_meta")}


def _meta_for(task_id: str | None) -> dict[str, Any]:
    return PROGRESS_TOKEN if task_id is None else {**PROGRESS_TOKEN, TASK_ID_KEY: task_id}


def _era_meta(era: Era) -> dict[str, Any]:
    if era == "2025":
        return {}
    return {
        VERSION_KEY: REVISIONS["2026"],
        CLIENT_INFO_KEY: {"name": "baton", "version": version("mcp-baton")},
        # Declared even without a terminal, where questions are declined: some servers reject other clients.
        CAPABILITIES_KEY: {"extensions": {TASKS_EXTENSION: {}}, "elicitation": {"form": {}}},
    }


def _find_by_name(name: str, items: Sequence[Mapping[str, Any]], kind: str) -> dict[str, Any]:
    by_name = {str(item["name"]): dict(item) for item in items}
    if name not in by_name:
        raise unknown(kind, name, list(by_name))
    return by_name[name]


def find_id(prefix: str, list_tasks: Callable[[], Sequence[Mapping[str, Any]]]) -> str:
    """Return the only id of a listed task with this prefix. A whole id needs no list.

    Raises:
        BatonError: no id or several ids have it.
    """
    if re.fullmatch(r"[0-9a-z]{37}", prefix):
        return prefix
    ids = [task_id for task in list_tasks() if (task_id := str(task["taskId"])).startswith(prefix)]
    if not prefix or not ids:
        raise BatonError(f"no task begins with {prefix!r}: `baton tasks` lists them")
    if len(ids) > 1:
        examples = ", ".join(ids[:5]) + (", …" if len(ids) > 5 else "")
        raise BatonError(f"{len(ids)} tasks begin with {prefix!r}: {examples}. Write more of the id")
    return ids[0]
