"""The modules that a cold start loads. Unlike times, they do not depend on the machine."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from emulators.gateway_requests import Probe, prompts_get, streamed_call, tools_call, tools_list, workflow_call
from emulators.runtime_api import RuntimeApi
from emulators.small_dynamodb import SmallDynamoDB, running_dynamodb
from tests.runtime.conftest import FUNCTIONS, Start

ROOT = Path(__file__).parents[2]
DEPLOYED = {"PYDANTIC_DISABLE_PLUGINS": "__all__", "BATON_TABLE": "tasks", "BATON_ALLOW_ANONYMOUS": "on"}
PEER, SAMPLE, MODELS = "baton_peer.handler", "app.lambda_handler", "models_peer.handler"
PLAIN = "plain_peer.handler"
APOLOGY = prompts_get("apology", expected="apology", order_id="A-17")
SUM, REFUND = prompts_get("sum", start="1"), prompts_get("refund_order", order_id="A-18")

NEVER = {"asyncio", "boto3", "multiprocessing", "s3transfer"}
"""Modules that no first request needs."""
CLIENT = {"botocore", "email", "hashlib", "hmac", "http.client", "ssl", "urllib3"}
"""Modules that an AWS client loads."""
RARE = {"importlib.metadata", "ipaddress", "mcp_baton.console", "random", "urllib.parse"}
"""Modules that only some requests need, but no first request."""
ENGINE = {f"mcp_baton.{name}" for name in ("server.methods.prompts", "tools.running.runner", "workflow.run")}
"""The modules that run tools and workflows. Lists do not need them."""
LANGUAGE = {f"mcp_baton.workflow.{name}" for name in ("definition", "sources", "steps", "workflow_tool")}
"""The modules that define workflows. Lists of plain tools do not need them."""
POWERTOOLS = {"aws_lambda_powertools", "aws_xray_sdk"}
"""The packages that write metrics and traces after the response."""
STORE_RARE = {
    "mcp_baton.background.items",
    *(f"mcp_baton.tasks.dynamodb.{name}" for name in ("counting", "listing", "outside", "parallel")),
}
"""The modules that the store needs only for large values, lists, counts and background tasks."""
NOT_PLAIN = {
    f"mcp_baton.{name}" for name in ("approvals", "stores", "tasks.dynamodb", "tools.questions", "workflow.recording")
}
"""The modules that a server with plain tools never needs."""
PYDANTIC = {"annotated_types", "pydantic", "pydantic_core"}

type Load = Callable[..., set[str]]
"""`load(function, probe, **environment)` returns the modules that are loaded after the function's first response."""


@pytest.fixture
def dynamodb() -> Iterator[SmallDynamoDB]:
    with running_dynamodb() as dynamodb:
        yield dynamodb


@pytest.fixture
def serve(dynamodb: SmallDynamoDB, start: Start) -> Callable[..., None]:
    def serve(function: str, **environment: str) -> None:
        path = os.pathsep.join(map(str, (FUNCTIONS, ROOT / "benchmarks" / "functions", ROOT / "examples" / "sample")))
        credentials = {
            "AWS_ACCESS_KEY_ID": "nobody",
            "AWS_SECRET_ACCESS_KEY": "nobody",
            "AWS_DEFAULT_REGION": "eu-west-1",
        }
        addresses = {"AWS_ENDPOINT_URL_DYNAMODB": dynamodb.url, "PYTHONPATH": path, "SERVED": function}
        secret = {"BATON_STATE_KEY_SECRET": "arn:aws:secretsmanager:eu-west-1:123456789012:secret:StateKey-a1B2c3"}
        worker = {"BATON_WORKER": "arn:aws:lambda:eu-west-1:123456789012:function:baton-worker:live"}
        variables = {**credentials, **addresses, **secret, **worker, **DEPLOYED, **environment}
        start("telling.handler", AWS_LAMBDA_FUNCTION_NAME="mcp", **variables)

    return serve


@pytest.fixture
def load(api: RuntimeApi, serve: Callable[..., None]) -> Load:
    def load(function: str, probe: Probe, **environment: str) -> set[str]:
        serve(function, **environment)
        probe.check(api.invoke(probe.event).wait())
        names: Any = api.invoke({"tell": "modules"}).wait().json()
        return set(names)

    return load


@pytest.mark.parametrize(
    ("function", "probe"),
    [(PEER, tools_list()), (PEER, streamed_call()), (SAMPLE, tools_list()), (SAMPLE, APOLOGY)],
    ids=["a list", "a streamed call", "the sample's list", "the sample's prompt"],
)
def test_a_first_request_without_a_task_loads_neither_pydantic_nor_an_aws_client(
    load: Load, function: str, probe: Probe
) -> None:
    topic = "arn:aws:sns:eu-west-1:123456789012:messages"
    loaded = load(function, probe, BATON_CONNECT="first", TOPIC_ARN=topic)

    assert loaded & (NEVER | CLIENT | RARE | PYDANTIC | POWERTOOLS) == set()


@pytest.mark.parametrize(
    ("function", "probe"),
    [
        (PEER, SUM),
        (SAMPLE, REFUND),
        (SAMPLE, workflow_call("refund_order", order_id="A-18")),
    ],
    ids=["a workflow", "the sample's workflow", "the sample's workflow as a tool"],
)
def test_a_first_task_loads_an_aws_client_but_not_pydantic(load: Load, function: str, probe: Probe) -> None:
    loaded = load(function, probe)

    assert loaded & (NEVER | PYDANTIC | POWERTOOLS | STORE_RARE) == set()
    assert loaded >= CLIENT


def test_a_first_list_of_plain_tools_does_not_load_the_language_of_workflows(load: Load) -> None:
    assert load(PLAIN, tools_list()) & (ENGINE | LANGUAGE) == set()


def test_a_first_list_does_not_load_the_engine(load: Load) -> None:
    assert load(PEER, tools_list(), BATON_CONNECT="first") & ENGINE == set()


@pytest.mark.parametrize("probe", [tools_list(), tools_call()], ids=["a list", "a call"])
def test_a_server_with_plain_tools_loads_neither_the_store_nor_features(load: Load, probe: Probe) -> None:
    assert load(PLAIN, probe) & (NOT_PLAIN | CLIENT | PYDANTIC) == set()


@pytest.mark.parametrize("function", [PEER, SAMPLE])
def test_a_server_with_durable_workflows_creates_its_client_at_initialisation(load: Load, function: str) -> None:
    assert load(function, tools_list()) >= CLIENT | ENGINE


def test_a_server_with_models_loads_pydantic_but_no_aws_client(load: Load) -> None:
    loaded = load(MODELS, tools_list(), BATON_CONNECT="first")

    assert loaded & (NEVER | {"botocore", "http.client", "urllib3"}) == set()
    assert loaded >= PYDANTIC


def test_a_first_task_makes_two_dynamodb_requests(load: Load, dynamodb: SmallDynamoDB) -> None:
    load(SAMPLE, REFUND)

    assert dynamodb.calls == ["PutItem", "UpdateItem"]


def test_garbage_collection_starts_with_the_first_invocation(api: RuntimeApi, serve: Callable[..., None]) -> None:
    serve(SAMPLE)

    first_state: Any = api.invoke({"tell": "collector"}).wait().json()
    api.invoke(REFUND.event).wait()
    later_state: Any = api.invoke({"tell": "collector"}).wait().json()

    assert [state["enabled at import"] for state in (first_state, later_state)] == [False, False]
    assert [state["enabled"] for state in (first_state, later_state)] == [True, True]
    assert first_state["frozen"] > 10_000
