"""AWS's runtime interface client, extended by responses that are streamed while the handler runs.

`awslambdaric.bootstrap.run` does everything else: logging, SnapStart hooks, importing the handler, errors, polling.
"""

import gc
import logging
import signal
from base64 import b64decode
from collections.abc import Mapping
from functools import partial
from typing import Any

from awslambdaric.lambda_runtime_client import InvocationRequest, LambdaRuntimeClient
from awslambdaric.lambda_runtime_marshaller import LambdaMarshaller
from msgspec import Struct

from mcp_baton.protocol.http import ClientGone
from mcp_baton.transport.exchange import LaterWork, after_answer, stream_opener
from mcp_baton.transport.runtime.connection import RuntimeConnection
from mcp_baton.transport.runtime.stream import Headers, ResponseRejected, ResponseStream, error_trailers, send_whole


class MalformedProxyResponse(ValueError):
    """A return value looks like a proxy response, but has an invalid member."""


class ProxyResponse(Struct, frozen=True):
    status: int
    headers: Headers
    body: bytes


def proxy_response(value: object) -> ProxyResponse | None:
    """Return the proxy response (format 1.0 or 2.0) that a handler returned; `None` for any other value. Raises
    `MalformedProxyResponse` if the value has a status, but cannot be sent."""
    if not isinstance(value, Mapping) or type(value.get("statusCode")) is not int:
        return None
    try:
        return ProxyResponse(value["statusCode"], _headers(value), _body(value))
    except (AttributeError, TypeError, ValueError) as error:
        raise MalformedProxyResponse(f"the response has an invalid header or body: {error}") from error


def _headers(response: Mapping[str, Any]) -> dict[str, str | list[str]]:
    """Return all headers. As in API Gateway, `multiValueHeaders` has priority over `headers`."""
    headers: dict[str, str | list[str]] = {}
    for name, value in (response.get("headers") or {}).items():
        headers[name] = _text(value)
    for name, values in (response.get("multiValueHeaders") or {}).items():
        for duplicate in [other for other in headers if other.lower() == name.lower()]:
            del headers[duplicate]
        headers[name] = [_text(value) for value in values]
    if cookies := response.get("cookies"):
        headers["Set-Cookie"] = [_text(cookie) for cookie in cookies]
    return headers


def _text(value: object) -> str:
    if not isinstance(value, str | int | float):
        raise TypeError(f"{value!r} is not text")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _body(response: Mapping[str, Any]) -> bytes:
    body = response.get("body")
    if body is None:
        return b""
    return b64decode(body, validate=True) if response.get("isBase64Encoded") is True else body.encode()


_logger = logging.getLogger(__name__)


class StreamingRuntimeClient(LambdaRuntimeClient):
    """A runtime client that sets `stream_opener` for the handler.

    If the handler opens the stream, its return value is ignored. If it returns a proxy response, this is also sent in
    the streaming format, because streaming integrations accept no other. AWS's client posts any other return value,
    such as that of an asynchronous invocation.
    """

    use_thread_for_polling_next: bool

    def __init__(self, address: str) -> None:
        # Polling from a separate thread, as AWS's runtime does, doubles the CPU time of a warm invocation.
        super().__init__(address, use_thread_for_polling_next=False)
        self.marshaller = _Marshaller(self)
        self._connection = RuntimeConnection(address)
        self._invocation: Any = None
        self._stream: ResponseStream | None = None
        self._is_ready = False
        self._later: list[LaterWork] = []

    @property
    def is_streaming(self) -> bool:
        return self._stream is not None

    def wait_next_invocation(self) -> InvocationRequest:
        """Wait for the next invocation.

        The work that the last one deferred is done first: Lambda lets a function run until it asks for the next one.
        """
        if not self._is_ready:
            self._is_ready = True
            # Enable garbage collection, except of the objects that exist at the end of the initialization.
            gc.freeze()
            gc.enable()
        self._do_deferred_work()
        # Python runs no signal handlers during a C call.
        if not self.use_thread_for_polling_next and callable(signal.getsignal(signal.SIGTERM)):
            from concurrent.futures import ThreadPoolExecutor

            self.ThreadPoolExecutor = ThreadPoolExecutor
            self.use_thread_for_polling_next = True
        invocation = super().wait_next_invocation()
        self._invocation = invocation
        self._stream = None
        stream_opener.set(partial(self._open_stream, invocation))
        after_answer.set(self._later.append)
        return invocation

    def post_invocation_result(
        self, invoke_id: str, result_data: Any, content_type: str = "application/json", invocation_id: str | None = None
    ) -> None:
        """Post the return value of the handler, or end its stream."""
        stream = self._end_invocation()
        if stream is None and not isinstance(result_data, ProxyResponse):
            super().post_invocation_result(invoke_id, result_data, content_type, invocation_id)
            return
        try:
            if stream is not None:
                stream.end()
            else:
                response: ProxyResponse = result_data
                send_whole(self._connection, invoke_id, invocation_id, response.status, response.headers, response.body)
        except ClientGone as error:
            _logger.info("invocation %s: %s", invoke_id, error)
        except ResponseRejected:
            _logger.exception("invocation %s", invoke_id)

    def post_invocation_error(
        self, invoke_id: str, error_response_data: str, xray_fault: str, invocation_id: str | None = None
    ) -> None:
        """Post an error of the handler, as trailers if a stream is open. Never raises: this would end the process."""
        stream = self._end_invocation()
        try:
            if stream is None:
                super().post_invocation_error(invoke_id, error_response_data, xray_fault, invocation_id)
            else:
                stream.end(error_trailers(error_response_data))
        except ClientGone as error:
            _logger.info("invocation %s: %s", invoke_id, error)
        except Exception:
            self._connection.drop()  # otherwise the next response would continue a half-written one
            _logger.exception("invocation %s: its error could not be posted", invoke_id)

    def _open_stream(self, invocation: InvocationRequest, status: int, headers: Headers) -> ResponseStream:
        if self._invocation is not invocation:
            raise ClientGone("the invocation has ended")
        if self._stream is not None:
            raise RuntimeError("the stream of this invocation is already open")
        self._stream = ResponseStream.begin(
            self._connection, invocation.invoke_id, invocation.invocation_id, status, headers
        )
        return self._stream

    def _end_invocation(self) -> ResponseStream | None:
        stream_opener.set(None)
        self._invocation = None
        return self._stream

    def _do_deferred_work(self) -> None:
        deferred_work, self._later = self._later, []
        for work in deferred_work:
            try:
                work()
            except Exception:
                _logger.exception("work after the response failed")


class _Marshaller(LambdaMarshaller):
    """Ignores the return value if the response is a stream, and returns proxy responses as `ProxyResponse`."""

    def __init__(self, client: StreamingRuntimeClient) -> None:
        super().__init__()
        self._client = client

    def marshal_response(self, response: object) -> tuple[str | bytes | ProxyResponse, str]:
        if self._client.is_streaming:
            return b"", "application/octet-stream"
        if proxy := proxy_response(response):
            return proxy, "application/octet-stream"
        marshalled, content_type = super().marshal_response(response)
        if isinstance(marshalled, str):
            # UTF-8 has no lone surrogates, as in the id of an event. The backslash makes them the escapes of JSON.
            marshalled = marshalled.encode("utf-8", "backslashreplace")
        return marshalled, content_type
