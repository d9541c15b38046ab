"""The last message of a run whose task came to an end while it was under way. Pure."""

from mcp_baton.tasks.record import StepStatus, TaskStatus
from mcp_baton.workflow.run import RunRecord, TaskOver


def what_became(run: RunRecord, over: TaskOver) -> str:
    """What ended the task, which step ran last, and that the others were not run. It hands nothing off."""
    return " ".join([f"{_event(over.status)} while this run was under way.", _last_step(run), _steps_not_run(run)])


def _event(status: TaskStatus | None) -> str:
    match status:
        case TaskStatus.CANCELLED:
            return "The task was cancelled"
        case TaskStatus.COMPLETED:
            return "The task was completed by somebody else"
        case None:
            return "The task expired or was deleted"
        case other:
            return f"The task became '{other}'"


def _last_step(run: RunRecord) -> str:
    ran = [trace.step.name for trace in run.traces if not trace.replayed]
    return f"Step '{ran[-1]}' ran last." if ran else "The run ran no step."


def _steps_not_run(run: RunRecord) -> str:
    pending = [f"'{name}'" for name, status in run.statuses.items() if status is StepStatus.PENDING]
    return f"These steps were not run: {', '.join(pending)}." if pending else "No step was left to run."
