"""The faults of a game: one kind after the other, in the order that a seed gives."""

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docker.errors import APIError
from docker.models.containers import Container

from tests.deployed.containers import containers_of
from tests.deployed.deployment import Stack, client_of, zip_folder
from tests.dynamodb_local import engine
from tests.game_day.ledger import Ledger
from tests.game_day.proxy import Chances, Fault, FaultProxy

FROZEN_S = 50.0
"""Longer than a claim, which lasts 45 s."""
PAUSE_S = (1.0, 4.0)
FAULT_TIMES_S = (4.0, 10.0)
CUT: Chances = {Fault.LOST: 0.5, Fault.LATE: 0.5}
THROTTLED: Chances = {Fault.THROTTLED: 0.7}
SLOW: Chances = {Fault.SLOW: 0.7, Fault.LATE: 0.2}
UNSURE: Chances = {Fault.ANSWER_LOST: 0.3, Fault.FAILED_AFTER: 0.2}
DROPPED: Chances = {Fault.DROPPED: 0.8, Fault.DOUBLED: 0.2}
TABLE_MEMBERS = ("TableName", "AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes")
INDEX_MEMBERS = ("IndexName", "KeySchema", "Projection")


class Database:
    """A DynamoDB that keeps its tables in files, so that it can be restarted."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._running = ExitStack()
        self.url = self._running.enter_context(engine.running(directory, durable=True))
        self.port = int(self.url.rpartition(":")[2])

    def restart(self) -> None:
        self._running.close()
        self._running.enter_context(engine.running(self._directory, self.port, durable=True))

    def stop(self) -> None:
        self._running.close()

    def create_like(self, stack: Stack) -> None:
        """Create the stack's table here, as the deployment has created it at the emulator."""
        source = stack.emulator.client("dynamodb").describe_table(TableName=stack.outputs["TaskTableName"])["Table"]
        table = {name: source[name] for name in TABLE_MEMBERS}
        table["GlobalSecondaryIndexes"] = [
            {name: index[name] for name in INDEX_MEMBERS} for index in table["GlobalSecondaryIndexes"]
        ]
        self.client().create_table(**table, BillingMode="PAY_PER_REQUEST")

    def client(self) -> Any:
        return client_of("dynamodb", self.url)


@contextmanager
def running_database(directory: Path) -> Iterator[Database]:
    database = Database(directory)
    try:
        yield database
    finally:
        database.stop()


@dataclass
class FaultSchedule:
    """Causes faults until it is stopped, and then ends all faults."""

    stack: Stack
    database: Database
    proxies: Mapping[str, FaultProxy]
    ledger: Ledger
    rng: random.Random
    second_release: Path
    counts: Counter[str] = field(default_factory=Counter)
    _frozen: list[tuple[float, Container]] = field(default_factory=list)

    def run(self, stop: threading.Event, seconds: float) -> None:
        """Cause faults for this time. Deploy the second release in the middle."""
        start_s = time.monotonic()
        faults: list[Callable[[threading.Event], None]] = []
        while not stop.is_set():
            self.thaw()
            if not faults:
                faults = [self.kill, self.kill, self.freeze, self.restart, self.throttle, self.slow_down]
                faults += [self.lose_answers, self.cut, self.move_clocks, self.drop_events]
                self.rng.shuffle(faults)
            if not self.counts["deployments"] and time.monotonic() - start_s > seconds / 2:
                self.deploy()
            faults.pop()(stop)
            stop.wait(self.rng.uniform(*PAUSE_S))
        self.heal()

    def kill(self, _: threading.Event) -> None:
        with suppress(IndexError, APIError):
            self.rng.choice(self.containers()).kill()
            self.counts["containers killed"] += 1

    def freeze(self, _: threading.Event) -> None:
        """Freeze a container, beside the other faults."""
        with suppress(IndexError, APIError):
            container = self.rng.choice(self.containers())
            container.pause()
            self._frozen.append((time.monotonic() + FROZEN_S, container))
            self.counts["containers frozen"] += 1

    def thaw(self, now: float | None = None) -> None:
        now = time.monotonic() if now is None else now
        for thaw_s, container in [*self._frozen]:
            if thaw_s <= now:
                self._frozen.remove((thaw_s, container))
                with suppress(APIError):
                    container.unpause()

    def restart(self, _: threading.Event) -> None:
        self.database.restart()
        self.counts["restarts of DynamoDB"] += 1

    def throttle(self, stop: threading.Event) -> None:
        self._set_chances(stop, "times of throttling", dynamodb=THROTTLED)

    def slow_down(self, stop: threading.Event) -> None:
        self._set_chances(stop, "times of slowness", dynamodb=SLOW)

    def lose_answers(self, stop: threading.Event) -> None:
        self._set_chances(stop, "times of lost answers", dynamodb=UNSURE)

    def cut(self, stop: threading.Event) -> None:
        self._set_chances(stop, "cuts of the network", dynamodb=CUT, **{"lambda": CUT})

    def drop_events(self, stop: threading.Event) -> None:
        self._set_chances(stop, "times of dropped events", **{"lambda": DROPPED})

    def move_clocks(self, _: threading.Event) -> None:
        self.ledger.move_clocks()
        self.counts["moves of the clocks"] += 1

    def deploy(self) -> None:
        """Point both aliases at the second release: first the worker's, as the template does."""
        code, aws_lambda = zip_folder(self.second_release), self.stack.emulator.client("lambda")
        for name in (self.stack.worker, self.stack.outputs["FunctionName"]):
            aws_lambda.update_function_code(FunctionName=name, ZipFile=code)
            aws_lambda.get_waiter("function_updated_v2").wait(FunctionName=name, WaiterConfig={"Delay": 0.2})
            version = aws_lambda.publish_version(FunctionName=name)["Version"]
            aws_lambda.update_alias(FunctionName=name, Name="live", FunctionVersion=version)
        self.counts["deployments"] += 1

    def heal(self) -> None:
        """End all faults, and replace the containers: new ones have the right time."""
        for proxy in self.proxies.values():
            proxy.current = {}
        self.thaw(float("inf"))
        self.ledger.heal()
        for container in self.containers():
            with suppress(APIError):
                container.kill()

    def containers(self) -> list[Container]:
        containers = [*containers_of(self.stack), *containers_of(self.stack, worker=True)]
        frozen = {container.id for _, container in self._frozen}
        return [container for container in containers if container.id not in frozen]

    def _set_chances(self, stop: threading.Event, name: str, **chances: Chances) -> None:
        self.counts[name] += 1
        for service, service_chances in chances.items():
            self.proxies[service].current = service_chances
        stop.wait(self.rng.uniform(*FAULT_TIMES_S))
        for service in chances:
            self.proxies[service].current = None


def second_release(first: Path, folder: Path) -> Path:
    """Write the second release of the server into a folder."""
    text = (first / "app.py").read_text()
    (folder / "app.py").write_text(text.replace("RELEASE = 1", "RELEASE = 2"))
    return folder


def redirect_to(proxies: Mapping[str, FaultProxy], ledger: Ledger) -> Callable[[str], str]:
    """Return a change of the template: functions send their requests to the proxies, and report to the ledger."""
    names = {f"AWS_ENDPOINT_URL_{service.upper()}": proxy.url for service, proxy in proxies.items()}
    lines = [f"{name}: {json.dumps(url)}" for name, url in {**names, "LEDGER": ledger.address}.items()]

    def change(template: str) -> str:
        [old_line] = [line for line in template.splitlines() if line.strip().startswith("AWS_ENDPOINT_URL_DYNAMODB")]
        indent = old_line[: len(old_line) - len(old_line.lstrip())]
        return template.replace(old_line, "\n".join(indent + line for line in lines))

    return change
