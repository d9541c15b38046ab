"""The endpoint streams, for as long as the function may run. Read from the translation: linters pass what does not."""

from typing import Any

from tests.template.cloudformation import Stack


def integrations(stack: Stack) -> list[Any]:
    paths = stack.one("AWS::ApiGateway::RestApi")["Body"]["paths"]
    return [method["x-amazon-apigateway-integration"] for method in paths["/mcp"].values()]


def streams(stack: Stack) -> bool:
    return all(
        integration["type"] == "aws_proxy"
        and integration.get("responseTransferMode") == "STREAM"
        and integration["uri"].endswith("/functions/${McpFunctionAliaslive}/response-streaming-invocations")
        for integration in integrations(stack)
    )


def test_every_method_of_the_endpoint_streams(default: Stack) -> None:
    assert len(integrations(default)) == 4
    assert streams(default)


def test_the_api_outlasts_the_function(default: Stack) -> None:
    assert {integration["timeoutInMillis"] for integration in integrations(default)} == {900_000}


def test_the_api_is_regional_so_that_a_stream_may_be_quiet_for_minutes(default: Stack) -> None:
    assert default.one("AWS::ApiGateway::RestApi")["EndpointConfiguration"] == {"Types": ["REGIONAL"]}


def test_the_function_starts_on_the_streaming_runtime(default: Stack) -> None:
    function = default.resources["McpFunction"]["Properties"]

    assert function["Runtime"] == "python3.13"
    assert function["Handler"] == "app.lambda_handler"
    assert function["Environment"]["Variables"]["AWS_LAMBDA_EXEC_WRAPPER"] == "/opt/baton-runtime"
