"""The endpoint streams for as long as the function may run. Tested in the translation, because linters miss errors
here.
"""

from tests.template.cloudformation import Stack
from tests.template.conftest import body, function, variables


def test_every_method_of_the_endpoint_streams_for_longer_than_the_function_runs(default: Stack) -> None:
    integrations = [method["x-amazon-apigateway-integration"] for method in body(default)["paths"]["/mcp"].values()]

    assert len(integrations) == 4
    for integration in integrations:
        assert (integration["type"], integration["responseTransferMode"]) == ("aws_proxy", "STREAM")
        assert integration["uri"].endswith("/functions/${McpFunctionAliaslive}/response-streaming-invocations")
        assert integration["timeoutInMillis"] == 900_000
    # A stream of a regional API may be silent for minutes.
    assert default.single("AWS::ApiGateway::RestApi")["EndpointConfiguration"] == {"Types": ["REGIONAL"]}


def test_the_function_starts_on_the_streaming_runtime(default: Stack) -> None:
    assert function(default)["Runtime"] == "python3.13"
    assert function(default)["Handler"] == "app.lambda_handler"
    assert variables(default)["AWS_LAMBDA_EXEC_WRAPPER"] == "/opt/baton-runtime"
