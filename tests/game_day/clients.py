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

TIMEOUT_S = 30.0
THINK_TIMES_S = (0.5, 3.0)
SLOW_POLL_S = 2.0
ATTEMPTS, RETRY_DELAY_S = 20, 0.3
"""For the approver and the supplier: all clients share one of each."""
THROTTLED = 429
CANCEL_SHARE = 0.02
DOUBLE_RESUME_SHARE = 0.1
"""The share of resumes that a client sends twice at once."""
DENY_SHARE = 0.2
BACKGROUND = ("export", "refund_later", "delivery")
KINDS = ("purchase", "parcels", "refund_order", "survey", "picture", *BACKGROUND)
WITH_AMOUNT = ("refund_order", "refund_later")
ENDED = ("completed", "failed", "cancelled")


@dataclass(frozen=True)
class Reply:
    """The contents of one reply about a task.

    Attributes:
        sent_s: When the request was sent (monotonic seconds).
        received_s: When the reply came.
        status: The task's status, if the reply has it.
        steps: The steps that are completed and stored, if the reply has them.
        results: Their values, if the reply has them.
        result: The result of a call in the background.
        not_recorded: The value of a continuation that was not recorded.
        unknown: No reply came, so a continuation may be recorded.
    """

    task: str
    sent_s: float
    received_s: float
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
        content: The latest `structuredContent`.
    """

    kind: str
    name: str
    task: str | None = None
    background: bool = False
    content: dict[str, Any] = field(default_factory=dict)
    is_over: bool = False


@dataclass
class Api:
    """The connection of one identity to the API."""

    stack: Stack
    key: str
    failures: int = 0
    requests: int = 0

    def __post_init__(self) -> None:
        headers = {**JSON, "MCP-Protocol-Version": REVISIONS["2025"], "Host": self.stack.host, "x-api-key": self.key}
        self._http = httpx2.Client(headers=headers, timeout=TIMEOUT_S)

    def send(
        self, path: str, body: Any = None, method: str = "POST", attempts: int = 1
    ) -> tuple[int, dict[str, Any]] | None:
        """Send a request. Return the status and the body, or None if no attempt got a usable reply."""
        content = None if body is None else json.dumps(body).encode()
        for _ in range(attempts):
            self.requests += 1
            with suppress(httpx2.HTTPError, ValueError):
                response = self._http.request(method, self.stack.endpoint.replace("/mcp", path), content=content)
                if response.status_code < 500 and response.status_code != THROTTLED:
                    return response.status_code, response.json()
            self.failures += 1
            if attempts > 1:
                time.sleep(RETRY_DELAY_S)
        return None

    def ask(self, method: str, **params: Any) -> dict[str, Any] | None:
        """Send an MCP request. Return its result; `None` if no usable reply came."""
        response = self.send("/mcp", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        result: dict[str, Any] | None = response[1].get("result") if response else None
        return result


@dataclass
class Client:
    """One client. It places orders, and makes the next call of each until it ends."""

    number: int
    api: Api
    rng: random.Random
    log: list[Reply] = field(default_factory=list)
    order_count: int = 0
    may_cancel: bool = True

    def play(self, game_over: threading.Event) -> None:
        """Place one order after the other, until the game is over."""
        while not game_over.is_set():
            kind = self.rng.choice(KINDS)
            order = Order(kind, f"{kind}-{self.number}-{self.order_count}", background=kind in BACKGROUND)
            self.order_count += 1
            # An order that takes too long is left for the end of the game.
            for _ in range(self.rng.randint(3, 12)):
                if game_over.is_set() or order.is_over:
                    break
                self.make_next_call(order)
                game_over.wait(self.rng.uniform(*THINK_TIMES_S) + (SLOW_POLL_S if order.background else 0))

    def finish(self, deadline_s: float, end: threading.Event) -> None:
        """Bring all tasks of this client to their end, also those that it never learned of.

        Args:
            deadline_s: When the client gives up, monotonic seconds.
        """
        self.may_cancel = False
        orders: dict[str, Order] = {}
        while time.monotonic() < deadline_s and not end.is_set():
            tasks = self.tasks()
            open_tasks = [task for task in tasks or () if task["status"] not in ENDED]
            if tasks is not None and not open_tasks:
                return
            for task in open_tasks:
                kind = task.get("_meta", {}).get("workflow", "")
                order = Order(kind, "", task["taskId"], background=not kind, content=task.get("_meta", {}))
                self.make_next_call(orders.setdefault(task["taskId"], order))
                time.sleep(self.rng.uniform(*THINK_TIMES_S))
            time.sleep(SLOW_POLL_S)

    def tasks(self) -> list[dict[str, Any]] | None:
        """List all tasks of this client, with the tasks that it never learned of."""
        tasks: list[dict[str, Any]] = []
        cursor: dict[str, str] = {}
        while True:
            page = self.api.ask("tasks/list", **cursor)
            if page is None:
                return None
            tasks += page["tasks"]
            if "nextCursor" not in page:
                return tasks
            cursor = {"cursor": page["nextCursor"]}

    def make_next_call(self, order: Order) -> None:
        if self.may_cancel and order.task is not None and self.rng.random() < CANCEL_SHARE:
            self.cancel(order)
        elif order.background:
            self.start(order) if order.task is None else self.poll(order)
        else:
            self.call(order)

    def start(self, order: Order) -> None:
        """Place an order in the background."""
        result = self.api.ask("tools/call", name=order.kind, arguments=self.arguments(order), task={"ttl": 3_600_000})
        if result is None or "task" not in result:
            order.is_over = True  # the client does not know the task, if there is one
        else:
            order.task = result["task"]["taskId"]

    def poll(self, order: Order) -> None:
        sent_s = time.monotonic()
        task = self.api.ask("tasks/get", taskId=order.task)
        if task is None:
            return
        result = None
        if task["status"] == "completed":
            response = self.api.ask("tasks/result", taskId=order.task)
            result = response and response.get("structuredContent", response.get("content"))
        order.is_over = task["status"] in ENDED
        self.log.append(Reply(str(order.task), sent_s, time.monotonic(), status=task["status"], result=result))

    def cancel(self, order: Order) -> None:
        sent_s = time.monotonic()
        task = self.api.ask("tasks/cancel", taskId=order.task)
        if task is not None:
            order.is_over = True
            self.log.append(Reply(str(order.task), sent_s, time.monotonic(), status=task["status"]))

    def call(self, order: Order) -> None:
        """Call the tool that the last reply asks for."""
        pause = order.content.get("pause_reason", {}).get("type")
        if order.task is None:
            self.run(order, self.arguments(order))
        elif pause == "schemaMismatch" and order.content.get("next"):
            self.confirm(order)
        elif pause == "answersRequired":
            self.run(order, {"task_id": order.task, "answers": {"rating": f"rating {uuid4().hex}"}})
        elif pause == "approvalDenied":
            self.cancel(order)
        elif self.rng.random() < DOUBLE_RESUME_SHARE:
            second_thread = threading.Thread(target=self.run, args=(order, {"task_id": order.task}))
            second_thread.start()
            self.run(order, {"task_id": order.task})
            second_thread.join()
        else:
            self.run(order, {"task_id": order.task})

    def run(self, order: Order, arguments: dict[str, Any]) -> None:
        """Run or resume a workflow."""
        sent_s = time.monotonic()
        result = self.api.ask("tools/call", name=order.kind, arguments=arguments)
        content = result and result.get("structuredContent")
        if not result or not content or "task_id" not in content:
            order.is_over = order.task is None  # without a task id, the client cannot continue
            return
        order.task, order.content, order.is_over = content["task_id"], content, content["task_status"] in ENDED
        if "persisted" not in result["_meta"]:
            facts = content["task_status"], completed(content), content["results"]
            self.log.append(Reply(content["task_id"], sent_s, time.monotonic(), *facts))

    def confirm(self, order: Order) -> None:
        """Make the call that the workflow waits for, with the code that only this client knows."""
        sent_s = time.monotonic()
        [call, *_] = order.content["next"]
        arguments = {**call["arguments"], "code": uuid4().hex, "task_id": order.task}
        result = self.api.ask("tools/call", name=call["tool"], arguments=arguments)
        order.content = {}
        meta = (result or {}).get("_meta", {})
        if not result or result.get("isError") or meta.get("recorded") not in (True, False):
            self.log.append(Reply(str(order.task), sent_s, time.monotonic(), unknown=True))
            return
        value = {name: member for name, member in result["structuredContent"].items() if name != "baton_next"}
        if meta["recorded"]:
            steps, results = completed(meta), {"confirm": value}
            self.log.append(Reply(str(order.task), sent_s, time.monotonic(), meta["task_status"], steps, results))
        else:
            self.log.append(Reply(str(order.task), sent_s, time.monotonic(), not_recorded=value))

    def arguments(self, order: Order) -> dict[str, Any]:
        amount = {"amount": self.rng.randint(1, 500)} if order.kind in WITH_AMOUNT else {}
        return {"order": order.name, **amount}


def completed(content: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(step["name"] for step in content["steps"] if step["status"] == "completed")


@dataclass
class Approver:
    """The person who decides the approvals."""

    api: Api
    rng: random.Random
    decisions: dict[str, str] = field(default_factory=dict)

    def work(self, end: threading.Event) -> None:
        while not end.wait(1):
            page = self.api.send("/approvals?state=waiting", method="GET", attempts=ATTEMPTS)
            for approval in page[1].get("approvals", ()) if page else ():
                decision = "deny" if self.rng.random() < DENY_SHARE else "approve"
                body = {"decision": decision, "digest": approval["digest"]}
                response = self.api.send(f"/approvals/{approval['approvalId']}", body, attempts=ATTEMPTS)
                if response is not None and response[0] == 200:
                    self.decisions[approval["approvalId"]] = response[1]["state"]

    def list(self, state: str) -> list[dict[str, Any]] | None:
        """List the approvals in this state; None if one page is missing."""
        approvals: list[dict[str, Any]] = []
        cursor = ""
        while True:
            response = self.api.send(f"/approvals?state={state}{cursor}", method="GET")
            if response is None or response[0] != 200:
                return None
            approvals += response[1]["approvals"]
            if not response[1].get("nextCursor"):
                return approvals
            cursor = f"&cursor={quote(response[1]['nextCursor'])}"


@dataclass
class Supplier:
    """The other system, which calls back.

    Attributes:
        accepted_weights: The weights whose callback got the reply 200, by order.
    """

    api: Api
    ledger: Ledger
    rng: random.Random
    accepted_weights: dict[str, list[int]] = field(default_factory=dict)

    def work(self, end: threading.Event) -> None:
        while not end.wait(1):
            addresses, self.ledger.addresses = self.ledger.addresses, []
            for order, address in addresses:
                weight = self.rng.randint(1, 99)
                token = address.rpartition("/")[2]
                response = self.api.send(f"/callbacks/{token}", {"weight": weight}, attempts=ATTEMPTS)
                if response is None:
                    self.ledger.addresses.append((order, address))
                elif response[0] == 200:
                    self.accepted_weights.setdefault(order, []).append(weight)
