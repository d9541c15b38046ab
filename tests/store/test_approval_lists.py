"""The lists of approvals when the clocks of processes differ."""

from mcp_baton.approvals.items import CLOCK_SLACK_MS
from mcp_baton.approvals.record import ApprovalRecord, ApprovalState
from tests.store.conftest import TABLE, Clock, Engine
from tests.store.fixture_types import Store


def waiting_approvals(store: Store, audience: str) -> list[ApprovalRecord]:
    return list(store.approvals.list([audience], ApprovalState.WAITING).approvals)


def test_a_reader_with_a_fast_clock_removes_no_approval_from_the_list(
    store: Store, owner: str, clock: Clock, engine: Engine
) -> None:
    until_ms, audience = clock.ms + 60_000, f"refunds-{owner}"
    new = ApprovalRecord("", "ab" * 32, ApprovalState.WAITING, "pay", {}, "Pay?", audience, owner, clock.ms, until_ms)
    record, _ = store.approvals.ask(new, 0)

    clock.ms = until_ms + CLOCK_SLACK_MS - 1
    assert waiting_approvals(store, audience) == []
    clock.ms = until_ms - 1
    assert waiting_approvals(store, audience) == [record]
    clock.ms = until_ms + CLOCK_SLACK_MS
    assert waiting_approvals(store, audience) == []
    key = {"pk": {"S": f"APPROVAL#{record.approval_id[:16]}"}, "sk": {"S": record.approval_id[16:34]}}
    assert "listed_in" not in engine.client.get_item(TableName=TABLE, Key=key)["Item"]
