"""The embedded DynamoDB over HTTP: what it answers to a request, and how it is served to this process's own workers."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from mcp_baton.local.answer import SERVER_HEADERS
from mcp_baton.local.loopback import Call, Reply

if TYPE_CHECKING:
    from botocore.awsrequest import AWSResponse

    from mcp_baton.local.embedded import EmbeddedEngine

NO_SDK = "this is a DynamoDB: ask it with an AWS SDK\n"


def loopback_answer(engine: "EmbeddedEngine") -> Callable[[Call], Reply]:
    """The engine behind a server for this process's own workers."""

    def answer(call: Call) -> Reply:
        answered = answered_by(engine, call.path, call.headers, call.body)
        if answered is None:
            return Reply(400, body=NO_SDK.encode())
        own = {name: value for name, value in answered.headers.items() if name.lower() not in SERVER_HEADERS}
        return Reply(answered.status_code, own, answered.content)

    return answer


def answered_by(engine: "EmbeddedEngine", path: str, given: Mapping[str, str], body: bytes) -> "AWSResponse | None":
    """The engine's answer; `None` to what no SDK has sent."""
    from botocore.awsrequest import AWSPreparedRequest
    from botocore.compat import HTTPHeaders

    from mcp_baton.local.dynamodb import REGION

    headers = HTTPHeaders.from_pairs(given.items())
    if "x-amz-target" not in headers:  # not an SDK, nor a page: browsers would have to ask for leave to send it
        return None
    url = f"https://dynamodb.{REGION}.amazonaws.com{path}"
    return engine.answer(AWSPreparedRequest("POST", url, headers, body, stream_output=False))
