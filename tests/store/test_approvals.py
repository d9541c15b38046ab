"""Approvals in the table: the conditions of all writes (docs/storage.md, Approvals)."""

from typing import Any

import pytest
from msgspec.structs import replace

from mcp_baton.tasks.approvals import (
    MOST_WAITING,
    ApprovalRecord,
    ApprovalState,
    Decision,
    NotDecided,
    TooManyWaiting,
)
from mcp_baton.tasks.dynamodb.approvals import PAGE_SIZE, DynamoDBApprovalStore
from tests.store.conftest import Clock
from tests.store.given import Store

HOUR_MS = 3_600_000
AUDIENCE = "refunds"


@pytest.fixture
def call(owner: str, clock: Clock) -> ApprovalRecord:
    """An approval that is requested now."""
    return ApprovalRecord(
        approval_id="",
        digest="ab" * 32,
        state=ApprovalState.WAITING,
        tool="pay",
        arguments={"order": "A\ud800", "amount": 30.0},
        message="Pay 30.0?",
        audience=f"{AUDIENCE}-{owner}",
        owner=owner,
        asked_ms=clock(),
        until_ms=clock() + HOUR_MS,
        task_id=f"task of {owner}",
        workflow="refund",
        step="pay",
        job_id="job",
        notify_ms=clock() + 60_000,
        base_url="https://api.example.com",
    )


def ask(store: Store, call: ApprovalRecord, repeat: int = 0) -> ApprovalRecord:
    return store.approvals.ask(call, repeat, is_limited=False)[0]


def decision(record: ApprovalRecord, *, approves: bool = True, **members: Any) -> Decision:
    return Decision(approves, **{"digest": record.digest, "by": "kim", "origin": "api", **members})


def approved(store: Store, call: ApprovalRecord) -> ApprovalRecord:
    return store.approvals.decide(ask(store, call), decision(call))


def test_a_requested_approval_is_read_back_unchanged(store: Store, call: ApprovalRecord) -> None:
    record, is_new = store.approvals.ask(call, 0, is_limited=True)

    assert is_new
    assert record == replace(call, approval_id=record.approval_id)
    assert store.approvals.get(record.approval_id) == record


def test_the_same_call_is_requested_once(store: Store, call: ApprovalRecord) -> None:
    first = ask(store, call)
    again, is_new = store.approvals.ask(replace(call, asked_ms=call.asked_ms + 5), 0, is_limited=False)
    next_one, is_next_new = store.approvals.ask(call, 1, is_limited=False)

    assert (again, is_new, is_next_new) == (first, False, True)
    assert next_one.approval_id != first.approval_id


def test_an_id_cannot_be_guessed_from_the_call(store: Store, call: ApprovalRecord) -> None:
    known = ask(store, call).approval_id
    guessed = known[:-1] + ("0" if known[-1] != "0" else "1")

    assert store.approvals.get(guessed) is None
    assert store.approvals.get("no id") is None


def test_an_approval_is_decided_once(store: Store, call: ApprovalRecord, clock: Clock) -> None:
    record = ask(store, call)
    clock.ms += 5
    decided = store.approvals.decide(record, decision(call, approves=False, source="1.2.3.4", reason="no"))
    with pytest.raises(NotDecided) as late:
        store.approvals.decide(record, decision(call))

    expected = replace(record, state=ApprovalState.DENIED, decided_ms=clock.ms, decided_by="kim")
    assert decided == replace(expected, decided_from="api", source="1.2.3.4", reason="no")
    assert late.value.current == decided == store.approvals.get(record.approval_id)


def test_a_decision_needs_the_digest_and_comes_before_the_expiry(
    store: Store, call: ApprovalRecord, clock: Clock
) -> None:
    record = ask(store, call)
    with pytest.raises(NotDecided):
        store.approvals.decide(record, decision(call, digest="cd" * 32))
    clock.ms = call.until_ms
    with pytest.raises(NotDecided):
        store.approvals.decide(record, decision(call))
    clock.ms = call.until_ms - 1
    assert store.approvals.decide(record, decision(call)).state is ApprovalState.APPROVED


def test_an_approval_is_used_once(store: Store, call: ApprovalRecord, clock: Clock) -> None:
    waiting = ask(store, call)
    assert store.approvals.use(call, 0, "run:1") == waiting
    decided = store.approvals.decide(waiting, decision(call))
    used = store.approvals.use(call, 0, "run:1")
    second = store.approvals.use(call, 0, "run:2")

    assert used == second == replace(decided, used_by="run:1", used_ms=clock.ms)
    assert store.approvals.use(call, 1, "run:1") is None


def test_an_attempt_that_repeats_another_uses_its_approval(store: Store, call: ApprovalRecord) -> None:
    approved(store, call)
    for by, before, after in (
        ("run:1", "run:0", "run:1"),  # the earlier attempt had not used it
        ("run:3", "run:2", "run:1"),  # another attempt has used it
        ("run:2", "run:1", "run:2"),
    ):
        used = store.approvals.use(call, 0, by, before)
        assert used is not None
        assert used.used_by == after


def test_a_denied_expired_or_different_call_is_not_used(store: Store, call: ApprovalRecord, clock: Clock) -> None:
    denied = replace(call, digest="11" * 32)
    store.approvals.decide(ask(store, denied), decision(denied, approves=False))
    approved(store, call)
    # Its key is equal, but the call is different.
    similar = replace(call, digest=call.digest[:-1] + "0")
    tried = [store.approvals.use(it, 0, "run:1") for it in (denied, similar)]
    clock.ms = call.until_ms
    tried.append(store.approvals.use(call, 0, "run:1"))

    assert [it and it.used_by for it in tried] == [None, None, None]


def test_a_waiting_approval_is_withdrawn_and_a_decided_one_is_not(store: Store, call: ApprovalRecord) -> None:
    record = ask(store, call)
    other = approved(store, replace(call, digest="11" * 32))
    withdrawn = store.approvals.withdraw(record)

    assert withdrawn == replace(record, state=ApprovalState.WITHDRAWN) == store.approvals.withdraw(record)
    assert store.approvals.withdraw(replace(other, state=ApprovalState.WAITING)) == other
    with pytest.raises(NotDecided):
        store.approvals.decide(record, decision(call))


def test_a_list_has_the_approvals_of_its_audiences_and_its_state(store: Store, call: ApprovalRecord) -> None:
    first, others = ask(store, call), f"others of {call.owner}"
    second = ask(store, replace(call, digest="11" * 32, audience=others, asked_ms=call.asked_ms + 1))
    decided = approved(store, replace(call, digest="22" * 32))
    listed = [
        store.approvals.list(audiences, state).approvals
        for audiences, state in (
            ([call.audience, others], ApprovalState.WAITING),
            ([others], ApprovalState.WAITING),
            ([call.audience, others], ApprovalState.APPROVED),
            ([call.audience], ApprovalState.DENIED),
            ([], ApprovalState.WAITING),
        )
    ]

    assert listed == [[second, first], [second], [decided], [], []]


def test_a_list_has_pages_newest_first(store: Store, call: ApprovalRecord) -> None:
    made = [
        ask(store, replace(call, digest=f"{number:02x}" * 32, asked_ms=call.asked_ms + number // 3))
        for number in range(2 * PAGE_SIZE + 1)
    ]
    found: list[ApprovalRecord] = []
    sizes, cursor = list[int](), None
    while not sizes or cursor is not None:
        page = store.approvals.list([call.audience], ApprovalState.WAITING, cursor)
        found += page.approvals
        sizes.append(len(page.approvals))
        cursor = page.cursor

    assert sizes == [PAGE_SIZE, PAGE_SIZE, 1]
    assert sorted(found, key=lambda it: it.approval_id) == sorted(made, key=lambda it: it.approval_id)
    assert [it.asked_ms for it in found] == sorted((it.asked_ms for it in made), reverse=True)
    with pytest.raises(ValueError, match="cursor"):
        store.approvals.list([call.audience], ApprovalState.WAITING, "not a cursor")


def test_expired_approvals_leave_the_list_of_waiting_ones(store: Store, call: ApprovalRecord, clock: Clock) -> None:
    record = ask(store, call)
    later = ask(store, replace(call, digest="11" * 32, until_ms=call.until_ms + HOUR_MS))
    clock.ms = call.until_ms
    listed = store.approvals.list([call.audience], ApprovalState.WAITING).approvals

    assert listed == [later]
    assert store.approvals.get(record.approval_id) == record


def test_a_task_has_a_limited_number_of_waiting_approvals(store: Store, call: ApprovalRecord, clock: Clock) -> None:
    made = [replace(call, digest=f"{number:02x}" * 32) for number in range(MOST_WAITING + 2)]
    for it in made[:MOST_WAITING]:
        ask(store, it)
    with pytest.raises(TooManyWaiting):
        store.approvals.ask(made[-1], 0, is_limited=True)
    store.approvals.ask(replace(made[-1], task_id="another"), 0, is_limited=True)
    approved(store, made[0])
    assert store.approvals.ask(made[-1], 0, is_limited=True)[1]
    clock.ms = call.until_ms
    assert store.approvals.ask(replace(made[-2], until_ms=clock.ms + HOUR_MS), 0, is_limited=True)[1]


def test_one_of_two_processes_notifies(store: Store, call: ApprovalRecord) -> None:
    record = ask(store, call)

    assert store.approvals.notified(record, 7)
    assert not store.approvals.notified(record, 8)
    found = store.approvals.get(record.approval_id)
    assert found == replace(record, notify_ms=7)


def test_a_link_finds_its_approval_until_the_expiry(store: Store, call: ApprovalRecord, clock: Clock) -> None:
    record = ask(store, call)
    store.approvals.add_link(record, "dd" * 32)

    assert store.approvals.linked("dd" * 32) == record
    assert store.approvals.linked("ee" * 32) is None
    clock.ms = call.until_ms + 1_000
    assert store.approvals.linked("dd" * 32) is None


def test_a_record_is_kept_for_an_audit(store: Store, call: ApprovalRecord, clock: Clock) -> None:
    approvals = DynamoDBApprovalStore(store.table, audit_days=2)
    record = approvals.ask(call, 0, is_limited=False)[0]
    clock.ms = call.until_ms + 47 * HOUR_MS
    assert approvals.get(record.approval_id) == record
    clock.ms = call.until_ms + 49 * HOUR_MS
    assert approvals.get(record.approval_id) is None


def test_the_number_of_requests_for_one_call_is_limited(store: Store, call: ApprovalRecord) -> None:
    with pytest.raises(TooManyWaiting, match="256 times"):
        store.approvals.ask(call, 256, is_limited=False)
