"""The trailers that report an error in the middle of a streamed response.

The trailer contains the error as base64-encoded JSON. Lambda rejects or cuts trailers of more than about 3 KB, so the
error is shortened before: first the stack trace, then the message.
"""

from base64 import b64encode

from mcp_baton.protocol.json import JsonObject, dumps, loads

ERROR_TYPE = "Lambda-Runtime-Function-Error-Type"
ERROR_BODY = "Lambda-Runtime-Function-Error-Body"

_BODY_LIMIT = 2_000
"""Bytes of JSON. They become 2,668 bytes of base64, so all trailers together stay under 3 KB."""
_TYPE_LIMIT = 128


def error_trailers(error_json: str) -> dict[str, str]:
    """Return the trailers for an error of awslambdaric: `errorType`, `errorMessage`, `requestId`, `stackTrace`.

    Raises:
        ValueError: `error_json` is not JSON.
    """
    described = loads(error_json)
    error = described if isinstance(described, dict) else {"errorMessage": error_json}
    error_type = str(error.get("errorType", ""))[:_TYPE_LIMIT]
    body = dumps(_shortened({**error, "errorType": error_type}))
    return {ERROR_TYPE: _header_value(error_type), ERROR_BODY: b64encode(body.encode()).decode("ascii")}


def _shortened(error: JsonObject) -> JsonObject:
    """Return the error within the limit, with as many of the innermost stack frames as fit."""
    bare = _with_short_message({**error, "stackTrace": []})
    room = _BODY_LIMIT - _size(bare)
    frames: list[str] = []
    trace = error.get("stackTrace")
    for frame in reversed(trace if isinstance(trace, list) else []):
        room -= _size(frame) + 1
        if room < 0:
            break
        frames.insert(0, frame)
    return {**bare, "stackTrace": frames}


def _with_short_message(error: JsonObject) -> JsonObject:
    message = str(error.get("errorMessage", ""))
    kept = message
    while kept and _size({**error, "errorMessage": kept}) > _BODY_LIMIT:
        kept = kept[: len(kept) * 3 // 4]
    return {**error, "errorMessage": kept if kept == message else f"{kept[:-1]}…"}


def _size(value: object) -> int:
    return len(dumps(value).encode())


def _header_value(text: str) -> str:
    return "".join(character if "!" <= character <= "~" else "?" for character in text) or "Error"
