"""What a run of a workflow knows while it runs: statuses, outputs, variables, and which steps have stopped."""

from msgspec import structs

from mcp_baton.protocol.json import Json
from mcp_baton.tasks.record import EARLY_PREFIX, StepStatus, TaskRecord, is_early, statuses_of
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.tools.outcomes import Succeeded
from mcp_baton.workflow.definition_changes import Move
from mcp_baton.workflow.host import Host, Skip, Skipped, status_of
from mcp_baton.workflow.lease import Lease, Over, Superseded, TaskOver
from mcp_baton.workflow.list_elements import ListElements
from mcp_baton.workflow.pause import AnswersRequired, PauseReason
from mcp_baton.workflow.resolve import KnownValues
from mcp_baton.workflow.step_run import StepRun
from mcp_baton.workflow.steps.list_step import ListRun, ListStep
from mcp_baton.workflow.steps.question import Question
from mcp_baton.workflow.steps.step import Step


class State:
    """The state of a run. Only the thread that answers the request changes it.

    Attributes:
        lease: The run's claim on its task; `None` for a run without a task.
        task_id: The id of the task, for idempotency keys. It stays when the run continues without its task, because a
            late request may still create that task.
        known: What is known: arguments, statuses, outputs and variables.
        lost_results: Why the stored result of a completed step is not available, by step.
        traces: The steps that are settled.
        started: The steps that this run has started.
        running: How many calls of a step run in other threads, by step.
        stops: The steps that could not be settled, each with the reason.
        is_over: Whether the run cannot write to its task any more.
        lists: The calls of lists, by step.
        early: The answers and callbacks that came before their steps were reached, by step.
    """

    def __init__(self, known: KnownValues) -> None:
        self.workflow = known.workflow
        self.secrets = known.secrets
        self.lease: Lease | None = None
        self.task_id: str | None = None
        self.move: Move | None = None
        self.statuses = dict(known.statuses)
        self.outputs: dict[str, Json] = {}
        self.lost_results: dict[str, str] = {}
        self.traces: list[StepRun] = []
        self.started: set[str] = set()
        self.running: dict[str, int] = {}
        self.stops: dict[str, StepRun] = {}
        self.is_over = False
        self.lists: dict[str, ListRun] = {}
        self.items: dict[str, ListElements] = {}
        self.early: dict[str, Json] = {}
        self.variables = TaskVariables({})
        self.known = structs.replace(
            known,
            statuses=self.statuses,
            outputs=self.outputs,
            variables=self.variables,
            lost_results=self.lost_results,
            items=self.items,
        )

    def use_variables(self, variables: TaskVariables) -> None:
        self.variables = variables
        self.known = structs.replace(self.known, variables=variables)

    @property
    def task(self) -> TaskRecord | None:
        """The task as it was last read or written."""
        return self.lease.task if self.lease else None

    def known_to(self, this: StepRun) -> KnownValues:
        """What is known to a call: for that of an element, also the element."""
        return self.known if this.index is None else self.known.at(self.items[this.step.name].elements[this.index])

    # Which steps run

    @property
    def _running_steps(self) -> int:
        """How many steps have started and not ended."""
        if not self.lists:
            return len(self.running)
        waiting = {name for name, list_run in self.lists.items() if list_run.waiting}
        return len(self.running.keys() | waiting - self.stops.keys())

    def _list_with_room(self) -> ListStep | None:
        """The first list of which another call can begin now."""
        for name, list_run in self.lists.items():
            step = list_run.step
            if list_run.waiting and name not in self.stops and self.running.get(name, 0) < step.parallel:
                return step
        return None

    def settle(self, this: StepRun) -> None:
        """Note how a step ended."""
        name = this.step.name
        self.statuses[name] = status_of(this.outcome)
        if isinstance(this.outcome, Succeeded):
            self.outputs[name] = this.outcome.value
        self.traces.append(this)

    def _discard(self, step: Step) -> None:
        """Remove the record of a step, which gets another one."""
        self.traces = [this for this in self.traces if this.step.name != step.name]

    def stop_at(self, this: StepRun) -> None:
        """Note that a step could not be settled."""
        self.stops[this.step.name] = this
        self.is_over = self.is_over or isinstance(this.stop, TaskOver | Superseded)

    @property
    def over(self) -> Over | None:
        """Why the run cannot write to its task any more."""
        return next((this.stop for this in self.stops.values() if isinstance(this.stop, TaskOver | Superseded)), None)

    @property
    def pauses(self) -> list[PauseReason]:
        """Why steps have stopped, in the order of the steps."""
        stops = (self.stops[step.name].stop for step in self.workflow.steps if step.name in self.stops)
        return [stop for stop in stops if stop is not None and not isinstance(stop, TaskOver | Superseded)]

    def _update_questions(self, host: Host) -> None:
        """Let the first stopped question ask all questions whose values are known now, and the others only themselves.
        Steps that ran at the same time may have ended after the run has stopped at the first question."""
        steps = (self.stops[step.name] for step in self.workflow.steps if step.name in self.stops)
        for number, this in enumerate(this for this in steps if isinstance(this.stop, AnswersRequired)):
            pause = self.known.answers_pause(this.step, host)
            if isinstance(pause, AnswersRequired) and number:
                own_questions = tuple(question for question in pause.questions if question.name == this.step.name)
                pause = structs.replace(pause, questions=own_questions)
            this.stop = pause

    def settled_meanwhile(self, task: TaskRecord) -> list[Step]:
        """The stopped steps that callbacks or continuations have completed, in a task of this definition."""
        if self.is_over or not self.stops or (self.move and self.move.concerns(task)):
            return []
        statuses = statuses_of(task)
        steps = (step for step in self.workflow.steps if step.name in self.stops)
        steps = (step for step in steps if statuses.get(step.name) is StepStatus.COMPLETED)
        # A value that came early stays unused as long as the condition of its step has no result.
        return [step for step in steps if not is_early(task.variables, step.name) or self.known.may_settle(step)]

    # Answers and callbacks that come early

    def _take_answers(self) -> None:
        """Settle the questions that this invocation answers. An answer counts as the step's result.

        An answer to a question that is skipped is ignored. One whose question is not reached is stored, and waits.
        """
        for name, arguments in self.known.answers.items():
            step = self.workflow.step(name)
            if not isinstance(step, Question) or self.known.decide_condition(step) is False:
                continue
            is_reached = self.known.may_settle(step)
            users = tuple(user.name for user in self.workflow.steps if user.uses(step.binding))
            self._discard(step)
            self.settle(StepRun(step, outcome=Succeeded(arguments[name]), users=users))
            self._note_early(step, is_early=not is_reached)
        self._hold_early()

    def _hold_early(self) -> None:
        """Reopen the steps whose values came before their conditions were decided, or before the steps that they need
        were settled. No step uses such a value earlier."""
        for step in self.workflow.steps:
            if not is_early(self.variables, step.name) or step.name not in self.outputs:
                continue
            if self.known.may_settle(step):
                self._note_early(step, is_early=False)
                continue
            self.early[step.name] = self.outputs.pop(step.name)
            self.statuses[step.name] = StepStatus.PENDING

    def _skip(self, step: Step) -> None:
        """Skip a step whose condition is false. A value that came before is dropped."""
        self.early.pop(step.name, None)
        self._note_early(step, is_early=False)
        self._discard(step)
        self.settle(StepRun(step, outcome=Skipped(Skip.CONDITION)))

    def _use_early(self, step: Step) -> bool:
        """Settle a step whose condition holds by the value that came before. Returns whether there is one."""
        if step.name not in self.early:
            return False
        self.outputs[step.name] = self.early.pop(step.name)
        self.statuses[step.name] = StepStatus.COMPLETED
        self._note_early(step, is_early=False)
        return True

    def _note_early(self, step: Step, *, is_early: bool) -> None:
        name = f"{EARLY_PREFIX}{step.name}"
        if is_early or name in self.variables:
            self.variables.note(name, is_early)
