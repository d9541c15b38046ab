"""The id by which a request is found again: in Baton's log lines, in API Gateway's access log and by the client."""

from collections.abc import Mapping


def correlation_id(request_context: object, context: object) -> str:
    """API Gateway's id of the request, which its access log and its answer's `x-amzn-RequestId` have too.

    Where there is none, Lambda's id of the invocation; made here where there is neither.

    Args:
        request_context: The event's `requestContext`, whatever it is.
        context: What Lambda hands to a handler beside the event, whatever it is.
    """
    given = request_context.get("requestId") if isinstance(request_context, Mapping) else None
    candidates = (given, getattr(context, "aws_request_id", None))
    known = next((found for found in candidates if isinstance(found, str) and found), None)
    if known is not None:
        return known
    from uuid import uuid4

    return str(uuid4())
