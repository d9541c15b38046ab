"""A game day: clients play on a deployed stack while faults happen. Then the faults end, and the judge compares.

python -m tests.game_day --seed 7 --clients 50 --seconds 600
"""

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docker.errors import APIError

from emulators.answering import Answer, Request, answering
from tests.deployed.containers import containers_of
from tests.deployed.deployment import Stack
from tests.game_day.clients import Api, Approver, Client, Supplier
from tests.game_day.faults import Database, FaultSchedule, redirect_to, running_database, second_release
from tests.game_day.judge import Verdict, judge
from tests.game_day.ledger import Ledger
from tests.game_day.proxy import Fault, FaultProxy

APP = Path(__file__).with_name("app.py")
PARAMETERS = {
    "KeyRateLimit": "10000",
    "KeyBurstLimit": "10000",
    "ThrottleRate": "10000",
    "ThrottleBurst": "5000",
    "WorkerTimeout": "120",
}
CONTAINERS, WORKERS = 16, 6
"""The limits of concurrent containers. More of them would compete for the processors."""
USUAL_FAULTS = {
    "dynamodb": {Fault.LOST: 0.005, Fault.ANSWER_LOST: 0.005, Fault.LATE: 0.005, Fault.FAILED_AFTER: 0.005},
    "lambda": {Fault.DROPPED: 0.03, Fault.DOUBLED: 0.03},
}
BREAKS = {
    "keys": "Context.idempotency_key = property(lambda _: os.urandom(16).hex())",
    "approvals": """
from mcp_baton.approvals import gate
gate._Gate.check = lambda _: None
""",
    "writes": """
from mcp_baton import aws, clients
def forgetful(connect=clients.dynamodb_client):
    client = connect()
    update_item = client.update_item
    def forget_some(**request):
        table, key = request["TableName"], request["Key"]
        before = client.get_item(TableName=table, Key=key, ConsistentRead=True).get("Item")
        answer = update_item(**request)
        if before and random.random() < 0.1:
            client.put_item(TableName=table, Item=before)
        return answer
    client.update_item = forget_some
    return client
aws.dynamodb_client = forgetful
""",
}
"""Code that breaks Baton in the deployed server. The judge must notice each."""
ARRIVAL_S = 20.0
HEAL_TIMEOUT_S = 720.0
"""A task that waits for an approval checks it every ten minutes, if the event of the decision was lost. Claims of
killed runs last for 45 s, and longer if the clock was wrong.
"""


@dataclass(frozen=True)
class Options:
    """How a game is played.

    Attributes:
        clock_ms: By how much clocks may be wrong.
        broken: Which of `BREAKS` the deployed server has.
    """

    seed: int
    clients: int
    seconds: float
    clock_ms: int = 300_000
    broken: str | None = None


@dataclass(frozen=True)
class Outcome:
    """The result of a game."""

    options: Options
    verdict: Verdict
    counts: Counter[str]
    requests: int
    failures: int
    orders: int
    effects: int
    decisions: Counter[str]
    ended_after_s: float

    def report(self) -> str:
        """Describe the game in lines of text."""
        verdict = self.verdict
        lines = [f"seed {self.options.seed}: {self.options.clients} clients, {self.options.seconds:.0f} s"]
        lines += [f"  {count:6} {name}" for name, count in sorted(self.counts.items())]
        lines += [
            f"{self.orders} orders, {self.requests} requests, {self.failures} of them without a usable reply",
            f"{sum(verdict.tasks.values())} tasks: {dict(verdict.tasks)}",
            f"{self.ended_after_s:.0f} s after the last fault, all tasks had ended or the clients gave up",
            f"{self.effects} effects, {verdict.repeated} calls repeated with the same key",
            f"approvals: {dict(self.decisions)}",
            f"{verdict.facts} acknowledged facts were compared",
            f"{len(verdict.lost)} lost",
            f"{len(verdict.doubled)} effects doubled",
            f"{len(verdict.contradictions)} contradictions",
            f"{len(verdict.stuck)} tasks stuck",
        ]
        return "\n".join(lines + verdict.lost + verdict.doubled + verdict.contradictions + verdict.stuck)


@dataclass(frozen=True)
class Setup:
    """The stack, the database and the servers of a game."""

    stack: Stack
    database: Database
    proxies: dict[str, FaultProxy]
    ledger: Ledger
    keys: list[str]
    second_release: Path


@contextmanager
def prepare(original: Stack, folder: Path, options: Options) -> Iterator[Setup]:
    """Deploy a copy of a stack with the server of the game, whose functions reach AWS through the proxies."""
    rng = random.Random(options.seed)
    emulator_port = int(original.emulator.url.rpartition(":")[2])
    with ExitStack() as resources:
        database = resources.enter_context(running_database(new_folder(folder / "database")))
        ports = {"dynamodb": database.port, "lambda": emulator_port}
        proxies: dict[str, FaultProxy] = {}
        for name, port in ports.items():
            proxy = proxies[name] = FaultProxy(name, port, USUAL_FAULTS[name], random.Random(rng.random()))
            proxy.url = "http://" + resources.enter_context(answering_containers(proxy.answer))
        ledger = Ledger(random.Random(rng.random()), options.clock_ms)
        ledger.address = resources.enter_context(answering_containers(ledger.receive))
        code = new_folder(folder / "code")
        text = APP.read_text().replace("# The place of `BREAKS`.", BREAKS.get(options.broken or "", ""))
        (code / "app.py").write_text(text)
        gateway = original.emulator.client("apigateway")
        keys = [gateway.create_api_key(name=f"game-{number}", enabled=True) for number in range(options.clients + 1)]
        approvers = json.dumps({"refunds": [keys[-1]["id"]]})
        stack = original.copy(
            f"game-{options.seed}", code, redirect_to(proxies, ledger), Approvers=approvers, **PARAMETERS
        )
        [plan] = stack.resources("AWS::ApiGateway::UsagePlan").values()
        for key in keys:
            gateway.create_usage_plan_key(usagePlanId=plan, keyId=key["id"], keyType="API_KEY")
        # The emulator ignores the parameters of the template.
        for function, limit in ((stack.outputs["FunctionName"], CONTAINERS), (stack.worker, WORKERS)):
            original.emulator.client("lambda").put_function_concurrency(
                FunctionName=function, ReservedConcurrentExecutions=limit
            )
        database.create_like(stack)
        second_code = second_release(code, new_folder(folder / "second"))
        yield Setup(stack, database, proxies, ledger, [key["value"] for key in keys], second_code)


@contextmanager
def answering_containers(answer: Callable[[Request], Answer | None]) -> Iterator[str]:
    """Serve on all addresses. Yield the host and port for containers."""
    with answering(answer, host="0.0.0.0") as url:
        yield url.replace("http://0.0.0.0", "host.docker.internal")


def new_folder(folder: Path) -> Path:
    folder.mkdir()
    return folder


def play(setup: Setup, options: Options, folder: Path, end: threading.Event | None = None) -> Outcome:
    """Play a game to its end, and judge it. Write the replies, effects and items of the table into the folder."""
    rng = random.Random(options.seed)
    clients = [
        Client(number, Api(setup.stack, key), random.Random(rng.random())) for number, key in enumerate(setup.keys[:-1])
    ]
    approver = Approver(Api(setup.stack, setup.keys[-1]), random.Random(rng.random()))
    supplier = Supplier(Api(setup.stack, ""), setup.ledger, random.Random(rng.random()))
    faults = FaultSchedule(
        setup.stack, setup.database, setup.proxies, setup.ledger, random.Random(rng.random()), setup.second_release
    )
    faults_over, end = threading.Event(), end or threading.Event()
    with ThreadPoolExecutor(len(clients) + 3) as threads:
        try:
            helper_jobs = [threads.submit(helper.work, end) for helper in (approver, supplier)]
            player_jobs = [threads.submit(faults.run, faults_over, options.seconds)]
            for client in clients:
                player_jobs.append(threads.submit(client.play, faults_over))
                time.sleep(min(ARRIVAL_S, options.seconds / 4) / len(clients))
            wait(player_jobs, options.seconds, FIRST_EXCEPTION)
            faults_over.set()
            for job in player_jobs:
                job.result()
            start_s = time.monotonic()
            deadline_s = start_s + HEAL_TIMEOUT_S + options.clock_ms / 1000
            for finish_job in [threads.submit(client.finish, deadline_s, end) for client in clients]:
                finish_job.result()
            ended_after_s = time.monotonic() - start_s
        finally:
            faults_over.set()
            end.set()
        for job in helper_jobs:
            job.result()
    stored_items = items(setup)
    write_lines(folder / "replies.txt", (reply for client in clients for reply in client.log))
    write_lines(folder / "effects.txt", setup.ledger.effects.items())
    write_lines(folder / "items.txt", stored_items)
    verdict = judge(clients, approver, supplier, setup.ledger, stored_items)
    apis = [client.api for client in clients]
    counts = Counter(faults.counts)
    for proxy in setup.proxies.values():
        counts.update({f"{proxy.service}: {fault}": count for fault, count in proxy.counts.items()})
    counts["clocks that were wrong"] = setup.ledger.wrong_clocks
    counts["effects whose tool got no answer"] = setup.ledger.answers_lost
    return Outcome(
        options,
        verdict,
        counts,
        sum(api.requests for api in apis),
        sum(api.failures for api in apis),
        sum(client.order_count for client in clients),
        len(setup.ledger.effects),
        Counter(approver.decisions.values()),
        ended_after_s,
    )


def write_lines(file: Path, lines: Iterable[object]) -> None:
    file.write_text("".join(f"{line}\n" for line in lines))


def items(setup: Setup) -> list[dict[str, Any]]:
    """Read all items of the table from the database itself."""
    pages = setup.database.client().get_paginator("scan").paginate(TableName=setup.stack.outputs["TaskTableName"])
    return [item for page in pages for item in page["Items"]]


def remove_containers(stack: Stack) -> None:
    """Remove the containers that the emulator no longer knows, because they were frozen."""
    for container in [*containers_of(stack), *containers_of(stack, worker=True)]:
        with suppress(APIError):
            container.remove(force=True)
