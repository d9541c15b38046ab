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
    asked = {"Access_Control_Request_Method": "POST"}
    allowed = ask(probe.endpoint, probe.caller(Origin=ORIGIN, **asked), method="OPTIONS")
    refused = ask(probe.endpoint, probe.caller(Origin="https://evil.example.com", **asked), method="OPTIONS")
    assert (allowed.status, allowed.headers.get("access-control-allow-origin")) == (204, ORIGIN)
    assert refused.headers.get("access-control-allow-origin") is None


def test_the_dashboard_shows_the_metrics_of_its_own_stack(stack: Stack) -> None:
    charted = stack.copy("charted", Dashboard="on")
    [name] = charted.resources("AWS::CloudWatch::Dashboard").values()
    body = charted.emulator.client("cloudwatch").get_dashboard(DashboardName=name)["DashboardBody"]
    [queue] = [
        row[3]
        for widget in json.loads(body)["widgets"]
        for row in widget["properties"]["metrics"]
        if row[0] == "AWS/SQS"
    ]
    assert charted.outputs["DeadLetterQueueUrl"].endswith(f"/{queue}")
    assert (charted.name in body, charted.outputs["FunctionName"] in body, "${" in body) == (True, True, False)
