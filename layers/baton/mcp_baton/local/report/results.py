"""What became of a request, in words: read off its result, which is not serialized yet. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

from mcp_baton.local.report.entry import Status, one_line
from mcp_baton.protocol.json import Json, JsonObject

type Outcome = tuple[Status, str]

LISTS: Final = {
    "tools/list": ("tools", "tool"),
    "prompts/list": ("prompts", "prompt"),
    "resources/list": ("resources", "resource"),
    "resources/templates/list": ("resourceTemplates", "template"),
    "tasks/list": ("tasks", "task"),
}
"""Of the methods that list: the result's member, and the word for one of what it holds."""

WAITING_STATUSES: Final = ("input_required", "working")


def outcome_of(method: str, result: JsonObject, recorded_as: str | None, time_over: str) -> Outcome:
    """How a request ended that has a result.

    Args:
        method: Its method.
        result: Its result.
        recorded_as: The step that its call was recorded as, where it was.
        time_over: What to say of a workflow that stopped for want of time.
    """
    meta = _object(result.get("_meta"))
    if "recorded" in meta:
        return _of_recording(result, meta, recorded_as)
    if result.get("resultType") == "input_required":
        return Status.WAITING, f"asks for {_keys(result.get('inputRequests')) or 'input'}"
    if "taskId" in result or "task" in result:
        return _of_task(_object(result.get("task")) or result)
    if result.get("isError") is True:
        return Status.FAILED, _text(result)
    if "task_status" in meta or "pause_reason" in meta:
        return _of_run(meta, time_over)
    if method in LISTS:
        member, noun = LISTS[method]
        found = result.get(member)
        count = len(found) if isinstance(found, Sequence) else 0
        return Status.DONE, f"1 {noun}" if count == 1 else f"{count} {noun}s"
    return Status.DONE, "done"


def task_of(result: JsonObject) -> str:
    """The task that a result is about; empty for none."""
    for holder in (result, _object(result.get("task"))):
        if isinstance(holder.get("taskId"), str):
            return str(holder["taskId"])
    found = _object(result.get("_meta")).get("task_id")
    return found if isinstance(found, str) else ""


def pause_words(reason: JsonObject, time_over: str) -> str:
    """Why a workflow is paused, such as `paused at refund: missing approved_by`.

    Args:
        reason: The pause reason, as `_meta` has it (docs/workflows.md).
        time_over: What to say of one that stopped for want of time.
    """
    step = reason.get("failedStep", reason.get("blockedStep"))
    return f"paused at {_word(step)}: {_cause(reason, time_over)}"


def _of_recording(result: JsonObject, meta: JsonObject, step: str | None) -> Outcome:
    failed = result.get("isError") is True
    if meta["recorded"] is True:
        where = f"recorded as step {step!r}" if step else "recorded as an extra call"
        told = f"{where}, failed: {_text(result)}" if failed else f"{where}{_all_done(meta)}"
        return (Status.FAILED if failed else Status.DONE), told
    whether = "may not be recorded" if meta["recorded"] == "unknown" else "not recorded"
    error = f"; {_text(result)}" if failed else ""
    return Status.FAILED, f"{whether}: {_word(meta.get('record_error'))}{error}"


def _all_done(meta: JsonObject) -> str:
    steps = meta.get("steps")
    if not isinstance(steps, Sequence) or isinstance(steps, str) or not steps:
        return ""
    settled = sum(_object(step).get("status") in ("completed", "skipped") for step in steps)
    return f", {settled} of {len(steps)} steps done"


def _of_task(task: JsonObject) -> Outcome:
    status = _word(task.get("status"))
    told = task.get("statusMessage")
    words = f"{status}: {_word(told)}" if isinstance(told, str) and told else status
    if status == "failed":
        return Status.FAILED, words
    return (Status.WAITING if status in WAITING_STATUSES else Status.DONE), words


def _of_run(meta: JsonObject, time_over: str) -> Outcome:
    reason = _object(meta.get("pause_reason"))
    status = _word(meta.get("task_status", "working"))
    words = pause_words(reason, time_over) if reason else status
    lost = {False: "; not saved", "unknown": "; may not be saved"}.get(meta.get("persisted", True), "")
    failed = bool(lost) or reason.get("type") == "toolError" or status == "failed"
    if failed:
        return Status.FAILED, words + lost
    return (Status.WAITING if reason else Status.DONE), words


def _cause(reason: JsonObject, time_over: str) -> str:
    match reason.get("type"):
        case "unresolvableParams":
            return f"missing {_word(reason.get('missingParam'))}"
        case "schemaMismatch":
            return _mismatch(reason)
        case "toolError":
            return _word(reason.get("error"))
        case "unresolvedDependency":
            return f"needs {_word(reason.get('missingOutput'))} of step {_word(reason.get('producingStep'))}"
        case "deadlineExceeded":
            return f"out of time ({time_over})"
        case kind:
            return _word(kind)


def _mismatch(reason: JsonObject) -> str:
    missing, invalid = reason.get("missingFields"), reason.get("invalidFields")
    parts = []
    if isinstance(missing, Sequence) and missing:
        parts.append(f"missing {', '.join(map(_word, missing))}")
    if isinstance(invalid, Sequence) and invalid:
        fields = map(_object, invalid)
        parts.append(f"invalid {', '.join(f'{_word(f.get("field"))} ({_word(f.get("problem"))})' for f in fields)}")
    return one_line("; ".join(parts))


def _text(result: JsonObject) -> str:
    """The first text of a result's content."""
    content = result.get("content")
    blocks = content if isinstance(content, Sequence) and not isinstance(content, str) else ()
    texts = (_object(block).get("text") for block in blocks)
    return next((one_line(text) for text in texts if isinstance(text, str)), "failed")


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, Mapping) else {}


def _keys(value: Json) -> str:
    return ", ".join(map(one_line, _object(value)))


def _word(value: object) -> str:
    return one_line(value) if isinstance(value, str) else "?"
