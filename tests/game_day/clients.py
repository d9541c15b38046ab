"""The clients of the game. Each has an identity and a log of the replies that it got; `judge.py` compares the logs."""

import json
import random
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx2

from tests.deployed.conversation import JSON, REVISIONS
from tests.deployed.deployment import Stack
from tests.game_day.ledger import Ledger

GIVES_UP_S = 30.0
THINKS_S = (0.5, 3.0)
SLOW_POLL_S = 2.0
ATTEMPTS, AGAIN_S = 20, 0.3
"""Of the helpers, of which there is one for all clients."""
THROTTLED = 429
CANCELS = 0.02
TWICE = 0.1
"""The share of resumes that a client sends twice at once."""
DENIES = 0.2
BACKGROUND = ("export", "refund_later", "delivery")
KINDS = ("purchase", "parcels", "refund_order", "survey", "picture", *BACKGROUND)
WITH_AMOUNT = ("refund_order", "refund_later")
ENDED = ("completed", "failed", "cancelled")


@dataclass(frozen=True)
class Reply:
    """What one reply said of a task.

    Attributes:
        task: The task's id.
        sent: When the request was sent (monotonic seconds).
        received: When the reply came.
        status: The task's status, if the reply has it.
        steps: The steps that are completed and stored, if the reply has them.
        results: Their values, if the reply has them.
        result: The result of a call in the background.
        not_recorded: The value of a continuation that was not recorded.
        unknown: No reply came, so a continuation may be recorded.
    """

    task: str
    sent: float
    received: float
    status: str | None = None
    steps: frozenset[str] | None = None
    results: Mapping[str, Any] | None = None
    result: Any = None
    not_recorded: Any = None
    unknown: bool = False


@dataclass
class Order:
    """One task of a client, as far as the client knows it.

    Attributes:
        task: The id of the workflow's task, or of the call's task in the background.
        seen: The latest `structuredContent`.
    """

    kind: str
    name: str
    task: str | None = None
    background: bool = False
    seen: dict[str, Any] = field(default_factory=dict)
    over: bool = False


@dataclass
class Api:
    """The connection of one identity to the API."""

    stack: Stack
    key: str
    failures: int = 0
    requests: int = 0

    def __post_init__(self) -> None:
        headers = {**JSON, "MCP-Protocol-Version": REVISIONS["2025"], "Host": self.stack.host, "x-api-key": self.key}
        self._http = httpx2.Client(headers=headers, timeout=GIVES_UP_S)

    def send(
        self, path: str, body: Any = None, method: str = "POST", attempts: int = 1
    ) -> tuple[int, dict[str, Any]] | None:
        """Send a request. Returns the status and the body; None if no attempt got a usable reply."""
        content = None if body is None else json.dumps(body).encode()
        for _ in range(attempts):
            self.requests += 1
            with suppress(httpx2.HTTPError, ValueError):
                response = self._http.request(method, self.stack.endpoint.replace("/mcp", path), content=content)
                if response.status_code < 500 and response.status_code != THROTTLED:
                    return response.status_code, response.json()
            self.failures += 1
            if attempts > 1:
                time.sleep(AGAIN_S)
        return None

    def ask(self, method: str, **params: Any) -> dict[str, Any] | None:
        """Send an MCP request; returns its result, and None if there is none."""
        answer = self.send("/mcp", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        result: dict[str, Any] | None = answer[1].get("result") if answer else None
        return result


@dataclass
class Client:
    """One client. It places orders, and makes the next call of each until it ends."""

    number: int
    api: Api
    rng: random.Random
    log: list[Reply] = field(default_factory=list)
    placed: int = 0
    may_cancel: bool = True

    def play(self, over: threading.Event) -> None:
        """Place one order after the other, until the game is over."""
        while not over.is_set():
            kind = self.rng.choice(KINDS)
            order = Order(kind, f"{kind}-{self.number}-{self.placed}", background=kind in BACKGROUND)
            self.placed += 1
            # An order that takes too long is left for the end of the game.
            for _ in range(self.rng.randint(3, 12)):
                if over.is_set() or order.over:
                    break
                self.move(order)
                over.wait(self.rng.uniform(*THINKS_S) + (SLOW_POLL_S if order.background else 0))

    def finish(self, until: float, stopped: threading.Event) -> None:
        """Bring all tasks of this client to their end, also those that it never learned of.

        Args:
            until: When the client gives up, monotonic seconds.
            stopped: Makes it give up earlier.
        """
        self.may_cancel = False
        orders: dict[str, Order] = {}
        while time.monotonic() < until and not stopped.is_set():
            tasks = self.tasks()
            live = [task for task in tasks or () if task["status"] not in ENDED]
            if tasks is not None and not live:
                return
            for task in live:
                kind = task.get("_meta", {}).get("workflow", "")
                order = Order(kind, "", task["taskId"], background=not kind, seen=task.get("_meta", {}))
                self.move(orders.setdefault(task["taskId"], order))
                time.sleep(self.rng.uniform(*THINKS_S))
            time.sleep(SLOW_POLL_S)

    def tasks(self) -> list[dict[str, Any]] | None:
        """List all tasks of this client, with the tasks that it never learned of."""
        found: list[dict[str, Any]] = []
        cursor: dict[str, str] = {}
        while True:
            page = self.api.ask("tasks/list", **cursor)
            if page is None:
                return None
            found += page["tasks"]
            if "nextCursor" not in page:
                return found
            cursor = {"cursor": page["nextCursor"]}

    def move(self, order: Order) -> None:
        """Make the next call of an order."""
        if self.may_cancel and order.task is not None and self.rng.random() < CANCELS:
            self.cancel(order)
        elif order.background:
            self.start(order) if order.task is None else self.poll(order)
        else:
            self.call(order)

    def start(self, order: Order) -> None:
        """Place an order in the background."""
        result = self.api.ask("tools/call", name=order.kind, arguments=self.arguments(order), task={"ttl": 3_600_000})
        if result is None or "task" not in result:
            order.over = True  # the client does not know the task, if there is one
        else:
            order.task = result["task"]["taskId"]

    def poll(self, order: Order) -> None:
        sent = time.monotonic()
        task = self.api.ask("tasks/get", taskId=order.task)
        if task is None:
            return
        result = None
        if task["status"] == "completed":
            answer = self.api.ask("tasks/result", taskId=order.task)
            result = answer and answer.get("structuredContent", answer.get("content"))
        order.over = task["status"] in ENDED
        self.log.append(Reply(str(order.task), sent, time.monotonic(), status=task["status"], result=result))

    def cancel(self, order: Order) -> None:
        sent = time.monotonic()
        task = self.api.ask("tasks/cancel", taskId=order.task)
        if task is not None:
            order.over = True
            self.log.append(Reply(str(order.task), sent, time.monotonic(), status=task["status"]))

    def call(self, order: Order) -> None:
        """Call the tool that the last reply asks for."""
        pause = order.seen.get("pause_reason", {}).get("type")
        if order.task is None:
            self.run(order, self.arguments(order))
        elif pause == "schemaMismatch" and order.seen.get("next"):
            self.confirm(order)
        elif pause == "answersRequired":
            self.run(order, {"task_id": order.task, "answers": {"rating": f"rating {uuid4().hex}"}})
        elif pause == "approvalDenied":
            self.cancel(order)
        elif self.rng.random() < TWICE:
            other = threading.Thread(target=self.run, args=(order, {"task_id": order.task}))
            other.start()
            self.run(order, {"task_id": order.task})
            other.join()
        else:
            self.run(order, {"task_id": order.task})

    def run(self, order: Order, arguments: dict[str, Any]) -> None:
        """Run or resume a workflow."""
        sent = time.monotonic()
        result = self.api.ask("tools/call", name=order.kind, arguments=arguments)
        seen = result and result.get("structuredContent")
        if not result or not seen or "task_id" not in seen:
            order.over = order.task is None  # without a task id, the client cannot continue
            return
        order.task, order.seen, order.over = seen["task_id"], seen, seen["task_status"] in ENDED
        if "persisted" not in result["_meta"]:
            shown = seen["task_status"], completed(seen), seen["results"]
            self.log.append(Reply(seen["task_id"], sent, time.monotonic(), *shown))

    def confirm(self, order: Order) -> None:
        """Make the call that the workflow waits for, with the code that only this client knows."""
        sent = time.monotonic()
        [call, *_] = order.seen["next"]
        arguments = {**call["arguments"], "code": uuid4().hex, "task_id": order.task}
        result = self.api.ask("tools/call", name=call["tool"], arguments=arguments)
        order.seen = {}
        meta = (result or {}).get("_meta", {})
        if not result or result.get("isError") or meta.get("recorded") not in (True, False):
            self.log.append(Reply(str(order.task), sent, time.monotonic(), unknown=True))
            return
        value = {name: it for name, it in result["structuredContent"].items() if name != "baton_next"}
        if meta["recorded"]:
            steps, results = completed(meta), {"confirm": value}
            self.log.append(Reply(str(order.task), sent, time.monotonic(), meta["task_status"], steps, results))
        else:
            self.log.append(Reply(str(order.task), sent, time.monotonic(), not_recorded=value))

    def arguments(self, order: Order) -> dict[str, Any]:
        amount = {"amount": self.rng.randint(1, 500)} if order.kind in WITH_AMOUNT else {}
        return {"order": order.name, **amount}


def completed(seen: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(step["name"] for step in seen["steps"] if step["status"] == "completed")


@dataclass
class Approver:
    """The person who decides the approvals.

    Attributes:
        decided: The decisions that were confirmed, by the id of the approval.
    """

    api: Api
    rng: random.Random
    decided: dict[str, str] = field(default_factory=dict)

    def work(self, over: threading.Event) -> None:
        while not over.wait(1):
            page = self.api.send("/approvals?state=waiting", method="GET", attempts=ATTEMPTS)
            for approval in page[1].get("approvals", ()) if page else ():
                decision = "deny" if self.rng.random() < DENIES else "approve"
                body = {"decision": decision, "digest": approval["digest"]}
                answer = self.api.send(f"/approvals/{approval['approvalId']}", body, attempts=ATTEMPTS)
                if answer is not None and answer[0] == 200:
                    self.decided[approval["approvalId"]] = answer[1]["state"]

    def list(self, state: str) -> list[dict[str, Any]] | None:
        """List the approvals in this state; None if one page is missing."""
        found: list[dict[str, Any]] = []
        cursor = ""
        while True:
            answer = self.api.send(f"/approvals?state={state}{cursor}", method="GET")
            if answer is None or answer[0] != 200:
                return None
            found += answer[1]["approvals"]
            if not answer[1].get("nextCursor"):
                return found
            cursor = f"&cursor={quote(answer[1]['nextCursor'])}"


@dataclass
class Supplier:
    """The other system, which calls back.

    Attributes:
        accepted: The weights whose callback got the reply 200, by order.
    """

    api: Api
    ledger: Ledger
    rng: random.Random
    accepted: dict[str, list[int]] = field(default_factory=dict)

    def work(self, over: threading.Event) -> None:
        while not over.wait(1):
            addresses, self.ledger.addresses = self.ledger.addresses, []
            for order, address in addresses:
                weight = self.rng.randint(1, 99)
                token = address.rpartition("/")[2]
                answer = self.api.send(f"/callbacks/{token}", {"weight": weight}, attempts=ATTEMPTS)
                if answer is None:
                    self.ledger.addresses.append((order, address))
                elif answer[0] == 200:
                    self.accepted.setdefault(order, []).append(weight)
