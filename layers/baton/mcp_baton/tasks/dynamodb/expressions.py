"""UpdateItem expressions: what a write sets, and the conditions on which it was decided (docs/storage.md).

DynamoDB accepts expressions of 4 KB. Every name and value is a placeholder of few characters, so the length
depends only on how much is written.

A write with a token is applied once, however often it is sent (ARCHITECTURE.md, Lost answers). The item has 29 sets of
tokens, one for each span of time. A write requires that its token is not in the set of its time, adds it there, and
removes the set that is farthest from now. So a token outlives its repeats even if the clocks of two writers are ten
minutes apart: AWS accepts requests whose time is five minutes off (IAM User Guide, "Troubleshoot signed requests for
AWS APIs").
"""

from collections import defaultdict
from functools import partial
from itertools import count
from typing import Any

from msgspec import Struct, field

from mcp_baton.exceptions import StoreError
from mcp_baton.tasks.dynamodb.attributes import Attribute, Item, Value, attribute
from mcp_baton.tasks.dynamodb.items import (
    BY_CLIENT,
    KEPT_UNTIL,
    LISTED_AT,
    LISTED_IN,
    MARGIN_S,
    NAMED,
    RUN,
    RUN_ID,
    RUN_NUMBER,
    RUN_UNTIL,
    WAKES,
    outbox_entry,
)
from mcp_baton.tasks.record import LIVE, Claim, TaskStatus, timestamp
from mcp_baton.tasks.texts import to_text, within_bytes

MAX_EXPRESSION_BYTES = 4096
LIVE_STATUSES = sorted(LIVE)

MAX_STATUS_MESSAGE_CHARS, MAX_STATUS_MESSAGE_BYTES = 1_000, 1_500
"""The longest status message that is stored. Every later write of the task is charged for it."""

type AttributePath = str | tuple[str | int, ...]
"""An attribute of an item, or what is in it: names in maps, and indexes in lists."""

TOKEN_SETS = tuple(f"w{number}" for number in range(29))
OPPOSITE_TOKEN_SET = len(TOKEN_SETS) // 2
TOKEN_SET_MS = 61_000
"""How long each set takes tokens, milliseconds. Not a minute, so that regular writes use all sets."""


def set_at(now_ms: int) -> str:
    return TOKEN_SETS[now_ms // TOKEN_SET_MS % len(TOKEN_SETS)]


def old_set_at(now_ms: int) -> str:
    """The set that is farthest from this time: its tokens are fifteen minutes old."""
    return TOKEN_SETS[(now_ms // TOKEN_SET_MS + OPPOSITE_TOKEN_SET) % len(TOKEN_SETS)]


def stored_token(token: str) -> bytes:
    return bytes.fromhex(token)


def first_token(now_ms: int, token: str) -> Item:
    """The token of the write that creates an item, as the attribute of the new item."""
    return {set_at(now_ms): {"BS": [stored_token(token)]}}


def _placeholders(sign: str) -> defaultdict[str, str]:
    """Placeholders by name or text. Each gets the next number when it is first looked up."""
    return defaultdict(map(f"{sign}{{:x}}".format, count()).__next__)


class Update(Struct):
    """The parts of an UpdateItem request, with placeholders. With a token it is applied once, however often it is sent;
    without one, a repetition is harmless. The token was created at `now_ms`, which determines its set."""

    now_ms: int
    token: str | None = None
    settings: list[str] = field(default_factory=list)
    removals: list[str] = field(default_factory=list)
    additions: list[str] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)
    _names: defaultdict[str, str] = field(default_factory=partial(_placeholders, "#"))
    _texts: defaultdict[str, str] = field(default_factory=partial(_placeholders, ":"))
    _others: dict[str, Attribute] = field(default_factory=dict)

    # Operands

    def path(self, path: AttributePath) -> str:
        if isinstance(path, str):
            return self._names[path]
        # Called for hundreds of values in a write. A loop is faster than joining the parts.
        text = ""
        for part in path:
            text += f"[{part}]" if isinstance(part, int) else f".{self._names[part]}"
        return text[1:]

    def value(self, value: Value) -> str:
        """The placeholder of a value. Equal texts have one."""
        if isinstance(value, str):
            return self._texts[value]
        placeholder = f":v{len(self._others)}"
        self._others[placeholder] = attribute(value)
        return placeholder

    # Actions

    def set(self, path: AttributePath, value: Value) -> None:
        self.settings.append(f"{self.path(path)}={self.value(value)}")

    def set_expression(self, path: AttributePath, expression: str) -> None:
        self.settings.append(f"{self.path(path)}={expression}")

    def increment(self, path: AttributePath) -> None:
        """Add 1 to a number that exists."""
        self.set_expression(path, f"{self.path(path)}+{self.value(1)}")

    def add(self, name: str, number: int) -> None:
        """Add to a number; a missing one counts as 0."""
        self.additions.append(f"{self.path(name)} {self.value(number)}")

    def remove(self, *paths: AttributePath) -> None:
        self.removals += map(self.path, paths)

    # Conditions

    def require(self, path: AttributePath, operator: str, value: Value) -> None:
        self.require_expression(self.compared(path, operator, value))

    def require_expression(self, condition: str) -> None:
        self.conditions.append(condition)

    def require_exists(self, *paths: AttributePath) -> None:
        self.conditions += map(self.exists, paths)

    def require_missing(self, *paths: AttributePath) -> None:
        self.conditions += map(self.missing, paths)

    def require_any(self, *conditions: str) -> None:
        self.require_expression(f"({' OR '.join(conditions)})")

    def compared(self, path: AttributePath, operator: str, value: Value) -> str:
        return f"{self.path(path)}{operator}{self.value(value)}"

    def exists(self, path: AttributePath) -> str:
        return f"attribute_exists({self.path(path)})"

    def missing(self, path: AttributePath) -> str:
        return f"attribute_not_exists({self.path(path)})"

    # The request

    def request(self) -> dict[str, Any]:
        """The members of the request with the expressions, their names and their values."""
        expression, condition = self.expression(), self.condition()
        request = {
            "UpdateExpression": expression,
            "ExpressionAttributeNames": {placeholder: name for name, placeholder in self._names.items()},
            "ExpressionAttributeValues": {
                **{placeholder: {"S": text} for text, placeholder in self._texts.items()},
                **self._others,
            },
        }
        if condition:
            request |= {"ConditionExpression": condition, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
        return request

    def expression(self) -> str:
        removals, additions = self.removals, self.additions
        if self.token is not None:
            self._others[":toks"] = {"BS": [stored_token(self.token)]}
            removals = [*removals, self.path(old_set_at(self.now_ms))]
            additions = [*additions, f"{self.path(set_at(self.now_ms))} :toks"]
        clauses = (("SET", self.settings), ("REMOVE", removals), ("ADD", additions))
        return _checked(" ".join([f"{verb} {','.join(actions)}" for verb, actions in clauses if actions]))

    def condition(self) -> str:
        """The condition expression; empty for a write without conditions."""
        conditions = self.conditions
        if self.token is not None:
            self._others[":tok"] = {"B": stored_token(self.token)}
            conditions = [*conditions, f"NOT contains({self.path(set_at(self.now_ms))},:tok)"]
        return _checked(" AND ".join(conditions))


def _checked(expression: str) -> str:
    if len(expression) > MAX_EXPRESSION_BYTES:
        problem = f"its expression has {len(expression)} bytes, DynamoDB takes {MAX_EXPRESSION_BYTES}"
        raise StoreError(f"the batch sets too many values for one write: {problem}")
    return expression


def live_update(now_ms: int, token: str | None) -> Update:
    """A write to a live task: it exists, has not expired, and is not terminal."""
    update = guarded_update(now_ms, token)
    update.increment("version")
    update.set("updated_at", timestamp(now_ms))
    return update


def guarded_update(now_ms: int, token: str | None) -> Update:
    """As `live_update`, for a write that does not count as a change of the task."""
    update = Update(now_ms, token)
    update.require_exists("pk")
    update.require("expires_at", ">", now_ms // 1000)
    update.require_expression(f"{update.path('status')} IN ({','.join(map(update.value, LIVE_STATUSES))})")
    return update


def finish_update(
    now_ms: int, token: str, status: TaskStatus, result: Attribute | None = None, *, by_client: bool = False
) -> Update:
    """The write that ends a task, perhaps with a result. `by_client` says that a client supplied it."""
    update = live_update(now_ms, token)
    unlist(update)
    update.set("status", status)
    if result is not None:
        update.set("result", result)
    if by_client:
        update.set(BY_CLIENT, value=True)
    return update


def enter_outbox(update: Update, task_id: str, at_ms: int, item: Item | None = None) -> None:
    """Let a write list a job in the outbox, or move its entry. If the item, as it was read, has an earlier entry, that
    entry stays."""
    entry = outbox_entry(task_id, at_ms)
    if item is not None and LISTED_AT in item and item[LISTED_AT]["S"] <= entry[LISTED_AT]["S"]:
        return
    for name, value in entry.items():
        update.set(name, value)


def unlist(update: Update) -> None:
    """Let a write remove an item from its list, if it is in one."""
    update.remove(LISTED_IN, LISTED_AT)


def claim_update(workflow: str, claim: Claim, now_ms: int, token: str) -> Update:
    """The write by which a run claims a task of this workflow (its stored name) that has no live claim.

    `run.lapsed` becomes the sum of the ends of all claims before this one. A claim that was released ends at 0, so the
    sum shows whether one expired without release.
    """
    update = guarded_update(now_ms, token)
    update.require("workflow", "=", workflow)
    if claim.by_worker:  # it sees the callback that has listed the task, and its job continues
        unlist(update)
        update.remove(WAKES)
    if claim.named:
        note_named(update)
    if claim.takes_over:
        update.require(RUN_UNTIL, ">", 0)
    lapsed = update.path((RUN, "lapsed"))
    update.set_expression((RUN, "lapsed"), f"if_not_exists({lapsed},{update.value(0)})+{update.path(RUN_UNTIL)}")
    take_claim(update, claim, now_ms)
    return update


def take_claim(update: Update, claim: Claim, now_ms: int) -> None:
    """Make a write take the claim, on condition that no other run has a live one."""
    update.require_any(update.compared(RUN_UNTIL, "<", now_ms), update.compared(RUN_ID, "=", claim.id))
    update.set(RUN_ID, claim.id)
    update.increment(RUN_NUMBER)
    update.set(RUN_UNTIL, claim.until_ms)


def require_claim(update: Update, claim: Claim) -> None:
    """Make a write require that the run still has the claim.

    After a release the id stays until the next run claims the task, but `until` is 0 at once.
    """
    update.require(RUN_ID, "=", claim.id)
    update.require(RUN_UNTIL, ">", 0)


def renew_claim(update: Update, claim: Claim, *, release: bool = False) -> None:
    """Make a write require the claim, and renew it until its new end, or release it."""
    require_claim(update, claim)
    update.set(RUN_UNTIL, 0 if release else claim.until_ms)
    if release:
        update.set((RUN, "ended"), update.now_ms)


def note_named(update: Update) -> None:
    """Let a write note that a call has named the task, so that its client has the task's id."""
    update.set(NAMED, value=True)


def note_kept(update: Update, until_s: int) -> None:
    """Let a write of pointers note until when their values are kept, epoch seconds."""
    # A longer life of the task needs values that are kept longer than these.
    update.require_any(update.missing(KEPT_UNTIL), update.compared(KEPT_UNTIL, "<=", until_s))
    update.require("expires_at", "<=", until_s - MARGIN_S)
    update.set_expression(KEPT_UNTIL, f"if_not_exists({update.path(KEPT_UNTIL)},{update.value(until_s)})")


def set_message(update: Update, message: str) -> None:
    update.set("status_message", to_text(shortened_message(message)))


def shortened_message(message: str) -> str:
    is_long = len(message) > MAX_STATUS_MESSAGE_CHARS
    return within_bytes(message[: MAX_STATUS_MESSAGE_CHARS - 1] + "…" if is_long else message, MAX_STATUS_MESSAGE_BYTES)
