"""UpdateItem expressions, small enough for DynamoDB: 4 KB each, whatever the names are (docs/storage.md).

Every name and value is a placeholder of one or two characters: the length depends on how much is written alone. The
conditions close the races: a write states what it was decided on, and fails as a whole when that no longer holds.

A write with a token is applied once, however often it is sent (docs/storage.md, Lost answers): the token is kept in one
of the item's 29 sets, by the time, on the condition that it is not there yet. Each write drops the set that is farthest
from now: a token outlives its repeats where writers' clocks are ten minutes apart, since AWS takes requests that are
five minutes off (IAM User Guide, "Troubleshoot signed requests for AWS APIs").
"""

from msgspec import Struct, field

from mcp_baton.exceptions import StoreError
from mcp_baton.tasks.dynamodb.attributes import Attribute, Item
from mcp_baton.tasks.dynamodb.changes import NO_PROGRESS, Changes
from mcp_baton.tasks.dynamodb.items import BY_CLIENT, RUN, TIMINGS, members
from mcp_baton.tasks.record import LIVE, PAUSE_REASON, PROGRESS, Claim, TaskStatus, paused_step, timestamp

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
EXPRESSION_BYTES = 4096
LIVE_STATUSES = sorted(LIVE)

SETS = tuple(f"w{place}" for place in range(29))
AWAY = len(SETS) // 2
SPAN_MS = 61_000
"""Each set has the tokens of so long. What is written every so many minutes is then not always in the same sets."""


def set_at(now_ms: int) -> str:
    """The set that takes the tokens of this time."""
    return SETS[now_ms // SPAN_MS % len(SETS)]


def old_set_at(now_ms: int) -> str:
    """The set of fifteen minutes ago, as far from now as one can be."""
    return SETS[(now_ms // SPAN_MS + AWAY) % len(SETS)]


def stored_token(token: str) -> bytes:
    """A token, which is made of hex digits, as it stands in a set."""
    return bytes.fromhex(token)


def first_token(now_ms: int, token: str) -> Item:
    """What a new item has of the write that creates it."""
    return {set_at(now_ms): {"BS": [stored_token(token)]}}


class Update(Struct):
    """An UpdateItem request being put together. With a token it is applied once, however often it is sent.

    Attributes:
        token: Names this write, here and in the item: see `TaskTable.update`; `None` where a repetition does no harm.
        now_ms: When the token was made, epoch milliseconds: it says in which of the item's sets the token stands.
    """

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
        """A document path of stored names."""
        return ".".join(map(self.name, parts))

    def name(self, stored: str) -> str:
        """The placeholder of a stored name."""
        placeholder = self._placeholders.get(stored)
        if placeholder is None:
            placeholder = self._placeholders[stored] = f"#{base36(len(self.names))}"
            self.names[placeholder] = stored
        return placeholder

    def value(self, attribute: Attribute) -> str:
        """A new placeholder for a value."""
        placeholder = f":{base36(len(self.values))}"
        self.values[placeholder] = attribute
        return placeholder

    def text(self, text: str) -> str:
        """The placeholder of a text that comes many times, such as a status."""
        if text not in self._texts:
            self._texts[text] = self.value({"S": text})
        return self._texts[text]

    def set(self, path: str, value: str) -> None:
        """Set a path to the value of a placeholder."""
        self.settings.append(f"{path}={value}")

    def remove(self, path: str) -> None:
        """Remove a path."""
        self.removals.append(path)

    def add(self, path: str, value: str) -> None:
        """Add the value of a placeholder to the number at a path, which is 0 where there is none."""
        self.additions.append(f"{path} {value}")

    def require(self, condition: str) -> None:
        """Add a condition to those that must all hold."""
        self.conditions.append(condition)

    def expression(self) -> str:
        """The update expression.

        Raises:
            StoreError: it is longer than DynamoDB takes.
        """
        removals, additions = self.removals, self.additions
        if self.token is not None:
            self.values[":toks"] = {"BS": [stored_token(self.token)]}
            removals = [*removals, self.name(old_set_at(self.now_ms))]
            additions = [*additions, f"{self.name(set_at(self.now_ms))} :toks"]
        clauses = (("SET", self.settings), ("REMOVE", removals), ("ADD", additions))
        return _checked(" ".join([f"{verb} {','.join(actions)}" for verb, actions in clauses if actions]))

    def condition(self) -> str:
        """The condition expression; empty for a write without conditions.

        Raises:
            StoreError: it is longer than DynamoDB takes.
        """
        conditions = self.conditions
        if self.token is not None:
            self.values[":tok"] = {"B": stored_token(self.token)}
            conditions = [*conditions, f"NOT contains({self.name(set_at(self.now_ms))},:tok)"]
        return _checked(" AND ".join(conditions))


def _checked(expression: str) -> str:
    if len(expression) > EXPRESSION_BYTES:
        taken = f"its expression has {len(expression)} bytes, DynamoDB takes {EXPRESSION_BYTES}"
        raise StoreError(f"the batch sets too many values for one write: {taken}")
    return expression


def base36(number: int) -> str:
    """A number in as few letters and digits as possible."""
    head, digit = divmod(number, len(DIGITS))
    return (base36(head) if head else "") + DIGITS[digit]


def live_update(now_ms: int, token: str | None) -> Update:
    """A write to a task that must exist, must not have expired and must not be terminal."""
    update = guarded_update(now_ms, token)
    version = update.name("version")
    update.set(version, f"{version}+{update.value({'N': '1'})}")
    update.set(update.name("updated_at"), update.text(timestamp(now_ms)))
    return update


def guarded_update(now_ms: int, token: str | None) -> Update:
    """The same for a write that does not count as a change of the task."""
    update = Update(token, now_ms)
    update.require(f"attribute_exists({update.name('pk')})")
    update.require(f"{update.name('expires_at')}>{update.value({'N': str(now_ms // 1000)})}")
    live = ",".join(update.text(status) for status in LIVE_STATUSES)
    update.require(f"{update.name('status')} IN ({live})")
    return update


def finish_update(
    now_ms: int, token: str, status: TaskStatus, result: Attribute | None = None, *, by_client: bool = False
) -> Update:
    """The write that ends a task; with a result, which a client may have supplied."""
    update = live_update(now_ms, token)
    update.set(update.name("status"), update.text(status))
    if result is not None:
        update.set(update.name("result"), update.value(result))
    if by_client:
        update.set(update.name(BY_CLIENT), update.value({"BOOL": True}))
    return update


def write_update(stored: Item, changes: Changes, now_ms: int, token: str) -> Update:
    """The write of a batch: every change it holds, and every condition that it was decided on."""
    update = (
        live_update(now_ms, token)
        if changes.result is None
        else finish_update(now_ms, token, TaskStatus.COMPLETED, changes.result, by_client=changes.by_client)
    )
    steps, status = (update.path("variables", PROGRESS, "steps"), update.name("status")) if changes.steps else ("", "")
    for step in changes.steps:
        path = f"{steps}[{step.index}].{status}"
        update.require(f"{path}={update.text(step.expected)}")
        if step.status != step.expected:
            update.set(path, update.text(step.status))
    if changes.variables and "definition" in stored:
        # The places of the steps, and what they are, were read from this definition's progress.
        update.require(f"{update.name('definition')}={update.value(stored['definition'])}")
    if changes.definition is not None:
        update.set(update.name("definition"), update.value(changes.definition))
    for name, attribute in changes.required.items():
        update.require(f"{update.path('variables', name)}={update.value(attribute)}")
    variables = update.name("variables") if changes.variables else ""
    for name, attribute in changes.variables.items():
        update.set(f"{variables}.{update.name(name)}", update.value(attribute))
    _note_timings(update, changes)
    for name in sorted(changes.removed):
        update.remove(update.path("variables", name))
    if PAUSE_REASON in changes.variables and PROGRESS not in changes.variables:
        _require_paused_step(update, stored, changes)
    elif changes.steps and PAUSE_REASON not in {*changes.required, *changes.removed}:
        _require_same_pause(update, stored)
    return update


def _note_timings(update: Update, changes: Changes) -> None:
    if changes.timings and changes.all_timings:
        update.set(update.name(TIMINGS), update.value({"M": dict(changes.timings)}))
        return
    for name, attribute in changes.timings.items():
        update.set(update.path(TIMINGS, name), update.value(attribute))


def _require_paused_step(update: Update, stored: Item, changes: Changes) -> None:
    """A pause reason was decided on the status of the step that it names: somebody else may have completed it since."""
    reason = changes.variables[PAUSE_REASON].get("M", {})
    named = paused_step(reason)
    written = {step.index for step in changes.steps}
    progress = members(stored, "variables").get(PROGRESS, NO_PROGRESS)
    for index, step in enumerate(progress["M"]["steps"]["L"]):
        if step["M"]["name"] == named and index not in written:
            path = f"{update.path('variables', PROGRESS, 'steps')}[{index}].{update.name('status')}"
            update.require(f"{path}={update.text(step['M']['status']['S'])}")


def _require_same_pause(update: Update, stored: Item) -> None:
    """A write that leaves the pause reason alone was decided on the one that was read: one that somebody else has
    stored since may name the very step that this write completes."""
    path, pause = update.path("variables", PAUSE_REASON), members(stored, "variables").get(PAUSE_REASON)
    update.require(f"attribute_not_exists({path})" if pause is None else f"{path}={update.value(pause)}")


def require_held(update: Update, claim: Claim) -> None:
    """The write takes place only while this run holds the task. One that gave it up may not have heard of that: its
    name stays until another one comes, the end is 0 at once."""
    update.require(f"{update.path(RUN, 'i')}={update.text(claim.id)}")
    update.require(f"{update.path(RUN, 'u')}>{update.value({'N': '0'})}")


def hold(update: Update, claim: Claim, *, release: bool = False) -> None:
    """A write of the run that holds the task: it renews the claim, or gives it up."""
    require_held(update, claim)
    update.set(update.path(RUN, "u"), update.value({"N": "0" if release else str(claim.until_ms)}))
