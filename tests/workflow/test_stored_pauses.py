"""Several stored pause reasons share a bound, so that the task stays small (docs/reference/workflow-rules.md)."""

from collections.abc import Callable

import pytest

from mcp_baton.protocol.json import JsonObject, json_size
from mcp_baton.workflow.pause import ApprovalRequired, PauseReason, StepFailed
from mcp_baton.workflow.stored_pauses import MAX_REASONS_BYTES, MAX_STOP_BYTES, parse_pauses, stored_pauses, with_pause


def failure(step: str, length: int = 4_000) -> PauseReason:
    return StepFailed(step, "e" * length, retryable=False, suggested_tool="send")


def approval(step: str) -> PauseReason:
    return ApprovalRequired(
        step=step,
        approval_id="a" * 50,
        audience="people",
        message="m" * 2_000,
        expires_at="2030-01-01T00:00:00.000Z",
    )


def stored(*reasons: PauseReason) -> tuple[JsonObject, ...]:
    return stored_pauses([reason.to_json() for reason in reasons])


@pytest.mark.parametrize("count", [2, 5, 20, 100])
@pytest.mark.parametrize("kind", [failure, approval])
def test_several_reasons_fit_into_their_bound_and_stay_readable(kind: Callable[[str], PauseReason], count: int) -> None:
    kept = stored(*(kind(f"step {index}") for index in range(count)))

    assert json_size(kept) <= MAX_REASONS_BYTES + count * MAX_STOP_BYTES
    assert [pause.step for pause in parse_pauses(kept)] == [f"step {index}" for index in range(len(kept))]
    assert len(kept) == count or count == 100


def test_a_single_reason_keeps_its_text() -> None:
    [reason] = stored(failure("a"))
    assert len(str(reason["error"])) == 4_000


def test_names_and_ids_are_not_cut() -> None:
    for reason in stored(*(approval(f"step {index}") for index in range(20))):
        assert reason["approvalId"] == "a" * 50
        assert str(reason["message"]).startswith("m" * 60)


def test_a_reason_replaces_that_of_its_step_in_the_order_of_the_steps() -> None:
    steps = ["a", "b", "c"]
    before = stored(failure("a", 1), failure("c", 1))

    added = with_pause(before, "b", approval("b"), steps)
    assert [pause.step for pause in parse_pauses(added)] == ["a", "b", "c"]
    assert with_pause(added, "b", None, steps) == before
    assert with_pause(before, "b", None, steps) == before
