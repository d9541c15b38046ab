"""A shop with stored tasks, a DynamoDB over HTTP, and the commands of operators."""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from mcp_baton.aws import compose, dynamodb_store
from mcp_baton.cli.app import main
from mcp_baton.local.dynamodb import create_table, embedded_client, embedded_engine
from mcp_baton.local.http_server import LOOPBACK, LocalServer, dynamodb_app
from mcp_baton.local.loader import load
from mcp_baton.server.server import Server
from mcp_baton.settings import Settings
from mcp_baton.stores import DynamoDBStore
from tests.serving import served
from tests.support.client import Client

APP = Path(__file__).parent / "remote_app.py"
VERSIONS = count()
TABLES = count()

SHOP = """
from pathlib import Path
from mcp_baton import Argument, Server, ToolError, ToolStep, Workflow, prompt_arg, step_output
from mcp_baton.aws import handler

server = Server("shop")
CLOSED = Path(__file__).with_name("closed")

@server.tool(name="get_order")
def fetch_order(order_id: str, currency: str = "EUR") -> dict[str, float]:
    "Fetch an order."
    return {"total": 30.0}

@server.tool
def refund(amount: float, order_id: str) -> str:
    "Refund an order."
    with CLOSED.with_name("attempts").open("a") as attempts:
        attempts.write(f"{order_id}\\n")
    if CLOSED.exists() and order_id not in CLOSED.read_text().split():
        raise ToolError("the bank is closed")
    return f"R-{order_id}"

@server.tool(task="optional")
def report(month: str) -> str:
    "Write a report."
    return month

ORDER_ID = prompt_arg("order_id")
server.add_workflow(Workflow(
    name="refund_order", description="refund an order", arguments=[Argument("order_id", required=True)],
    steps=[
        ToolStep("fetch", tool=fetch_order, arguments={"order_id": ORDER_ID}),
        ToolStep("refund", tool=refund, arguments={"amount": step_output("fetch", "total"), "order_id": ORDER_ID}),
    ],
))
lambda_handler = handler(server)
"""
"""While the file `closed` exists, refunds fail, except those of the orders that it lists."""


@dataclass
class Requests:
    """A DynamoDB over HTTP.

    Attributes:
        counts: The number of requests, by operation.
        limits: The number of allowed requests, by operation. Further ones are refused.
    """

    application: Callable[..., Any]
    counts: Counter[str] = field(default_factory=Counter)
    limits: dict[str, int] = field(default_factory=dict)

    def __call__(self, environment: dict[str, Any], start: Callable[..., Any]) -> Any:
        operation = environment.get("HTTP_X_AMZ_TARGET", "").rpartition(".")[2]
        self.counts[operation] += 1
        if self.counts[operation] > self.limits.get(operation, self.counts[operation]):
            start("400 Bad Request", [("Content-Type", "application/x-amz-json-1.0")])
            return [b'{"__type": "AccessDeniedException", "message": "not today"}']
        return self.application(environment, start)


@dataclass(frozen=True, slots=True)
class Shop:
    """The table and the files of a shop."""

    table: str
    url: str
    folder: Path
    store: DynamoDBStore
    requests: Requests

    def version(self, *changes: tuple[str, str]) -> Path:
        """Write the file of a version of the server in which some texts are replaced, and return its path."""
        source = SHOP
        for old, new in changes:
            assert old in source
            source = source.replace(old, new)
        path = self.folder / f"shop_{next(VERSIONS)}.py"
        path.write_text(source)
        return path

    def client(self, path: Path | None = None, owner: str = "kim", **settings: Any) -> Client:
        """Return a client of a version, over the table."""
        server = load(str(path or self.version()), Server)
        return Client(compose(server, Settings(table=self.table, **settings), store=self.store), owner)

    def close(self, *orders: str) -> None:
        """Let refunds fail, except those of these orders."""
        (self.folder / "closed").write_text(" ".join(orders))

    @property
    def attempts(self) -> list[str]:
        """Return the orders whose refunds were tried."""
        return (self.folder / "attempts").read_text().split()

    def paused_task(self, order: str = "A-17", owner: str = "kim") -> str:
        return self.client(owner=owner).get_prompt("refund_order", {"order_id": order}).task_id


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server for all tests of a module. A header names the owner."""
    baton, log = Path(sys.executable).parent / "baton", tmp_path_factory.mktemp("served") / "log"
    with served([baton, "serve", APP, "--port", "0", "--owner-header", "X-Owner"], log) as address:
        yield address


@pytest.fixture(scope="module")
def database() -> Iterator[tuple[Any, Requests, str]]:
    engine = embedded_engine()
    requests = Requests(dynamodb_app(engine))
    with closing(embedded_client(engine)) as client:
        server = LocalServer(LOOPBACK, 0, requests).start()
        yield client, requests, f"http://{server.address}"
        server.close()


@pytest.fixture
def shop(database: tuple[Any, Requests, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A shop with an empty table, in which refunds fail."""
    client, requests, url = database
    requests.counts, requests.limits = Counter(), {}
    for name in ("BATON_MAX_TTL_MS", "BATON_TABLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    table = f"shop-{next(TABLES)}"
    create_table(client, table)
    store = dynamodb_store(table, Settings(table=table), connect=lambda: client)
    assert isinstance(store, DynamoDBStore)
    new_shop = Shop(table, url, tmp_path, store, requests)
    new_shop.close()
    yield new_shop
    for name in [name for name in sys.modules if name.startswith("shop_")]:
        del sys.modules[name]


type Baton = Callable[..., tuple[int, str, str]]
type BatonJson = Callable[..., tuple[int, Any]]


@pytest.fixture
def baton(shop: Shop, capsys: pytest.CaptureFixture[str]) -> Baton:
    """Runs a command against the table. Returns the exit code, the standard output and the standard error."""

    def run(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([*map(str, words), "--table", shop.table, "--dynamodb", shop.url])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def baton_json(baton: Baton) -> BatonJson:
    """Runs a command with `--json`. Returns the exit code and the JSON output."""

    def run(*words: object) -> tuple[int, Any]:
        code, output, _ = baton(*words, "--json")
        return code, json.loads(output)

    return run
