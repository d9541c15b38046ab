"""Removes conditions or actions from requests, for mutants."""

import re
from collections.abc import Mapping
from typing import Any

from tests.simulation.world import Rewrite

_PLACEHOLDER = re.compile(r"[#:][0-9a-z_]+")
_CLAUSE = re.compile(r"\b(SET|REMOVE|ADD|DELETE) ")


def without_condition(pattern: str, operation: str = "UpdateItem", *, among: str = "") -> Rewrite:
    """Return a rewrite that removes matching conditions from writes. Placeholders of names are replaced before
    matching.

    Args:
        pattern: A regular expression that matches the beginning of a condition.
        among: A regular expression that some condition or action of the write must match.
    """

    def rewrite(sent: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        if sent != operation or "ConditionExpression" not in request:
            return request
        names = request.get("ExpressionAttributeNames", {})
        conditions = _split(request["ConditionExpression"], " AND ")
        if among and not re.search(among, _written_out(f"{request.get('UpdateExpression')} {conditions}", names)):
            return request
        kept = [condition for condition in conditions if not re.match(pattern, _written_out(condition, names))]
        return _with(request, ConditionExpression=" AND ".join(kept))

    return rewrite


def without_action(pattern: str) -> Rewrite:
    """Return a rewrite that removes matching actions from updates, such as `ADD w0 :0` or `SET run.number=…`.
    Placeholders of names are replaced before matching."""

    def rewrite(sent: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        if sent != "UpdateItem":
            return request
        names = request.get("ExpressionAttributeNames", {})
        parts = _CLAUSE.split(request["UpdateExpression"])[1:]
        made = []
        for clause, actions in zip(parts[::2], parts[1::2], strict=True):
            kept = [
                action
                for action in _split(actions.strip(), ",")
                if not re.match(pattern, f"{clause} {_written_out(action, names)}")
            ]
            if kept:
                made.append(f"{clause} {','.join(kept)}")
        return _with(request, UpdateExpression=" ".join(made)) if made else request

    return rewrite


def _with(request: Mapping[str, Any], **changed: str) -> Mapping[str, Any]:
    """Return the request with other expressions, and only the placeholders that they use."""
    made = {name: value for name, value in {**request, **changed}.items() if value != ""}
    used = set(_PLACEHOLDER.findall(f"{made.get('UpdateExpression')} {made.get('ConditionExpression')}"))
    for given in ("ExpressionAttributeNames", "ExpressionAttributeValues"):
        if given in made:
            made[given] = {name: value for name, value in made[given].items() if name in used}
    return made


def _written_out(text: str, names: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda found: names.get(found[0], found[0]), text)


def _split(text: str, separator: str) -> list[str]:
    """Split a text at the separators outside parentheses."""
    parts, depth, started, at = [], 0, 0, 0
    while at < len(text):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0 and text.startswith(separator, at):
            parts.append(text[started:at])
            at = started = at + len(separator)
        else:
            at += 1
    return [*parts, text[started:]]
