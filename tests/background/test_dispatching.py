"""The dispatcher of Lambda events: requests, retries and failures."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import (
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    ReadTimeoutError,
)
from moto.core.botocore_stubber import MockRawResponse

from mcp_baton.clients import LambdaDispatcher, lambda_client
from mcp_baton.exceptions import NotDispatched
from mcp_baton.protocol.json import JsonObject
from mcp_baton.telemetry import Collector

WORKER = "arn:aws:lambda:eu-west-1:123456789012:function:baton-worker:live"
EVENT: JsonObject = {"batonTask": {"owner": "kim", "taskId": "t-1", "dispatch": 1}}
TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
URL = "https://lambda.eu-west-1.amazonaws.com"

type Answer = AWSResponse | Exception


@pytest.fixture(autouse=True)
def in_lambda(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "made-up")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _seconds: None)
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "baton")
    monkeypatch.setenv("_X_AMZN_TRACE_ID", TRACE)


def answer(status: int, code: str = "") -> AWSResponse:
    body = json.dumps({"Type": "User", "message": "told"}).encode() if code else b""
    headers: Any = HTTPHeaders()
    if code:
        headers["x-amzn-ErrorType"] = code
    return AWSResponse(URL, status, headers, MockRawResponse(body))


def body(request: AWSPreparedRequest) -> Any:
    text: Any = request.body
    return json.loads(text)


class Lambda:
    """Stands in for Lambda: gives prepared answers and keeps the requests."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[AWSPreparedRequest] = []
        self.client_count = 0
        self.telemetry = Collector()

    def dispatcher(self) -> LambdaDispatcher:
        return LambdaDispatcher(WORKER, self._client, telemetry=self.telemetry)

    def _client(self) -> Any:
        self.client_count += 1
        client: Any = lambda_client()
        client.meta.events.register("before-send.lambda", self._answer)
        return client

    def _answer(self, request: AWSPreparedRequest, **_: object) -> AWSResponse:
        self.requests.append(request)
        prepared_answer = self.answers.pop(0)
        if isinstance(prepared_answer, Exception):
            raise prepared_answer
        return prepared_answer


def test_the_worker_is_invoked_asynchronously_with_the_event_and_the_trace() -> None:
    aws = Lambda(answer(202), answer(202))
    dispatcher = aws.dispatcher()
    assert aws.client_count == 0
    for _ in range(2):
        dispatcher.dispatch(EVENT)

    assert (aws.client_count, len(aws.requests)) == (1, 2)
    for request in aws.requests:
        assert request.method == "POST"
        assert request.url == f"{URL}/2015-03-31/functions/{WORKER.replace(':', '%3A')}/invocations"
        assert request.headers["X-Amz-Invocation-Type"] in ("Event", b"Event")
        assert request.headers["X-Amzn-Trace-Id"] in (TRACE, TRACE.encode())
        assert body(request) == EVENT
    details = {"operation": "Invoke", "function_name": WORKER}
    spans = aws.telemetry.take().spans
    assert [(span.name, span.details, span.failed) for span in spans] == [("Lambda", details, False)] * 2


RETRYABLE_FAILURES: list[Callable[[], Answer]] = [
    lambda: answer(429, "TooManyRequestsException"),
    lambda: answer(500, "ServiceException"),
    lambda: ConnectTimeoutError(endpoint_url=URL),
    lambda: EndpointConnectionError(endpoint_url=URL),
    lambda: ConnectionClosedError(endpoint_url=URL),
    lambda: ReadTimeoutError(endpoint_url=URL),
]
REFUSED: list[Callable[[], Answer]] = [
    lambda: answer(403, "AccessDeniedException"),
    lambda: answer(404, "ResourceNotFoundException"),
    lambda: answer(200),
    NoCredentialsError,
]


@pytest.mark.parametrize("failure", RETRYABLE_FAILURES)
def test_an_event_that_was_not_accepted_is_sent_once_more(failure: Callable[[], Answer]) -> None:
    aws = Lambda(failure(), answer(202), failure(), failure())
    dispatcher = aws.dispatcher()

    dispatcher.dispatch(EVENT)
    assert [body(request) for request in aws.requests] == [EVENT, EVENT]

    with pytest.raises(NotDispatched, match=f"BATON_WORKER={WORKER} could not be invoked: ") as error_info:
        dispatcher.dispatch(EVENT)
    assert len(aws.requests) == 4
    assert error_info.value.__cause__ is not None


@pytest.mark.parametrize("failure", REFUSED)
def test_a_refused_event_is_not_sent_again(failure: Callable[[], Answer]) -> None:
    aws = Lambda(failure())

    with pytest.raises(NotDispatched, match=f"BATON_WORKER={WORKER} could not be invoked: "):
        aws.dispatcher().dispatch(EVENT)

    assert len(aws.requests) == 1


def test_a_client_that_cannot_be_created_is_a_failed_dispatch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(NotDispatched, match="NoRegionError"):
        LambdaDispatcher(WORKER, lambda_client).dispatch(EVENT)
