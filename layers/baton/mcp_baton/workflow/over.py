"""The last message of a run whose task came to an end, or was taken over, while it was under way. Pure."""

from collections.abc import Mapping, Sequence

from mcp_baton.tasks.record import TaskStatus
from mcp_baton.workflow.repeats import named
from mcp_baton.workflow.run import EndedRun, Over, Persisted, Superseded

TAKEN_OVER = "This run was superseded: it was late, and another run has taken the task over."
KEPT: Mapping[Persisted, str] = {
    True: "What this run did is recorded; the task says how it stands.",
    False: "Not all that this run did is recorded, and the rest may have been done twice; the task says how it stands.",
    "unknown": "Whether all that this run did is recorded is not known; the task says how it stands.",
}
"""What is said of a superseded run's work, by whether the store holds it."""


def what_became(run: EndedRun, over: Over) -> str:
    """What ended the task or the run's hold on it, which step ran last, and that the others were not run. It hands
    nothing off."""
    ran = [trace.step.name for trace in run.traces if not trace.replayed]
    left = [name for name, status in run.statuses.items() if not status.settled and name not in ran]
    if isinstance(over, Superseded):
        lost = [f"Not recorded for certain: {named(run.lost)}."] if run.lost else []
        return " ".join([TAKEN_OVER, KEPT[run.persisted], *lost, _last_step(ran), _steps_not_run(left)])
    return " ".join([f"{_event(over.status)} while this run was under way.", _last_step(ran), _steps_not_run(left)])


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


def _last_step(ran: Sequence[str]) -> str:
    return f"Step '{ran[-1]}' ran last." if ran else "The run ran no step."


def _steps_not_run(left: Sequence[str]) -> str:
    names = ", ".join(f"'{name}'" for name in left)
    return f"These steps were not run: {names}." if names else "No step was left to run."
