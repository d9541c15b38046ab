"""UpdateItem expressions: what a write sets, and the conditions on which it was decided (docs/storage.md).

DynamoDB accepts expressions of 4 KB. Every name and value is a placeholder of one or two characters, so the length
depends only on how much is written.

A write with a token is applied once, however often it is sent (ARCHITECTURE.md, Lost answers). The item has 29 sets of
tokens, one for each span of time. A write requires that its token is not in the set of its time, adds it there, and
removes the set that is farthest from now. So a token outlives its repeats even if the clocks of two writers are ten
minutes apart: AWS accepts requests whose time is five minutes off (IAM User Guide, "Troubleshoot signed requests for
AWS APIs").
"""

from msgspec import Struct, field

from mcp_baton.exceptions import StoreError
from mcp_baton.tasks.dynamodb.attributes import Attribute, Item
from mcp_baton.tasks.dynamodb.items import (
    BY_CLIENT,
    LISTED_AT,
    LISTED_IN,
    NAMED,
    RUN,
    WAKES,
    outbox_entry,
)
from mcp_baton.tasks.record import LIVE, Claim, TaskStatus, timestamp
from mcp_baton.tasks.texts import to_text, within_bytes

BASE36_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
MAX_EXPRESSION_BYTES = 4096
LIVE_STATUSES = sorted(LIVE)

MAX_STATUS_MESSAGE_CHARS, MAX_STATUS_MESSAGE_BYTES = 1_000, 1_500
"""The longest status message that is stored. Every later write of the task is charged for it."""

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


class Update(Struct):
    """The parts of an UpdateItem request, with placeholders. With a token it is applied once, however often it is sent;
    without one, a repetition is harmless. The token was created at `now_ms`, which determines its set."""

    token: str | None
    now_ms: int
    names: dict[str, str] = field(default_factory=dict)
    values: dict[str, Attribute] = field(default_factory=dict)
    settings: list[str] = field(default_factory=list)
    removals: list[str] = field(default_factory=list)
    additions: list[str] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)
    _placeholders: dict[str, str] = field(default_factory=dict)
    _texts: dict[str, str] = field(default_factory=dict)

    def path(self, *parts: str) -> str:
        return ".".join(map(self.name, parts))

    def name(self, attribute: str) -> str:
        placeholder = self._placeholders.get(attribute)
        if placeholder is None:
            placeholder = self._placeholders[attribute] = f"#{base36(len(self.names))}"
            self.names[placeholder] = attribute
        return placeholder

    def value(self, attribute: Attribute) -> str:
        """A new placeholder for a value."""
        placeholder = f":{base36(len(self.values))}"
        self.values[placeholder] = attribute
        return placeholder

    def text(self, text: str) -> str:
        """The placeholder of a text that may be used several times, such as a status."""
        if text not in self._texts:
            self._texts[text] = self.value({"S": text})
        return self._texts[text]

    def set(self, path: str, value: str) -> None:
        self.settings.append(f"{path}={value}")

    def remove(self, path: str) -> None:
        self.removals.append(path)

    def add(self, path: str, value: str) -> None:
        """Add the value of a placeholder to the number at a path; a missing number counts as 0."""
        self.additions.append(f"{path} {value}")

    def number(self, number: int) -> str:
        return self.value({"N": str(number)})

    def require(self, condition: str) -> None:
        self.conditions.append(condition)

    def expression(self) -> str:
        removals, additions = self.removals, self.additions
        if self.token is not None:
            self.values[":toks"] = {"BS": [stored_token(self.token)]}
            removals = [*removals, self.name(old_set_at(self.now_ms))]
            additions = [*additions, f"{self.name(set_at(self.now_ms))} :toks"]
        clauses = (("SET", self.settings), ("REMOVE", removals), ("ADD", additions))
        return _checked(" ".join([f"{verb} {','.join(actions)}" for verb, actions in clauses if actions]))

    def condition(self) -> str:
        """The condition expression; empty for a write without conditions."""
        conditions = self.conditions
        if self.token is not None:
            self.values[":tok"] = {"B": stored_token(self.token)}
            conditions = [*conditions, f"NOT contains({self.name(set_at(self.now_ms))},:tok)"]
        return _checked(" AND ".join(conditions))


def _checked(expression: str) -> str:
    if len(expression) > MAX_EXPRESSION_BYTES:
        problem = f"its expression has {len(expression)} bytes, DynamoDB takes {MAX_EXPRESSION_BYTES}"
        raise StoreError(f"the batch sets too many values for one write: {problem}")
    return expression


def base36(number: int) -> str:
    digit = BASE36_DIGITS[number % 36]
    return digit if number < 36 else base36(number // 36) + digit


def live_update(now_ms: int, token: str | None) -> Update:
    """A write to a live task: it exists, has not expired, and is not terminal."""
    update = guarded_update(now_ms, token)
    version = update.name("version")
    update.set(version, f"{version}+{update.number(1)}")
    update.set(update.name("updated_at"), update.text(timestamp(now_ms)))
    return update


def guarded_update(now_ms: int, token: str | None) -> Update:
    """As `live_update`, for a write that does not count as a change of the task."""
    update = Update(token, now_ms)
    update.require(f"attribute_exists({update.name('pk')})")
    update.require(f"{update.name('expires_at')}>{update.number(now_ms // 1000)}")
    live = ",".join(update.text(status) for status in LIVE_STATUSES)
    update.require(f"{update.name('status')} IN ({live})")
    return update


def finish_update(
    now_ms: int, token: str, status: TaskStatus, result: Attribute | None = None, *, by_client: bool = False
) -> Update:
    """The write that ends a task, perhaps with a result. `by_client` says that a client supplied it."""
    update = live_update(now_ms, token)
    unlist(update)
    update.set(update.name("status"), update.text(status))
    if result is not None:
        update.set(update.name("result"), update.value(result))
    if by_client:
        update.set(update.name(BY_CLIENT), update.value({"BOOL": True}))
    return update


def enter_outbox(update: Update, task_id: str, at_ms: int, item: Item | None = None) -> None:
    """Let a write list a job in the outbox, or move its entry. If the item, as it was read, has an earlier entry, that
    entry stays."""
    entry = outbox_entry(task_id, at_ms)
    if item is not None and LISTED_AT in item and item[LISTED_AT]["S"] <= entry[LISTED_AT]["S"]:
        return
    for name, attribute in entry.items():
        update.set(update.name(name), update.value(attribute))


def unlist(update: Update) -> None:
    """Let a write remove an item from its list, if it is in one."""
    update.remove(update.name(LISTED_IN))
    update.remove(update.name(LISTED_AT))


def claim_update(workflow: str, claim: Claim, now_ms: int, token: str) -> Update:
    """The write by which a run claims a task of this workflow (its stored name) that has no live claim.

    `run.lapsed` becomes the sum of the ends of all claims before this one. A claim that was released ends at 0, so the
    sum shows whether one expired without release.
    """
    update = guarded_update(now_ms, token)
    update.require(f"{update.name('workflow')}={update.text(workflow)}")
    if claim.by_worker:  # it sees the callback that has listed the task, and its job continues
        unlist(update)
        update.remove(update.name(WAKES))
    if claim.named:
        note_named(update)
    until, lapsed = update.path(RUN, "until"), update.path(RUN, "lapsed")
    if claim.takes_over:
        update.require(f"{until}>{update.number(0)}")
    update.set(lapsed, f"if_not_exists({lapsed},{update.number(0)})+{until}")
    take_claim(update, claim, now_ms)
    return update


def take_claim(update: Update, claim: Claim, now_ms: int) -> None:
    """Make a write take the claim, on condition that no other run has a live one."""
    run_id, number, until = (update.path(RUN, member) for member in ("id", "number", "until"))
    claim_id = update.text(claim.id)
    update.require(f"({until}<{update.number(now_ms)} OR {run_id}={claim_id})")
    update.set(run_id, claim_id)
    update.set(number, f"{number}+{update.number(1)}")
    update.set(until, update.number(claim.until_ms))


def require_claim(update: Update, claim: Claim) -> None:
    """Make a write require that the run still has the claim.

    After a release the id stays until the next run claims the task, but `until` is 0 at once.
    """
    update.require(f"{update.path(RUN, 'id')}={update.text(claim.id)}")
    update.require(f"{update.path(RUN, 'until')}>{update.number(0)}")


def renew_claim(update: Update, claim: Claim, *, release: bool = False) -> None:
    """Make a write require the claim, and renew it until its new end, or release it."""
    require_claim(update, claim)
    update.set(update.path(RUN, "until"), update.number(0 if release else claim.until_ms))
    if release:
        update.set(update.path(RUN, "ended"), update.number(update.now_ms))


def note_named(update: Update) -> None:
    """Let a write note that a call has named the task, so that its client has the task's id."""
    update.set(update.name(NAMED), update.value({"BOOL": True}))


def set_message(update: Update, message: str) -> None:
    update.set(update.name("status_message"), update.value({"S": to_text(shortened_message(message))}))


def shortened_message(message: str) -> str:
    is_long = len(message) > MAX_STATUS_MESSAGE_CHARS
    return within_bytes(message[: MAX_STATUS_MESSAGE_CHARS - 1] + "…" if is_long else message, MAX_STATUS_MESSAGE_BYTES)
