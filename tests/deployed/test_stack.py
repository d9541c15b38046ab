"""The resources of the deployed stack, and the API's own replies."""

import json

import pytest

from tests.deployed.conftest import ORIGIN
from tests.deployed.conversation import ask
from tests.deployed.deployment import Stack


def test_an_unknown_path_is_not_found_and_never_reaches_the_function(stack: Stack, keys: tuple[str, str]) -> None:
    url = stack.endpoint.replace("/mcp", "/nowhere")
    answer = ask(url, stack.caller(x_api_key=keys[0]))
    assert (answer.status, json.loads(answer.body)["message"]) == (404, "not found: the endpoint is POST /mcp")


@pytest.mark.parametrize("headers", [{}, {"x_api_key": "wrong"}])
def test_the_reply_to_a_caller_without_a_key_names_the_key(stack: Stack, headers: dict[str, str]) -> None:
    answer = ask(stack.endpoint, stack.caller(**headers))
    assert (answer.status, json.loads(answer.body)["message"]) == (403, "a valid API key is needed: x-api-key: ...")


def test_the_function_rejects_other_methods(stack: Stack, keys: tuple[str, str]) -> None:
    assert ask(stack.endpoint, stack.caller(x_api_key=keys[0]), None, method="GET").status == 405


def test_only_pages_of_an_allowed_origin_may_call(probe: Stack) -> None:
    preflight = {"Access_Control_Request_Method": "POST"}
    reply = ask(probe.endpoint, probe.caller(Origin=ORIGIN, **preflight), method="OPTIONS")
    refusal = ask(probe.endpoint, probe.caller(Origin="https://evil.example.com", **preflight), method="OPTIONS")
    assert (reply.status, reply.headers.get("access-control-allow-origin")) == (204, ORIGIN)
    assert refusal.headers.get("access-control-allow-origin") is None


def test_the_dashboard_shows_the_metrics_of_its_own_stack(stack: Stack) -> None:
    copy = stack.copy("charted", Dashboard="on")
    [name] = copy.resources("AWS::CloudWatch::Dashboard").values()
    body = copy.emulator.client("cloudwatch").get_dashboard(DashboardName=name)["DashboardBody"]
    [queue] = [
        row[3]
        for widget in json.loads(body)["widgets"]
        for row in widget["properties"]["metrics"]
        if row[0] == "AWS/SQS"
    ]
    assert copy.outputs["DeadLetterQueueUrl"].endswith(f"/{queue}")
    assert (copy.name in body, copy.outputs["FunctionName"] in body, "${" in body) == (True, True, False)
