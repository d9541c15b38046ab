"""The twin of AWS that the tests deploy to: MiniStack, taught the one thing of the template's that it does not know.

MiniStack answers 500 to a REST API's Lambda integration in streaming mode. Here such an integration finds its function,
and the function's streamed answer (prelude, eight NUL bytes, body) becomes the API's. It comes whole, at its end: that
it flows on AWS is what `tests/runtime` shows of the runtime, and `tests/template` of the integration.

A process of its own: `python twin.py`, with MiniStack's own variables (`GATEWAY_PORT`, `LAMBDA_EXECUTOR=docker`).
"""

import json
import sys
from typing import Any

from ministack import app
from ministack.services import apigateway_v1

STREAMING_SUFFIX = "/response-streaming-invocations"
PRELUDE_END = bytes(8)

type ProxyAnswer = tuple[dict[str, Any] | None, str | None]
"""A proxy response or what went wrong."""


class NotStreamed(Exception):
    """A function behind a streaming integration answered in another form, which AWS refuses."""


def teach_streaming() -> None:
    """Have MiniStack's REST APIs take integrations in streaming mode."""
    reference_in, shaped = apigateway_v1._extract_lambda_ref_from_integration_uri, apigateway_v1._lambda_proxy_response

    def function_reference(uri: str) -> str:
        if uri.endswith(STREAMING_SUFFIX):
            uri = f"{uri.removesuffix(STREAMING_SUFFIX)}/invocations"
        return reference_in(uri)

    def proxy_answer(result: dict[str, Any]) -> ProxyAnswer:
        body = result.get("body")
        answer = body.encode("utf-8", "surrogateescape") if isinstance(body, str) else body
        if isinstance(answer, bytes) and PRELUDE_END in answer:
            return streamed_answer(answer), None
        return shaped(result)

    apigateway_v1._extract_lambda_ref_from_integration_uri = function_reference
    apigateway_v1._lambda_proxy_response = proxy_answer


def streamed_answer(answer: bytes) -> dict[str, Any]:
    """A streamed answer as a proxy response."""
    head, _, body = answer.partition(PRELUDE_END)
    prelude = json.loads(head)
    headers = {name: [value] for name, value in prelude.get("headers", {}).items()}
    headers.update(prelude.get("multiValueHeaders", {}))
    if cookies := prelude.get("cookies"):
        headers["Set-Cookie"] = cookies
    return {"statusCode": prelude["statusCode"], "multiValueHeaders": headers, "body": body.decode()}


if __name__ == "__main__":
    teach_streaming()
    sys.exit(app.main())
