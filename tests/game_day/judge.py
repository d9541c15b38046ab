"""The judge compares the replies to the clients with what is stored, and the effects with the approvals."""

import json
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import permutations
from typing import Any

from tests.game_day.clients import ENDED, Api, Approver, Client, Reply, Supplier, completed
from tests.game_day.ledger import Effect, Ledger

ATTEMPTS = 10
READERS = 8
PICTURE_BYTES = 450_000
"""As `app.LARGE_BYTES`."""


@dataclass(frozen=True)
class StoredTask:
    """A task at the end of the game, as the server shows it."""

    status: str
    results: Mapping[str, Any]
    result: Any


@dataclass
class Verdict:
    """The findings of the judge.

    Attributes:
        facts: How many acknowledged facts were compared with what is stored.
        lost: Acknowledged data that is not stored.
        doubled: Effects that happened more often than they were approved, or under two idempotency keys.
        contradictions: Replies that contradict each other, the table, or the effects.
        stuck: Tasks that neither ended nor could be continued.
    """

    facts: int = 0
    tasks: Counter[str] = field(default_factory=Counter)
    repeated: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    contradictions: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return self.facts > 0 and not (self.lost or self.doubled or self.contradictions or self.stuck)

    def judge_task(self, task: str, replies: Iterable[Reply], stored_task: StoredTask | None) -> None:
        """Compare the replies about one task with what is stored, and with each other."""
        replies = list(replies)
        if stored_task is None:
            if any(reply.status is not None for reply in replies):
                self.lost.append(f"{task}: the task is gone")
            return
        may_differ = {"confirm"} if any(reply.unknown for reply in replies) else set[str]()
        for reply in replies:
            self._judge_reply(task, reply, stored_task, may_differ)
        for earlier, later in permutations(replies, 2):
            if earlier.received_s < later.sent_s:
                self._judge_order(task, earlier, later)

    def _judge_reply(self, task: str, reply: Reply, stored_task: StoredTask, may_differ: set[str]) -> None:
        for step in reply.steps or ():
            self.facts += 1
            reply_value, stored_value = (reply.results or {}).get(step), stored_task.results.get(step)
            if step not in stored_task.results:
                self.lost.append(f"{task}: a reply said that step {step} is completed; its result is not stored")
            elif differs(reply_value, stored_value) and step not in may_differ:
                self.lost.append(f"{task}: step {step} had the result {reply_value}, and has {stored_value}")
        if reply.status in ENDED:
            self.facts += 1
            if reply.status != stored_task.status:
                self.lost.append(f"{task}: was {reply.status} in a reply, and is {stored_task.status}")
        if reply.result is not None:
            self.facts += 1
            if reply.result != stored_task.result:
                self.lost.append(f"{task}: had the result {reply.result}, and has {stored_task.result}")
        if reply.not_recorded is not None and stored_task.results.get("confirm") == reply.not_recorded:
            self.contradictions.append(f"{task}: a reply said that {reply.not_recorded} is not recorded; it is stored")

    def _judge_order(self, task: str, earlier: Reply, later: Reply) -> None:
        if later.steps is not None and not (earlier.steps or frozenset()) <= later.steps:
            self.contradictions.append(f"{task}: {earlier.steps} were completed, and later only {later.steps}")
        if earlier.status in ENDED and later.status not in (None, earlier.status):
            self.contradictions.append(f"{task}: was {earlier.status}, and later {later.status}")

    def judge_effects(self, ledger: Ledger, approvals: Iterable[Mapping[str, Any]]) -> None:
        """Compare the effects with the approvals, and look for effects under two keys."""
        self.contradictions += [f"the key {key} came with two different calls" for key in ledger.mixed_keys]
        effects = list(ledger.effects.values())
        self.repeated = sum(effect.calls - 1 for effect in effects)
        calls = Counter((effect.tool, effect.order, json.dumps(effect.details, sort_keys=True)) for effect in effects)
        self.doubled += [f"{tool} of {order}: {count} keys" for (tool, order, _), count in calls.items() if count > 1]
        allowed = Counter(as_call(approval["arguments"]) for approval in approvals if approval["state"] == "approved")
        refunds = [effect for effect in effects if effect.tool == "refund"]
        counts = Counter(as_call({"order": refund.order, **refund.details}) for refund in refunds)
        self.doubled += [f"refund {call}: {count} effects" for call, count in counts.items() if count > allowed[call]]

    def judge_receipts(self, stored_tasks: Mapping[str, StoredTask], effects: Iterable[Effect]) -> None:
        """Check that each stored result has its effect."""
        effect_of = {effect.receipt: (effect.tool, effect.order) for effect in effects}
        for task, task_state in stored_tasks.items():
            for value in task_state.results.values():
                for entry in value if isinstance(value, list) else [value]:
                    if isinstance(entry, dict) and "receipt" in entry:
                        self.facts += 1
                        if effect_of.get(entry["receipt"]) != (entry["tool"], entry["order"]):
                            self.contradictions.append(f"{task}: {entry} has no effect")
            if "draw" in task_state.results and "ship" in task_state.results:
                self.facts += 1
                picture = random.Random(task_state.results["ship"]["order"]).randbytes(PICTURE_BYTES // 2).hex()
                if differs(task_state.results["draw"], picture):
                    self.lost.append(f"{task}: the picture is not the one that was drawn")

    def judge_decisions(self, approver: Approver, approvals: Iterable[Mapping[str, Any]]) -> None:
        states = {record["approvalId"]: record["state"] for record in approvals}
        for approval, state in approver.decisions.items():
            self.facts += 1
            if states.get(approval) != state:
                self.lost.append(f"approval {approval} was {state}, and is {states.get(approval)}")

    def judge_callbacks(self, supplier: Supplier, tasks: Iterable[StoredTask]) -> None:
        by_order = {task.results["order_parcel"]["order"]: task for task in tasks if "order_parcel" in task.results}
        for order, weights in supplier.accepted_weights.items():
            self.facts += 1
            if len(set(weights)) > 1:
                self.contradictions.append(f"{order}: the callbacks {weights} were all accepted")
            task = by_order.get(order)
            if task and task.results.get("delivery", {}).get("weight") not in weights:
                self.lost.append(f"{order}: the callback {weights} was accepted, but the step has {task.results}")


def as_call(arguments: Mapping[str, Any]) -> tuple[str, int]:
    return arguments["order"], arguments["amount"]


def read_tasks(client: Client) -> dict[str, StoredTask]:
    """Read all tasks of a client through the server."""
    return {task["taskId"]: read_task(client.api, task["taskId"]) for task in retry(client.tasks)}


def read_task(api: Api, task: str) -> StoredTask:
    """Read a task through the server."""
    task_view = retry(lambda: api.ask("tasks/get", taskId=task, _meta={"mcp-baton/variables": "all"}))
    meta = task_view.get("_meta", {})
    steps = completed(meta["_workflow.progress"]) if "_workflow.progress" in meta else ()
    results = {step: _value(api, meta.get(f"_workflow.result.{step}")) for step in steps}
    result = None
    if task_view["status"] == "completed" and not steps:
        response = retry(lambda: api.ask("tasks/result", taskId=task))
        result = response.get("structuredContent", response.get("content"))
    return StoredTask(task_view["status"], results, result)


def differs(value: Any, stored_value: Any) -> bool:
    """Return whether the values differ. For a large value, a reply has a link, or its size if it was not stored."""
    if value is None or (isinstance(value, dict) and ("error" in value or value.keys() == {"bytes"})):
        return False
    if isinstance(value, dict) and value.keys() == {"bytes", "uri"}:
        return isinstance(stored_value, dict) and "error" in stored_value
    return bool(value != stored_value)


def _value(api: Api, value: Any) -> Any:
    if not (isinstance(value, dict) and "uri" in value):
        return value
    [content, *_] = retry(lambda: api.ask("resources/read", uri=value["uri"]))["contents"]
    return json.loads(content["text"])


def retry[Answer](ask: Callable[[], Answer | None]) -> Answer:
    """Ask until there is an answer: nothing fails any more. Raises `LookupError` after some attempts."""
    for _ in range(ATTEMPTS):
        answer = ask()
        if answer is not None:
            return answer
        time.sleep(1)
    raise LookupError("the server does not answer after the game")


def judge(
    clients: Iterable[Client],
    approver: Approver,
    supplier: Supplier,
    ledger: Ledger,
    items: Iterable[Mapping[str, Any]],
) -> Verdict:
    """Judge a game that has ended."""
    verdict = Verdict()
    all_tasks: dict[str, StoredTask] = {}
    clients = list(clients)
    with ThreadPoolExecutor(READERS) as threads:
        task_maps = list(threads.map(read_tasks, clients))
    for client, tasks in zip(clients, task_maps, strict=True):
        replies: dict[str, list[Reply]] = defaultdict(list)
        for reply in client.log:
            replies[reply.task].append(reply)
        for task, task_replies in replies.items():
            verdict.judge_task(task, task_replies, tasks.get(task))
        all_tasks |= tasks
    for item in items:
        if item["sk"]["S"].startswith("TASK#") and "status" in item:
            task, status = item["sk"]["S"].removeprefix("TASK#"), item["status"]["S"]
            verdict.tasks[status] += 1
            if status not in ENDED:
                verdict.stuck.append(f"{task} is {status}")
            shown_task = all_tasks.get(task)
            if shown_task is None or shown_task.status != status:
                verdict.contradictions.append(f"{task} is {status} in the table, and {shown_task} for its owner")
    states = ("approved", "denied", "withdrawn", "waiting")
    approvals = [approval for state in states for approval in retry(partial(approver.list, state))]
    verdict.judge_effects(ledger, approvals)
    verdict.judge_receipts(all_tasks, ledger.effects.values())
    verdict.judge_decisions(approver, approvals)
    verdict.judge_callbacks(supplier, all_tasks.values())
    return verdict
