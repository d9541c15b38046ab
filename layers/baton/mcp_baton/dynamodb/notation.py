"""Requests and answers as DynamoDB's JSON, where binary values are base64.

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.LowLevelAPI.html
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Final

ITEMS_IN: Final = {"GetItem": "Item", "UpdateItem": "Attributes", "Query": "Items"}
"""Which member of an operation's answer holds items."""


def to_json(request: Mapping[str, Any]) -> bytes:
    """A request as it is sent.

    Raises:
        TypeError: a value is neither JSON nor bytes.
    """
    return _ENCODER.encode(request).encode()


def from_json(body: bytes) -> Any:
    """What an answer holds, with bytes in the place of their base64.

    Raises:
        ValueError: it is not JSON, or a binary value is not base64.
        TypeError: an element of a set of binary values is no text.
    """
    # Few answers hold binary values, and a function that is called for each object costs most of the parsing.
    return json.loads(body, object_hook=_with_bytes if b'"B' in body else None)


def _base64(value: object) -> str:
    if isinstance(value, bytes):
        return b64encode(value).decode()
    raise TypeError(f"a request to DynamoDB holds a {type(value).__name__}")


_ENCODER = json.JSONEncoder(default=_base64, separators=(",", ":"))


def _with_bytes(found: dict[str, Any]) -> dict[str, Any]:
    """A JSON object; of a binary attribute value, or a set of them, with bytes in the place of their base64."""
    # Of an attribute value the one member is the type, and an element of a map that is called so is an object.
    if len(found) == 1:
        if "B" in found and isinstance(found["B"], str):
            return {"B": b64decode(found["B"])}
        if "BS" in found and isinstance(found["BS"], list):
            return {"BS": [b64decode(text) for text in found["BS"]]}
    return found
