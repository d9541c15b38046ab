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
class Stored:
    """A task at the end of the game, as the server shows it.

    Attributes:
        results: The values of the completed steps.
    """

    status: str
    results: Mapping[str, Any]
    result: Any


@dataclass
class Verdict:
    """What the judge found.

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

    def judge_task(self, task: str, replies: Iterable[Reply], stored: Stored | None) -> None:
        """Compare the replies about one task with what is stored, and with each other."""
        replies = list(replies)
        if stored is None:
            if any(reply.status is not None for reply in replies):
                self.lost.append(f"{task}: the task is gone")
            return
        for reply in replies:
            self._judge_reply(task, reply, stored, may_differ={"confirm"} if any(r.unknown for r in replies) else set())
        for earlier, later in permutations(replies, 2):
            if earlier.received < later.sent:
                self._judge_order(task, earlier, later)

    def _judge_reply(self, task: str, reply: Reply, stored: Stored, may_differ: set[str]) -> None:
        for step in reply.steps or ():
            self.facts += 1
            shown, is_stored = (reply.results or {}).get(step), stored.results.get(step)
            if step not in stored.results:
                self.lost.append(f"{task}: a reply said that step {step} is completed; its result is not stored")
            elif differs(shown, is_stored) and step not in may_differ:
                self.lost.append(f"{task}: step {step} had the result {shown}, and has {is_stored}")
        if reply.status in ENDED:
            self.facts += 1
            if reply.status != stored.status:
                self.lost.append(f"{task}: was {reply.status} in a reply, and is {stored.status}")
        if reply.result is not None:
            self.facts += 1
            if reply.result != stored.result:
                self.lost.append(f"{task}: had the result {reply.result}, and has {stored.result}")
        if reply.not_recorded is not None and stored.results.get("confirm") == reply.not_recorded:
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
        allowed = Counter(as_call(one["arguments"]) for one in approvals if one["state"] == "approved")
        made = Counter(as_call({"order": one.order, **one.details}) for one in effects if one.tool == "refund")
        self.doubled += [f"refund {call}: {count} effects" for call, count in made.items() if count > allowed[call]]

    def judge_receipts(self, stored: Mapping[str, Stored], effects: Iterable[Effect]) -> None:
        """Check that each stored result has its effect."""
        made = {effect.receipt: (effect.tool, effect.order) for effect in effects}
        for task, one in stored.items():
            for value in one.results.values():
                for each in value if isinstance(value, list) else [value]:
                    if isinstance(each, dict) and "receipt" in each:
                        self.facts += 1
                        if made.get(each["receipt"]) != (each["tool"], each["order"]):
                            self.contradictions.append(f"{task}: {each} has no effect")
            if "draw" in one.results and "ship" in one.results:
                self.facts += 1
                picture = random.Random(one.results["ship"]["order"]).randbytes(PICTURE_BYTES // 2).hex()
                if differs(one.results["draw"], picture):
                    self.lost.append(f"{task}: the picture is not the one that was drawn")

    def judge_decisions(self, approver: Approver, approvals: Iterable[Mapping[str, Any]]) -> None:
        states = {one["approvalId"]: one["state"] for one in approvals}
        for approval, state in approver.decided.items():
            self.facts += 1
            if states.get(approval) != state:
                self.lost.append(f"approval {approval} was {state}, and is {states.get(approval)}")

    def judge_callbacks(self, supplier: Supplier, stored: Iterable[Stored]) -> None:
        by_order = {one.results["order_parcel"]["order"]: one for one in stored if "order_parcel" in one.results}
        for order, weights in supplier.accepted.items():
            self.facts += 1
            if len(set(weights)) > 1:
                self.contradictions.append(f"{order}: the callbacks {weights} were all accepted")
            one = by_order.get(order)
            if one and one.results.get("delivery", {}).get("weight") not in weights:
                self.lost.append(f"{order}: the callback {weights} was accepted, but the step has {one.results}")


def as_call(arguments: Mapping[str, Any]) -> tuple[str, int]:
    return arguments["order"], arguments["amount"]


def read_tasks(client: Client) -> dict[str, Stored]:
    """Read all tasks of a client through the server."""
    return {task["taskId"]: read_task(client.api, task["taskId"]) for task in answered(client.tasks)}


def read_task(api: Api, task: str) -> Stored:
    """Read a task through the server."""
    shown = answered(lambda: api.ask("tasks/get", taskId=task, _meta={"mcp-baton/variables": "all"}))
    meta = shown.get("_meta", {})
    steps = completed(meta["_workflow.progress"]) if "_workflow.progress" in meta else ()
    results = {step: _value(api, meta.get(f"_workflow.result.{step}")) for step in steps}
    result = None
    if shown["status"] == "completed" and not steps:
        answer = answered(lambda: api.ask("tasks/result", taskId=task))
        result = answer.get("structuredContent", answer.get("content"))
    return Stored(shown["status"], results, result)


def differs(shown: Any, stored: Any) -> bool:
    """Whether a reply shows another value than the stored one. For a large value, it has a link, or the size if S3
    refused the value."""
    if shown is None or (isinstance(shown, dict) and ("error" in shown or shown.keys() == {"bytes"})):
        return False
    if isinstance(shown, dict) and shown.keys() == {"bytes", "uri"}:
        return isinstance(stored, dict) and "error" in stored
    return bool(shown != stored)


def _value(api: Api, shown: Any) -> Any:
    if not (isinstance(shown, dict) and "uri" in shown):
        return shown
    [content, *_] = answered(lambda: api.ask("resources/read", uri=shown["uri"]))["contents"]
    return json.loads(content["text"])


def answered[Answer](ask: Callable[[], Answer | None]) -> Answer:
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
    """Judge a game that has ended.

    Args:
        items: All items of the table.
    """
    verdict = Verdict()
    stored: dict[str, Stored] = {}
    clients = list(clients)
    with ThreadPoolExecutor(READERS) as threads:
        owned = list(threads.map(read_tasks, clients))
    for client, own in zip(clients, owned, strict=True):
        replies: dict[str, list[Reply]] = defaultdict(list)
        for reply in client.log:
            replies[reply.task].append(reply)
        for task, own_replies in replies.items():
            verdict.judge_task(task, own_replies, own.get(task))
        stored |= own
    for item in items:
        if item["sk"]["S"].startswith("TASK#") and "status" in item:
            task, status = item["sk"]["S"].removeprefix("TASK#"), item["status"]["S"]
            verdict.tasks[status] += 1
            if status not in ENDED:
                verdict.stuck.append(f"{task} is {status}")
            if task not in stored or stored[task].status != status:
                verdict.contradictions.append(f"{task} is {status} in the table, and {stored.get(task)} for its owner")
    states = ("approved", "denied", "withdrawn", "waiting")
    approvals = [one for state in states for one in answered(partial(approver.list, state))]
    verdict.judge_effects(ledger, approvals)
    verdict.judge_receipts(stored, ledger.effects.values())
    verdict.judge_decisions(approver, approvals)
    verdict.judge_callbacks(supplier, stored.values())
    return verdict
