"""Promises 14 to 17: each reply is compared with the versions of its task that were current during the request."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from mcp_baton.exceptions import ProtocolError
from mcp_baton.present.mcp_task import HIDDEN_PREFIXES
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from mcp_baton.tasks.record import PAUSE_REASONS, PROGRESS
from tests.simulation.dynamodb.database import Key
from tests.simulation.dynamodb.paths import Item
from tests.simulation.dynamodb.versions import Version
from tests.simulation.faults import Fault
from tests.simulation.heads import (
    SETTLED,
    TERMINAL,
    claim_of,
    decoded,
    expires_ms,
    is_outside,
    status_of,
    steps_of,
    variables_of,
)
from tests.simulation.journal import Process

if TYPE_CHECKING:
    from tests.simulation.world import World

TASK = "TASK#"
UNKNOWN_TASK = "unknown task"
RESULT_BY = "mcp-baton/result_by"
UNREADABLE = "this value cannot be read now; ask again"
EXPIRED = "The task has expired."
STORE_DOWN = "the task store is not available"
SPAN_S = 600
"""How long an expired task may still count against its owner's limit, seconds: an eighth of a lifetime."""

SHORT_MS = 6_000
"""A function with less time left than this may have too little for its requests, milliseconds."""

HOT_S = 3.0
"""A partition that is hot for at most this long makes no reply uncertain."""

CERTAIN = frozenset({Fault.THROTTLED, Fault.HOT, Fault.STALLED_BEFORE, Fault.STALLED_AFTER})
READS = frozenset({"poll", "list", "listen", "result"})
_OVER = re.compile(r"[Tt]he task is (completed|failed|cancelled)")
_COUNT = re.compile(r"\b(\d+) of (\d+) steps?\b")
_NOT_VALUES = frozenset({PROGRESS, "_workflow.pause_reason", "_workflow.pause_reasons", "omitted"})


@dataclass(frozen=True, slots=True)
class ReportedTask:
    """What a reply says about a task; `None` for what it does not say.

    Attributes:
        step: The first step that is not settled, or `""` if there is none.
        pause: The pause reason without its error, or `{}` if there is none.
        values: The variables' values, by stored name. An omitted value has only its size and its URI.
        omitted: The names of such values.
        result_by: `client` if a client supplied the result, otherwise `""`.
        questions: The keys of the open questions.
    """

    status: str | None = None
    updated_at: str | None = None
    steps: Mapping[str, str] | None = None
    step: str | None = None
    pause: JsonObject | None = None
    values: Mapping[str, Json] | None = None
    omitted: frozenset[str] = frozenset()
    result: Json = None
    result_by: str | None = None
    questions: frozenset[str] | None = None


@dataclass(slots=True)
class Replies:
    """Compares replies with versions."""

    world: "World"
    _last: dict[tuple[str, str], Version] = field(default_factory=dict)

    # Events.

    def check_reply(self, process: Process) -> None:
        answer, task_id = process.answer, process.task_id
        self._check_certain(process)
        if isinstance(answer, ProtocolError):
            self._check_error(process, answer, task_id)
            return
        assert answer is not None
        meta = process.meta
        if process.kind in {"start", "begin"}:
            self._check_quota(process, is_refused="task_id" not in meta and "taskId" not in _task_in(answer))
        if meta.get("superseded"):
            self._check_superseded(process, str(meta["task_id"]))
        if "status" in _task_in(answer):
            task = _task_in(answer)
            read_task = reported_values if process.kind.startswith("poll") else reported_status
            self._check(process, str(task["taskId"]), read_task(task))
        elif process.kind == "listen":
            self._check_end(process)
        elif process.kind == "result":
            self._check(process, task_id, ReportedTask(result_by=meta.get(RESULT_BY, "")))
        elif "task_status" in meta:
            self.check_state(process, meta, certain="persisted" not in meta)
        elif meta.get("record_error") == UNKNOWN_TASK:
            self._check_missing(process, str(meta["task_id"]))

    def check_notification(self, process: Process, params: JsonObject) -> None:
        self.world.incidents.add("a stream showed a task")
        if params.get("statusMessage") == EXPIRED:
            self._check_missing(process, str(params["taskId"]))
            return
        self._check(process, str(params["taskId"]), reported_values(params), stream=True)

    def check_list(self, process: Process, pages: Sequence[JsonObject | ProtocolError]) -> None:
        self._check_certain(process)
        if isinstance(pages[-1], ProtocolError):
            return
        self.world.incidents.add(f"a list had {'several pages' if len(pages) > 1 else 'one page'}")
        tasks = [task for page in pages for task in cast("list[JsonObject]", cast("JsonObject", page)["tasks"])]
        ids = [str(task["taskId"]) for task in tasks]
        if ids != sorted(set(ids), reverse=True):
            self.wrong(16, f"{process.name} lists {ids}")
        for task in tasks:
            self._check(process, str(task["taskId"]), reported_in_list(task))
        if "nextCursor" in pages[-1]:
            return
        for key in self._keys(process.owner):
            versions = self.world.database.since(key, process.writes)
            lives = all(version.item and expires_ms(version.item) > self._clock(process)[1] for version in versions)
            if lives and key[1].removeprefix(TASK) not in ids:
                self.wrong(16, f"{process.name} lists {ids}, without {key[1]}")

    def check_state(self, process: Process, state: JsonObject, *, certain: bool) -> None:
        """Check the id, status, steps and pause reason of a workflow's task in a reply.

        Args:
            certain: Whether the reply says that all of this is stored.
        """
        task_id, status = str(state["task_id"]), str(state["task_status"])
        steps = {str(step["name"]): str(step["status"]) for step in cast("list[JsonObject]", state["steps"])}
        for completed_text, total_text in _COUNT.findall(str(state.get("message", ""))):
            completed = sum(status in SETTLED for status in steps.values())
            if certain and (int(completed_text), int(total_text)) != (completed, len(steps)):
                self.wrong(14, f"{process.name} counts {completed_text} of {total_text} steps, but lists {steps}")
        if certain:
            pause, result_by = _without_error(state.get("pause_reason")), process.meta.get("result_by", "")
            self._check(process, task_id, ReportedTask(status, steps=steps, pause=pause, result_by=result_by))
            return
        # Unsaved state is shown from memory. Even so, a task that had ended when the request began is not shown as
        # live.
        first_item = self.world.database.since(self._key(process.owner, task_id), process.writes)[0].item
        if status in TERMINAL:
            self._check(process, task_id, ReportedTask(status))
        elif first_item is not None and status_of(first_item) in TERMINAL:
            self.wrong(14, f"{process.name} shows {task_id} as {status}, but it was {status_of(first_item)}")

    # Checks.

    def wrong(self, number: int, description: str) -> None:
        self.world.judge.wrong(number, description)

    def _check(self, process: Process, task_id: str, reported: ReportedTask, *, stream: bool = False) -> None:
        """Check that one current version of the task agrees with the reply."""
        versions = self.world.database.since(self._key(process.owner, task_id), process.writes)
        last_version = self._last.get((process.name, task_id)) if stream else None
        if last_version is not None:
            versions = [version for version in versions if version.number >= last_version.number]
        differences: list[str] = []
        for version in versions:
            differences = list(self._differences(process, reported, version.item))
            if not differences:
                self._last[process.name, task_id] = version
                return
        self.wrong(14, f"{process.name} shows {task_id} as in none of {len(versions)} versions: {differences}")

    def _differences(self, process: Process, reported: ReportedTask, item: Item | None) -> Iterator[str]:
        """Yield the differences between a version and the reply."""
        if item is None:
            yield "there is no such task"
            return
        first_ms, last_ms = self._clock(process)
        if expires_ms(item) < first_ms:
            yield "it has expired"
        is_workflow = PROGRESS in variables_of(item)
        steps = steps_of(item) if is_workflow else {}
        for label, reported_value, stored_value in (
            ("status", reported.status, status_of(item)),
            ("change at", reported.updated_at, item["updated_at"]["S"]),
            ("step", reported.step, open_step(steps)),
            ("result by", reported.result_by, result_by(item)),
        ):
            if reported_value not in {None, stored_value}:
                yield f"{label} {reported_value!r}, but it is {stored_value!r}"
        if reported.steps is not None and reported.steps != steps:
            yield f"steps {reported.steps}, but they are {steps}"
        if reported.pause is not None and is_workflow:
            shown_pauses = self._shown_pauses(process, item, first_ms, last_ms)
            if reported.pause not in shown_pauses:
                yield f"pause {reported.pause}, but it is one of {shown_pauses}"
        if reported.values is not None:
            yield from _value_differences(reported, item, process)
        if reported.questions is not None and reported.questions != _questions(item):
            yield f"questions {sorted(reported.questions)}, but they are {sorted(_questions(item))}"

    def _shown_pauses(self, process: Process, item: Item, first_ms: float, last_ms: float) -> list[JsonObject]:
        """Return the pause reasons that a reply may show for a version of a task."""
        stored_pauses = pauses(item, first_ms, last_ms)
        if status_of(item) in TERMINAL:
            return stored_pauses
        judge = self.world.judge
        return [shown for pause in stored_pauses for shown in judge.shown_pauses(process, pause, (first_ms, last_ms))]

    def _check_error(self, process: Process, error: ProtocolError, task_id: str) -> None:
        end_match = _OVER.search(error.message)
        if end_match:
            self._check(process, task_id, ReportedTask(end_match[1]))
        elif isinstance(error.data, Mapping) and "status" in error.data:
            progress = cast("Any", error.data.get("progress"))
            steps = {step["name"]: step["status"] for step in progress["steps"]} if progress else None
            self._check(process, task_id, ReportedTask(str(error.data["status"]), steps=steps))
        elif error.code == INVALID_PARAMS and error.message == "Unknown task":
            self._check_missing(process, task_id)

    def _check_missing(self, process: Process, task_id: str) -> None:
        _, last_ms = self._clock(process)
        versions = self.world.database.since(self._key(process.owner, task_id), process.writes)
        if all(version.item is not None and expires_ms(version.item) > last_ms for version in versions):
            self.wrong(14, f"{process.name} gets the reply that the task {task_id} does not exist")

    def _check_superseded(self, process: Process, task_id: str) -> None:
        """Check a reply which says that another run has taken the task over."""
        holder = self.world.judge.claims.holders.get(process.name)
        item = self.world.database.since(self._key(process.owner, task_id), process.writes)[-1].item
        claim = claim_of(item) if item else None
        if holder is not None and claim is not None and claim[0] == holder.claim:
            self.wrong(14, f"{process.name} says that another run has its task, but holds it")

    def _check_end(self, process: Process) -> None:
        """Check a stream that ended. If it ended early, its client must know that all its tasks have ended."""
        if process.ends_ms is not None or self.world.scheduler.now_ms >= process.began_ms + 50_000:
            return
        for (name, task_id), reported in self._last.items():
            if name == process.name and reported.item and status_of(reported.item) not in TERMINAL:
                self._check_missing(process, task_id)

    def _check_certain(self, process: Process) -> None:
        """Check that a reply is uncertain, or an error, only after a fault. Throttling leaves no uncertainty, because a
        throttled request is not made."""
        meta, answer, faults = process.meta, process.answer, set(process.faults)
        if process.stalled:
            return
        if "unknown" in {meta.get("recorded"), meta.get("persisted")} and faults <= CERTAIN:
            self.wrong(15, f"{process.name} does not know what was written, after the faults {process.faults}")
        is_short = process.ends_ms is not None and process.ends_ms - self.world.scheduler.now_ms < SHORT_MS
        if is_short or faults - {Fault.HOT} or (faults and not self._is_safe_from_heat(process)):
            return
        if meta.get("record_error") == STORE_DOWN:
            self.wrong(15, f"{process.name} gets the reply that nothing was recorded, without a fault")
        if isinstance(answer, ProtocolError) and answer.code == INTERNAL_ERROR and "busy" not in answer.message:
            self.wrong(15, f"{process.name} is refused without a fault: {answer.message}")

    def _is_safe_from_heat(self, process: Process) -> bool:
        """Return whether a hot partition must not affect a process. The process must have time, and it must neither
        create nor claim a task, because these requests wait only for half a second."""
        from_ms, to_ms = self.world.hot
        return (
            process.kind not in {"start", "begin", "resume"}
            and process.ends_ms is None
            and to_ms - from_ms <= HOT_S * 1000
        )

    def _check_quota(self, process: Process, *, is_refused: bool) -> None:
        assert process.container is not None
        max_tasks = process.container.limits.max_tasks_per_owner
        if process.faults or process.stalled or (max_tasks is None and not is_refused):
            return
        if max_tasks is None:
            self.wrong(15, f"{process.name} has no task, without a fault and without a limit")
            return
        self.world.incidents.add("a task was refused at its owner's limit" if is_refused else "a task was counted")
        at_least, at_most = self._live(process)
        if is_refused and at_most < max_tasks:
            self.wrong(17, f"{process.name} cannot create a task, but its owner has at most {at_most} of {max_tasks}")
        if not is_refused and at_least >= max_tasks:
            self.wrong(17, f"{process.name} has created a task, but its owner had {at_least} of {max_tasks}")

    def _live(self, process: Process) -> tuple[int, int]:
        """Return the minimum and maximum number of live tasks that an owner had while a process created one."""
        world, (first_ms, last_ms) = self.world, self._clock(process)
        others = [other for other in world.processes.values() if other.container and other is not process]
        # A process that was still running, or had faults, may have left an ended or never created task counted. It may
        # be counted once per fault, because a count whose response was lost is sent again.
        unclear = sum(
            (other.answer is None or other.stalled or other.ended_writes > process.writes) + len(other.faults)
            for other in others
            if other.owner == process.owner and other.kind not in READS
        )
        at_least, at_most = 0, unclear
        for key in self._keys(process.owner):
            if process.created == key[1]:
                continue
            versions = world.database.since(key, process.writes)
            live = [version.item for version in versions if version.item and status_of(version.item) not in TERMINAL]
            # A deleted task may still be counted, as it was before the deletion.
            *_, before, last = (None, *(version.item for version in world.database.versions[key]))
            deleted_items = [before] if last is None and before and status_of(before) not in TERMINAL else []
            at_most += any(expires_ms(item) + SPAN_S * 1000 > first_ms for item in live or deleted_items)
            at_least += len(live) == len(versions) and all(expires_ms(item) > last_ms for item in live)
        if world.weather.skewed or world.weather.freezes:
            return 0, len(world.processes)
        return (0 if unclear or world.uncounted else at_least), at_most

    # Facts.

    def _key(self, owner: str, task_id: str) -> Key:
        return f"OWNER#{owner}", TASK + task_id

    def _keys(self, owner: str) -> list[Key]:
        return [key for key in self.world.database.versions if key[0] == f"OWNER#{owner}" and TASK in key[1]]

    def _clock(self, process: Process) -> tuple[float, float]:
        """Return the first and the last time that the process's wall clock may have shown, epoch milliseconds, with a
        margin of 1 ms."""
        return process.began_ms + process.fast_ms - 1, self.world.scheduler.now_ms + process.fast_ms + 1


def reported_status(task: JsonObject) -> ReportedTask:
    """Read a reply of `tasks/cancel`."""
    return ReportedTask(str(task["status"]), str(task["lastUpdatedAt"]))


def reported_in_list(task: JsonObject) -> ReportedTask:
    """Read a task in a reply of `tasks/list`."""
    reported, meta = reported_status(task), cast("Mapping[str, Any]", task.get("_meta", {}))
    return replace(reported, step=meta.get("step", ""), pause=_without_error(meta.get("pause_reason")))


def reported_values(task: JsonObject) -> ReportedTask:
    """Read a reply of `tasks/get`, or a notification."""
    reported, meta = reported_status(task), cast("Mapping[str, Any]", task.get("_meta", {}))
    progress = meta.get(PROGRESS, {"steps": []})
    return replace(
        reported,
        steps={step["name"]: step["status"] for step in progress["steps"]},
        pause=_without_error(meta.get("_workflow.pause_reason")),
        values={name: value for name, value in meta.items() if name not in _NOT_VALUES and not _is_reserved(name)},
        omitted=frozenset(meta.get("omitted", ())),
        result=task.get("result"),
        result_by=meta.get(RESULT_BY, ""),
        questions=frozenset(cast("JsonObject", task["inputRequests"])) if "inputRequests" in task else None,
    )


def pauses(item: Item, first_ms: float, last_ms: float) -> list[JsonObject]:
    """Return the pause reasons that a task can have by a clock that shows times in this range; `{}` stands for none."""
    if status_of(item) in TERMINAL:
        return [{}]
    stored = decoded(variables_of(item)[PAUSE_REASONS]) if PAUSE_REASONS in variables_of(item) else None
    reason = _without_error(stored[0] if isinstance(stored, list) else None)
    claim = claim_of(item)
    if claim is None or not claim[1] or not claim[2]:
        return [reason]
    blocked = open_step(steps_of(item))
    tools = {step["M"]["name"]["S"]: step["M"].get("tool", {"S": ""})["S"] for step in _progress(item)}
    pause = {"type": "interrupted", "blockedStep": blocked, "suggestedTool": tools[blocked]} if blocked else reason
    return [{}] * (claim[2] >= first_ms) + [pause] * (claim[2] <= last_ms)


def open_step(steps: Mapping[str, str]) -> str:
    """Return the first step that is not settled, or `""` if there is none."""
    return next((name for name, status in steps.items() if status not in SETTLED), "")


def result_by(item: Item) -> str:
    """Return `client` if a client supplied the task's result, otherwise `""`."""
    return "client" if "by_client" in item else ""


def _value_differences(reported: ReportedTask, item: Item, process: Process) -> Iterator[str]:
    attributes = {
        name: attribute
        for name, attribute in variables_of(item).items()
        if name not in _NOT_VALUES and not name.startswith(HIDDEN_PREFIXES)
    }
    assert reported.values is not None
    values = {**reported.values}
    if "result" in item and reported.result is not None:
        attributes["result"], values["result"] = item["result"], reported.result
    if attributes.keys() != values.keys():
        yield f"values {sorted(values)}, but they are {sorted(attributes)}"
        return
    for name, attribute in attributes.items():
        if name in reported.omitted or is_outside(attribute):
            continue
        value, stored_value = values[name], decoded(attribute)
        if name == "result" and isinstance(stored_value, Mapping) and "allowed" in item:
            # A job's result is shown as its call would have returned it.
            mark: JsonObject = {"_meta": {RESULT_BY: result_by(item)}} if result_by(item) else {}
            stored_value = {"resultType": "complete", **stored_value, **mark}
        if value != stored_value and not (value == {"error": UNREADABLE} and process.faults):
            yield f"{name} is shown as {str(value)[:80]}, but is {str(stored_value)[:80]}"


def _questions(item: Item) -> frozenset[str]:
    return frozenset(item["asked"]["M"].keys() - item["answers"]["M"].keys()) if "asked" in item else frozenset()


def _progress(item: Item) -> list[Any]:
    return cast("list[Any]", variables_of(item)[PROGRESS]["M"]["steps"]["L"])


def _without_error(reason: Json) -> JsonObject:
    """Return a reason without its error, and without what is computed when it is read."""
    members = reason.items() if isinstance(reason, Mapping) else ()
    return {name: value for name, value in members if name not in ("error", "over")}


def _is_reserved(name: str) -> bool:
    """Return whether a key of `_meta` belongs to the protocol or to Baton, and is not a variable."""
    return "/" in name


def _task_in(answer: JsonObject) -> JsonObject:
    """Return the task in a reply: the reply itself, or a member of it."""
    task = answer.get("task", answer)
    return task if isinstance(task, Mapping) else {}
