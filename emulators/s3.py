"""S3 for tests: moto within this process or another endpoint, and simulated failures."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any

import boto3
import botocore.session
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.compat import HTTPHeaders
from botocore.config import Config
from botocore.exceptions import ConnectionClosedError
from moto.core.botocore_stubber import BotocoreStubber, MockRawResponse

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

REGION = "us-east-1"
BUCKETS = count(1)
DISPATCH = Lock()
INTERCEPTED = "x-intercepted"

DENIED = (403, "AccessDenied")
SLOW_DOWN = (503, "SlowDown")


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket. Tests read and change it directly, without the code under test."""

    client: "S3Client"
    name: str

    @property
    def keys(self) -> list[str]:
        """The keys of all objects."""
        return [entry["Key"] for entry in self.client.list_objects_v2(Bucket=self.name).get("Contents", [])]

    def content(self, key: str) -> bytes:
        """Return an object's content."""
        return self.client.get_object(Bucket=self.name, Key=key)["Body"].read()

    def replace(self, key: str, data: bytes) -> None:
        """Replace an object's content."""
        self.client.put_object(Bucket=self.name, Key=key, Body=data)

    def expire(self, key: str) -> None:
        """Delete an object, as a lifecycle rule does."""
        self.client.delete_object(Bucket=self.name, Key=key)

    @contextmanager
    def refusing(self, operation: str, refusal: tuple[int, str]) -> Iterator[None]:
        """Let S3 reject an operation, such as `PutObject`, with a status and an error code."""
        status, code = refusal
        body = f"<Error><Code>{code}</Code><Message>simulated</Message></Error>"

        def refuse(request: AWSPreparedRequest) -> AWSResponse:
            return AWSResponse(request.url, status, HTTPHeaders(), MockRawResponse(body))

        with self._intercepting(operation, refuse):
            yield

    @contextmanager
    def silent(self, operation: str) -> Iterator[None]:
        """Let requests of an operation fail without a response."""

        def drop(request: AWSPreparedRequest) -> AWSResponse:
            raise ConnectionClosedError(endpoint_url=request.url)

        with self._intercepting(operation, drop):
            yield

    @contextmanager
    def breaking_off(self, operation: str) -> Iterator[None]:
        """Cut off the response to an operation."""
        headers = HTTPHeaders()
        headers["Content-Length"] = "1000"

        def cut(request: AWSPreparedRequest) -> AWSResponse:
            return AWSResponse(request.url, 200, headers, MockRawResponse(b"first part"))

        with self._intercepting(operation, cut):
            yield

    @contextmanager
    def _intercepting(self, operation: str, answer: Callable[[AWSPreparedRequest], AWSResponse]) -> Iterator[None]:
        def intercept(request: AWSPreparedRequest, event_name: str, **_: object) -> AWSResponse | None:
            if not event_name.endswith(operation):
                return None
            request.headers[INTERCEPTED] = "yes"
            return answer(request)

        # botocore calls every handler and uses the first response. moto's handler is the last one and checks the
        # header.
        handler: Any = intercept
        self.client.meta.events.register("before-send.s3", handler)
        try:
            yield
        finally:
            self.client.meta.events.unregister("before-send.s3", handler)


def new_bucket(client: "S3Client") -> Bucket:
    """Create an empty bucket."""
    name = f"overflow-{next(BUCKETS)}"
    client.create_bucket(Bucket=name)
    return Bucket(client, name)


def answered_by_moto(client: Any, service: str) -> None:
    """Let moto answer a client's requests within this process. Other clients are not affected."""
    stub = BotocoreStubber()

    def respond(request: AWSPreparedRequest, **_: object) -> AWSResponse | None:
        if INTERCEPTED in request.headers:
            return None
        with DISPATCH:
            moto_response = stub.process_request(request)
        if moto_response is None:
            raise NotImplementedError(f"moto does not answer {request.method} {request.url}")
        status, body = moto_response[0], moto_response[2]
        headers: Any = moto_response[1]
        return AWSResponse(request.url, status, headers, MockRawResponse(body))

    client.meta.events.register_last(f"before-send.{service}", respond)


def embedded_s3() -> "S3Client":
    """Return a client of moto's S3."""
    client = _client(None)
    answered_by_moto(client, "s3")
    return client


def http_s3(url: str) -> "S3Client":
    """Return a client of the S3 at this URL."""
    return _client(url)


def _client(url: str | None) -> "S3Client":
    session = botocore.session.Session()
    session.set_credentials("local", "local")
    # One attempt: retries after these failures are botocore's task, and they wait.
    config = Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"})
    return boto3.Session(botocore_session=session).client("s3", endpoint_url=url, region_name=REGION, config=config)
