"""Removes conditions or actions from requests, for mutants."""

import re
from collections.abc import Mapping
from typing import Any

from tests.simulation.world import Rewrite

_PLACEHOLDER = re.compile(r"[#:][0-9a-z_]+")
_CLAUSE = re.compile(r"\b(SET|REMOVE|ADD|DELETE) ")


def without_condition(pattern: str, operation: str = "UpdateItem", *, context: str = "") -> Rewrite:
    """Return a rewrite that removes matching conditions from writes. Placeholders of names are replaced before
    matching.

    Args:
        pattern: A regular expression that matches the beginning of a condition.
        context: A regular expression that some condition or action of the write must match.
    """

    def rewrite(sent_operation: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        if sent_operation != operation or "ConditionExpression" not in request:
            return request
        names = request.get("ExpressionAttributeNames", {})
        conditions = _split(request["ConditionExpression"], " AND ")
        if context and not re.search(context, _expand(f"{request.get('UpdateExpression')} {conditions}", names)):
            return request
        kept_conditions = [condition for condition in conditions if not re.match(pattern, _expand(condition, names))]
        return _with_expressions(request, ConditionExpression=" AND ".join(kept_conditions))

    return rewrite


def without_action(pattern: str) -> Rewrite:
    """Return a rewrite that removes matching actions from updates, such as `ADD w0 :0` or `SET run.number=…`.
    Placeholders of names are replaced before matching."""

    def rewrite(sent_operation: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        if sent_operation != "UpdateItem":
            return request
        names = request.get("ExpressionAttributeNames", {})
        parts = _CLAUSE.split(request["UpdateExpression"])[1:]
        clauses = []
        for clause, actions in zip(parts[::2], parts[1::2], strict=True):
            remaining = [
                action
                for action in _split(actions.strip(), ",")
                if not re.match(pattern, f"{clause} {_expand(action, names)}")
            ]
            if remaining:
                clauses.append(f"{clause} {','.join(remaining)}")
        return _with_expressions(request, UpdateExpression=" ".join(clauses)) if clauses else request

    return rewrite


def _with_expressions(request: Mapping[str, Any], **expressions: str) -> Mapping[str, Any]:
    """Return the request with other expressions, and only the placeholders that they use."""
    params = {name: value for name, value in {**request, **expressions}.items() if value != ""}
    used = set(_PLACEHOLDER.findall(f"{params.get('UpdateExpression')} {params.get('ConditionExpression')}"))
    for key in ("ExpressionAttributeNames", "ExpressionAttributeValues"):
        if key in params:
            params[key] = {name: value for name, value in params[key].items() if name in used}
    return params


def _expand(text: str, names: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda match: names.get(match[0], match[0]), text)


def _split(text: str, separator: str) -> list[str]:
    """Split a text at the separators outside parentheses."""
    parts, depth, start, position = [], 0, 0, 0
    while position < len(text):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if depth == 0 and text.startswith(separator, position):
            parts.append(text[start:position])
            position = start = position + len(separator)
        else:
            position += 1
    return [*parts, text[start:]]
