"""Approvals in the table: the conditions of all writes (ARCHITECTURE.md, Items)."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from msgspec import structs
from msgspec.structs import replace

from mcp_baton.approvals import waiting_items as waiting_approvals
from mcp_baton.approvals.items import (
    APPROVALS_PER_PAGE,
    CLOCK_SLACK_MS,
    MAX_APPROVALS_READ,
    MAX_PAGE_BYTES,
    DynamoDBApprovalStore,
)
from mcp_baton.approvals.record import (
    MAX_WAITING_OF_OWNER,
    MAX_WAITING_OF_TASK,
    ApprovalRecord,
    ApprovalState,
    Decision,
    NotDecided,
    TooManyWaiting,
    UseAgain,
)
from mcp_baton.approvals.waiting_items import MAX_WAITS_FOR_STORED, WaitingApprovals
from mcp_baton.tasks.dynamodb.retries import ConditionFailed
from mcp_baton.tasks.dynamodb.table import TaskTable
from tests.store.conftest import Clock
from tests.store.fixture_types import Store

HOUR_MS = 3_600_000
AUDIENCE = "refunds"


@pytest.fixture
def call(owner: str, clock: Clock) -> ApprovalRecord:
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
    return store.approvals.ask(call, repeat)[0]


def decision(record: ApprovalRecord, *, approves: bool = True, **members: Any) -> Decision:
    return Decision(approves, **{"digest": record.digest, "by": "kim", "origin": "api", **members})


def ask_and_approve(store: Store, call: ApprovalRecord) -> ApprovalRecord:
    return store.approvals.decide(ask(store, call), decision(call))


@pytest.mark.parametrize("changes", [{}, {"task_id": None, "owner": "lone \ud800 half"}])
def test_a_requested_approval_is_read_unchanged(store: Store, call: ApprovalRecord, changes: dict[str, Any]) -> None:
    call = replace(call, **changes)
    record, is_new = store.approvals.ask(call, 0)

    assert is_new
    assert record == replace(call, approval_id=record.approval_id)
    assert store.approvals.get(record.approval_id) == record


def test_the_same_call_is_requested_once(store: Store, call: ApprovalRecord) -> None:
    first_record = ask(store, call)
    second_record, is_new = store.approvals.ask(replace(call, asked_ms=call.asked_ms + 5), 0)
    next_record, is_next_new = store.approvals.ask(call, 1)

    assert (second_record, is_new, is_next_new) == (first_record, False, True)
    assert next_record.approval_id != first_record.approval_id


def test_an_id_cannot_be_guessed_from_the_call(store: Store, call: ApprovalRecord) -> None:
    known_id = ask(store, call).approval_id
    guessed_id = known_id[:-1] + ("0" if known_id[-1] != "0" else "1")

    assert store.approvals.get(guessed_id) is None
    assert store.approvals.get("no id") is None


def test_an_approval_is_decided_once(store: Store, call: ApprovalRecord, clock: Clock) -> None:
    record = ask(store, call)
    clock.ms += 5
    decided_record = store.approvals.decide(record, decision(call, approves=False, source="1.2.3.4", reason="no"))
    with pytest.raises(NotDecided) as error_info:
        store.approvals.decide(record, decision(call))

    expected = replace(record, state=ApprovalState.DENIED, decided_ms=clock.ms, decided_by="kim")
    assert decided_record == replace(expected, decided_from="api", source="1.2.3.4", reason="no")
    assert error_info.value.current == decided_record == store.approvals.get(record.approval_id)


def test_a_decision_needs_the_digest_and_precedes_the_expiry(store: Store, call: ApprovalRecord, clock: Clock) -> None:
    record = ask(store, call)
    with pytest.raises(NotDecided):
        store.approvals.decide(record, decision(call, digest="cd" * 32))
    clock.ms = call.until_ms
    with pytest.raises(NotDecided):
        store.approvals.decide(record, decision(call))
    clock.ms = call.until_ms - 1
    assert store.approvals.decide(record, decision(call)).state is ApprovalState.APPROVED


def test_an_approval_is_used_once(store: Store, call: ApprovalRecord, clock: Clock) -> None:
    waiting_record = ask(store, call)
    assert store.approvals.use(call, 0, "run:1") == (waiting_record, False)
    decided_record = store.approvals.decide(waiting_record, decision(call))
    first_use = store.approvals.use(call, 0, "run:1")
    second_use = store.approvals.use(call, 0, "run:2")

    used_record = replace(decided_record, used_by="run:1", used_ms=clock.ms, uses=1)
    assert (first_use, second_use) == ((used_record, True), (used_record, False))
    assert store.approvals.use(call, 1, "run:1") == (None, False)


def use_again(store: Store, call: ApprovalRecord, by: str, earlier: str, again: UseAgain) -> tuple[int, bool]:
    """Return how often the approval has been used, and whether this attempt uses it."""
    record, is_used = store.approvals.use(call, 0, by, earlier=earlier, again=again, most=2)
    assert record is not None
    return record.uses, is_used


def test_an_approval_is_used_again_once_after_a_run_died(store: Store, call: ApprovalRecord) -> None:
    ask_and_approve(store, call)
    store.approvals.use(call, 0, "run:1")

    assert use_again(store, call, "run:3", "run:2", UseAgain.AFTER_DEATH) == (1, False)  # run 2 has not used it
    assert use_again(store, call, "run:2", "run:1", UseAgain.AFTER_DEATH) == (2, True)
    assert use_again(store, call, "run:3", "run:2", UseAgain.AFTER_DEATH) == (2, False)


def test_an_approval_is_used_again_after_clean_failures_up_to_a_limit(store: Store, call: ApprovalRecord) -> None:
    ask_and_approve(store, call)
    record, _ = store.approvals.use(call, 0, "run:1")
    assert record is not None
    assert use_again(store, call, "run:2", "run:1", UseAgain.AFTER_FAILURE) == (1, False)  # it has not failed cleanly
    store.approvals.free(record, started=True)
    assert use_again(store, call, "run:2", "run:1", UseAgain.AFTER_DEATH) == (1, False)
    assert use_again(store, call, "run:2", "run:1", UseAgain.AFTER_FAILURE) == (2, True)
    record = store.approvals.get(record.approval_id)
    assert record is not None
    store.approvals.free(record, started=True)

    assert use_again(store, call, "run:3", "run:2", UseAgain.AFTER_FAILURE) == (2, False)


def test_a_call_that_did_not_start_and_a_round_are_no_uses(store: Store, call: ApprovalRecord) -> None:
    ask_and_approve(store, call)
    record, _ = store.approvals.use(call, 0, "call:1")
    assert record is not None
    store.approvals.free(record, started=False)
    assert use_again(store, call, "call:2", "call:1", UseAgain.AFTER_FAILURE) == (1, True)

    assert use_again(store, call, "call:3", "call:2", UseAgain.ROUND) == (1, True)


def test_a_waiting_approval_is_withdrawn_and_a_decided_one_is_not(store: Store, call: ApprovalRecord) -> None:
    record = ask(store, call)
    approved_record = ask_and_approve(store, replace(call, digest="11" * 32))
    withdrawn_record = store.approvals.withdraw(record)

    assert withdrawn_record == replace(record, state=ApprovalState.WITHDRAWN) == store.approvals.withdraw(record)
    assert store.approvals.withdraw(replace(approved_record, state=ApprovalState.WAITING)) == approved_record
    with pytest.raises(NotDecided):
        store.approvals.decide(record, decision(call))


def test_a_list_has_the_approvals_of_its_audiences_and_its_state(store: Store, call: ApprovalRecord) -> None:
    first_record, other_audience = ask(store, call), f"others of {call.owner}"
    second_record = ask(store, replace(call, digest="11" * 32, audience=other_audience, asked_ms=call.asked_ms + 1))
    decided_record = ask_and_approve(store, replace(call, digest="22" * 32))
    lists = [
        store.approvals.list(audiences, state).approvals
        for audiences, state in (
            ([call.audience, other_audience], ApprovalState.WAITING),
            ([other_audience], ApprovalState.WAITING),
            ([call.audience, other_audience], ApprovalState.APPROVED),
            ([call.audience], ApprovalState.DENIED),
            ([], ApprovalState.WAITING),
        )
    ]

    assert lists == [[second_record, first_record], [second_record], [decided_record], [], []]


@pytest.mark.parametrize(
    ("argument_chars", "page_size"), [(0, APPROVALS_PER_PAGE), (MAX_PAGE_BYTES // 2 - 1_000, 2), (MAX_PAGE_BYTES, 1)]
)
def test_a_list_has_pages_newest_first(store: Store, call: ApprovalRecord, argument_chars: int, page_size: int) -> None:
    call = replace(call, arguments={"text": "x" * argument_chars})
    records = [
        ask(store, replace(call, task_id=f"{call.owner} {number}", asked_ms=call.asked_ms + number // 3))
        for number in range(2 * page_size + 1)
    ]
    items: list[ApprovalRecord] = []
    sizes, cursor = list[int](), None
    while not sizes or cursor is not None:
        page = store.approvals.list([call.audience], ApprovalState.WAITING, cursor)
        items += page.approvals
        sizes.append(len(page.approvals))
        cursor = page.cursor

    assert sizes == [page_size, page_size, 1]
    assert sorted(items, key=lambda record: record.approval_id) == sorted(
        records, key=lambda record: record.approval_id
    )
    assert [record.asked_ms for record in items] == sorted((record.asked_ms for record in records), reverse=True)
    for wrong_cursor in ("not a cursor", f"{'x' * 2_000}#{page.approvals[0].approval_id}"):
        with pytest.raises(ValueError, match="cursor"):
            store.approvals.list([call.audience], ApprovalState.WAITING, wrong_cursor)


def test_expired_approvals_leave_the_list_of_waiting_ones(store: Store, call: ApprovalRecord, clock: Clock) -> None:
    record = ask(store, call)
    later_record = ask(store, replace(call, digest="11" * 32, until_ms=call.until_ms + HOUR_MS))
    clock.ms = call.until_ms

    assert store.approvals.list([call.audience], ApprovalState.WAITING).approvals == [later_record]
    assert store.approvals.get(record.approval_id) == record


def test_a_reader_with_a_fast_clock_removes_nothing_listed(store: Store, call: ApprovalRecord, clock: Clock) -> None:
    record = ask(store, call)
    lists = []
    for clock.ms in (call.until_ms + CLOCK_SLACK_MS - 1, call.until_ms - 1, call.until_ms + CLOCK_SLACK_MS):
        lists.append(store.approvals.list([call.audience], ApprovalState.WAITING).approvals)
    item = store.table.get({"pk": {"S": f"APPROVAL#{record.approval_id[:16]}"}, "sk": {"S": record.approval_id[16:34]}})

    assert lists == [[], [record], []]
    assert item is not None
    assert "listed_in" not in item


def test_a_page_ends_after_some_reads_and_at_half_of_the_time(store: Store, call: ApprovalRecord, clock: Clock) -> None:
    waiting_record = ask(store, replace(call, until_ms=call.until_ms + HOUR_MS, asked_ms=call.asked_ms - 1))
    for number in range(MAX_APPROVALS_READ + 1):
        ask(store, replace(call, task_id=f"{call.owner} {number}"))
    clock.ms = call.until_ms
    first_page = store.approvals.list([call.audience], ApprovalState.WAITING)
    second_page = store.approvals.list([call.audience], ApprovalState.WAITING, first_page.cursor)
    left_ms = iter(range(10_000, 0, -1_000))
    late_table = structs.replace(store.table, left_ms=lambda: next(left_ms))
    late_page = DynamoDBApprovalStore(late_table, 1).list([call.audience], ApprovalState.WAITING)

    assert (first_page.approvals, bool(first_page.cursor)) == ([], True)
    assert (second_page.approvals, second_page.cursor) == ([waiting_record], None)
    assert (late_page.approvals, bool(late_page.cursor)) == ([], True)


@pytest.mark.parametrize("has_task", [True, False])
def test_concurrent_requests_do_not_exceed_the_limit(store: Store, call: ApprovalRecord, *, has_task: bool) -> None:
    most = MAX_WAITING_OF_TASK if has_task else MAX_WAITING_OF_OWNER
    task_id = call.task_id if has_task else None
    calls = [replace(call, digest=f"{number:064x}", task_id=task_id) for number in range(most + 8)]
    calls = [replace(waiting_call, digest=waiting_call.digest[::-1]) for waiting_call in calls]

    def is_requested(waiting_call: ApprovalRecord) -> bool:
        try:
            return store.approvals.ask(waiting_call, 0)[1]
        except TooManyWaiting:
            return False

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(is_requested, calls)) == most


def test_an_approval_whose_end_was_not_counted_leaves_room(
    store: Store, call: ApprovalRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [
        replace(call, digest=f"{number:02x}" * 32, asked_ms=call.asked_ms + number)
        for number in range(MAX_WAITING_OF_TASK + 1)
    ]
    records = [ask(store, waiting_call) for waiting_call in calls[:MAX_WAITING_OF_TASK]]
    with monkeypatch.context() as patch:
        patch.setattr(WaitingApprovals, "leave", lambda *_: None)
        store.approvals.decide(records[0], decision(records[0]))

    assert store.approvals.ask(calls[-1], 0)[1]


@pytest.mark.parametrize("is_stored_meanwhile", [True, False])
def test_a_request_at_the_limit_waits_until_one_of_the_others_is_stored(
    store: Store, call: ApprovalRecord, *, is_stored_meanwhile: bool
) -> None:
    # Of different ages, because the oldest ones are read.
    *others, last = (
        replace(call, digest=f"{number:02x}" * 32, asked_ms=call.asked_ms + number)
        for number in range(MAX_WAITING_OF_TASK + 1)
    )
    pauses_s: list[float] = []

    def sleep(pause_s: float) -> None:
        pauses_s.append(pause_s)
        if is_stored_meanwhile and len(pauses_s) == 3:
            ask(store, others[0])

    with pytest.MonkeyPatch.context() as patch:
        # Each of the others is counted, as by a parallel step that has not stored its approval yet.
        patch.setattr(TaskTable, "put", lambda *_: None)
        for other in others:
            ask(store, other)
    approvals = DynamoDBApprovalStore(structs.replace(store.table, sleep=sleep, rng=lambda: 1.0), 1)
    with pytest.raises(TooManyWaiting) as refused:
        approvals.ask(last, 0)

    waiting = refused.value.waiting
    assert (waiting.digest if waiting else None) == (others[0].digest if is_stored_meanwhile else None)
    assert len(pauses_s) == (3 if is_stored_meanwhile else MAX_WAITS_FOR_STORED)
    assert sum(pauses_s) < 2


def test_a_task_has_a_limited_number_of_waiting_approvals(store: Store, call: ApprovalRecord, clock: Clock) -> None:
    calls = [replace(call, digest=f"{number:02x}" * 32) for number in range(MAX_WAITING_OF_TASK + 2)]
    for waiting_call in calls[:MAX_WAITING_OF_TASK]:
        ask(store, waiting_call)
    with pytest.raises(TooManyWaiting):
        store.approvals.ask(calls[-1], 0)
    store.approvals.ask(replace(calls[-1], task_id="another"), 0)
    store.approvals.decide(ask(store, calls[0]), decision(calls[0]))
    assert store.approvals.ask(calls[-1], 0)[1]
    clock.ms = call.until_ms
    assert store.approvals.ask(replace(calls[-2], until_ms=clock.ms + HOUR_MS), 0)[1]


def test_requests_at_the_same_time_go_on_after_the_others_have_expired(
    store: Store, call: ApprovalRecord, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(MAX_WAITING_OF_TASK):
        ask(store, replace(call, digest=f"{number:02x}" * 32))
    clock.ms = call.until_ms
    first, second = (
        replace(call, digest=digest * 32, asked_ms=clock.ms, until_ms=clock.ms + HOUR_MS) for digest in ("aa", "bb")
    )
    oldest, update, updates = WaitingApprovals._oldest, TaskTable.update, iter(range(20))  # noqa: SLF001

    def oldest_before_the_first_request(waiting: WaitingApprovals, item: Any) -> Any:
        found = oldest(waiting, item)
        monkeypatch.setattr(WaitingApprovals, "_oldest", oldest)
        ask(store, first)
        return found

    def update_a_few_times(table: TaskTable, *args: Any, **kwargs: Any) -> Any:
        next(updates)  # without an end, the test fails
        return update(table, *args, **kwargs)

    monkeypatch.setattr(WaitingApprovals, "_oldest", oldest_before_the_first_request)
    monkeypatch.setattr(TaskTable, "update", update_a_few_times)

    ask(store, second)

    assert len(store.approvals.waiting(call.task_id or "")) == 2


def test_the_count_expires_although_it_was_deleted_while_an_approval_was_counted(
    store: Store, call: ApprovalRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(store, replace(call, until_ms=call.until_ms + HOUR_MS))
    update = TaskTable.update

    def update_and_delete(table: TaskTable, key: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return update(table, key, *args, **kwargs)
        except ConditionFailed:
            # The item's time to live was over, and DynamoDB deletes it before the next attempt.
            table.connection.client().delete_item(TableName=table.name, Key=key)
            raise

    monkeypatch.setattr(TaskTable, "update", update_and_delete)
    ask(store, replace(call, digest="cd" * 32))
    item = store.table.get(waiting_approvals._key(call))  # noqa: SLF001
    assert item is not None
    assert int(item["expires_at"]["N"]) == -(-call.until_ms // 1000)


def test_one_of_two_processes_notifies(store: Store, call: ApprovalRecord) -> None:
    record = ask(store, call)

    assert store.approvals.notified(record, 7)
    assert not store.approvals.notified(record, 8)
    assert store.approvals.get(record.approval_id) == replace(record, notify_ms=7)


def test_a_link_finds_its_approval_until_the_expiry(store: Store, call: ApprovalRecord, clock: Clock) -> None:
    record = ask(store, call)
    store.approvals.add_link(record, "dd" * 32)

    assert store.approvals.linked("dd" * 32) == record
    assert store.approvals.linked("ee" * 32) is None
    clock.ms = call.until_ms + 1_000
    assert store.approvals.linked("dd" * 32) is None


def test_a_record_is_kept_for_an_audit(store: Store, call: ApprovalRecord, clock: Clock) -> None:
    approvals = DynamoDBApprovalStore(store.table, audit_days=2)
    record = approvals.ask(call, 0)[0]
    clock.ms = call.until_ms + 47 * HOUR_MS
    assert approvals.get(record.approval_id) == record
    clock.ms = call.until_ms + 49 * HOUR_MS
    assert approvals.get(record.approval_id) is None


def test_the_latest_approval_of_a_call_is_found_after_many_requests(store: Store, call: ApprovalRecord) -> None:
    assert store.approvals.latest(call) is None
    for repeat in (0, 9, 10, 255, 256, 257, 100_000):
        record = ask(store, call, repeat)
        assert store.approvals.latest(call) == (record, repeat)
        assert store.approvals.get(record.approval_id) == record
        store.approvals.withdraw(record)
    assert store.approvals.latest(replace(call, digest="11" * 32)) is None
