"""Models that see only tools and texts finish every workflow, with the minimum number of calls (docs/hosts.md)."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest

import sales
import shop
from mcp_baton import ToolError
from mcp_baton.testing import Connect
from mcp_baton.testing.client import Client
from mcp_baton.testing.mcp_client import Era
from tests.hosts.host import Host, Show, everything, first_block_of_errors, structure_only, text_only
from tests.hosts.model import Model, prose
from tests.hosts.phrases import Call, read
from tests.hosts.scenarios import DOWN, SCENARIOS, Scenario, approve, supervisor
from tests.hosts.servers import Shop, refund, without

BEGIN = Call("refund_order", {"order_id": "A-17"})


@dataclass(frozen=True)
class Variant:
    """How the host shows results to a model, and how it talks to the server."""

    show: Show
    era: Era = "2026"
    streams: bool = False

    def __str__(self) -> str:
        return f"{self.show.__name__}-{self.era}-{'stream' if self.streams else 'json'}"


PLAIN_VARIANTS = [Variant(show) for show in (text_only, structure_only)]
"""Each scenario is finished in each of these ways, and in two of the others."""
OTHER_VARIANTS = [
    Variant(everything),
    Variant(text_only, "2025"),
    Variant(structure_only, "2025"),
    Variant(first_block_of_errors),
    Variant(text_only, streams=True),
    Variant(structure_only, "2025", streams=True),
]
CASES = [
    pytest.param(scenario, variant, id=f"{scenario}-{variant}")
    for number, scenario in enumerate(SCENARIOS)
    for variant in (*PLAIN_VARIANTS, OTHER_VARIANTS[2 * number % 6], OTHER_VARIANTS[(2 * number + 1) % 6])
]


@pytest.fixture(autouse=True)
def quick_warehouse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the sample's warehouse answer at once."""
    monkeypatch.setattr(sales, "PAGE_SECONDS", 0)


@dataclass
class PreparedHost(Host):
    """A host with functions to run before certain calls."""

    scenario: Scenario | None = None

    def call(self, call: Call) -> str:
        prepare = self.scenario.setup.get(len(self.calls) + 1) if self.scenario else None
        if prepare:
            prepare(self.client)
        return super().call(call)


def model_of(client: Client, variant: Variant, scenario: Scenario) -> Model:
    decisions = iter(scenario.decisions)
    host = PreparedHost(client, variant.show, variant.streams, scenario=scenario)
    return Model(host, scenario.answers, client.clock.advance, lambda: next(decisions)(client))


def situation(name: str, **options: Any) -> Scenario:
    """Return a scenario for a server that the test builds itself."""
    return Scenario(name, Shop.server, 0, **options)


def only_task(client: Client) -> str:
    [task] = client.tasks()
    return task.task_id


def task_in(text: str) -> str:
    continue_call = read(text).continue_call
    assert continue_call is not None, text
    return str(continue_call.arguments["task_id"])


def assert_completed(client: Client, skipped: tuple[str, ...] = ()) -> None:
    """Check that there is one task, and that each of its steps is completed, except for the skipped ones."""
    task = client.task(only_task(client))
    assert task.status == "completed"
    assert task.steps == {name: "skipped" if name in skipped else "completed" for name in task.steps}


@pytest.mark.parametrize(("scenario", "variant"), CASES)
def test_a_model_finishes_every_workflow_with_the_fewest_calls_and_without_large_values(
    baton: Connect, scenario: Scenario, variant: Variant
) -> None:
    shop = Shop([ToolError(error) if isinstance(error, str) else error for error in scenario.errors])
    client = baton(scenario.build(shop), era=variant.era)
    model = model_of(client, variant, scenario)
    model.finish(Call(scenario.workflow, dict(scenario.arguments)))
    if variant.show is first_block_of_errors:
        # If a call fails, such a host shows only the error, so the model lets the server continue.
        assert len(model.host.calls) <= scenario.min_calls, model.story("took more calls")
    else:
        assert len(model.host.calls) == scenario.min_calls, model.story("took another number of calls")
    assert_completed(client, scenario.skipped)
    assert len(shop.payments) == scenario.payments
    assert scenario.variables.items() <= client.task(only_task(client)).variables.items()
    assert all(len(text) < 8_000 for text in model.host.texts)
    assert not any("Nothing was run" in text for text in model.host.texts), model.story("was refused a suggestion")


@pytest.mark.parametrize("variant", [*PLAIN_VARIANTS, *OTHER_VARIANTS], ids=str)
def test_a_model_ends_a_task_after_a_person_denies_its_call(baton: Connect, variant: Variant) -> None:
    def deny(client: Client) -> None:
        supervisor(client).deny(supervisor(client).approvals()[0]["approvalId"], reason="It was never paid")

    client = baton(shop.server, era=variant.era)
    model = model_of(client, variant, situation("denied", decisions=(deny,)))
    model.finish(BEGIN)

    assert [call.arguments.get("task_action") for call in model.host.calls] == [None, None, "cancel"]
    assert "It was never paid" in model.host.texts[1]
    assert client.task(only_task(client)).status == "cancelled"


@pytest.mark.parametrize("variant", PLAIN_VARIANTS, ids=str)
def test_an_approval_does_not_cover_an_amount_that_the_model_has_changed(baton: Connect, variant: Variant) -> None:
    client = baton(shop.server, era=variant.era)
    model = model_of(client, variant, situation("changed", decisions=(approve, approve)))
    task = task_in(prose(next(model.steps(BEGIN))))
    first_id = supervisor(client).approvals()[0]["approvalId"]
    supervisor(client).approve(first_id)
    model.finish(Call("refund_order", {"task_id": task, "amount": 200}))

    [approval] = [approval for approval in supervisor(client).approvals("approved") if "usedAt" in approval]
    assert (approval["arguments"]["amount"], approval["approvalId"] == first_id) == (200.0, False)
    assert_completed(client)


@pytest.mark.parametrize("variant", PLAIN_VARIANTS, ids=str)
def test_a_model_continues_its_task_after_the_function_is_killed(baton: Connect, variant: Variant) -> None:
    """The killed call may have paid without recording it. The step's idempotency key ensures that it is paid once."""
    shop = Shop([ToolError(DOWN)])
    client = baton(shop.server(refund(retryable=True)), era=variant.era)
    scenario = situation("killed", setup={2: lambda connection: connection.killed_after("refund")})
    model = model_of(client, variant, scenario)
    model.finish(BEGIN)
    # The killed run owns the task until its claim expires, so the model calls once too early.
    assert len(model.host.calls) == 4, model.story("took another number of calls")
    assert_completed(client)
    assert len(shop.payments) == 1


@pytest.mark.parametrize("variant", PLAIN_VARIANTS, ids=str)
def test_a_model_finishes_a_workflow_that_a_person_started_as_a_prompt(baton: Connect, variant: Variant) -> None:
    client = baton(Shop().server(without("approved_by"), task_ids="text"), era=variant.era)
    model = model_of(client, variant, situation("picked", answers={"approved_by": "Ada"}))
    model.follow(client.get_prompt("refund_order", {"order_id": "A-17"}).handoff)
    assert len(model.host.calls) == 2, model.story("took another number of calls")
    assert_completed(client)


def test_a_workflow_without_a_tool_is_finished_with_its_prompt(baton: Connect) -> None:
    client = baton(Shop().server(without("approved_by"), tool=False, task_ids="text"))
    model = model_of(client, Variant(text_only), situation("picked", answers={"approved_by": "Ada"}))
    prompt = client.get_prompt("refund_order", {"order_id": "A-17"})
    assert "Or get the prompt refund_order with" in prompt.handoff
    model.follow(prompt.handoff)
    assert [call.tool for call in model.host.calls] == ["refund", "send_mail"]
    result = client.get_prompt("refund_order", {"task_id": prompt.task_id})
    assert result.completed
    assert_completed(client)


def test_two_models_with_one_task_both_see_it_completed_in_any_order(baton: Connect) -> None:
    """A call after the other model's last one is still made. It has the same idempotency key as the call that paid."""
    shop = Shop()
    client = baton(shop.server(without("approved_by")))
    scenario = situation("two", answers={"approved_by": "Ada"})
    for order in product("AB", repeat=4):
        shop.payments.clear()
        first = model_of(client, Variant(text_only), scenario)
        second = model_of(client, Variant(structure_only), scenario)
        turns: dict[str, Iterator[str]] = {"A": first.steps(BEGIN)}
        task_id = task_in(next(turns["A"]))
        turns["B"] = second.steps(Call("refund_order", {"task_id": task_id}))
        for name in [*order, *"AB" * 12]:
            next(turns[name], None)
        story = f"{order}\n{first.story('was the first')}\n\n{second.story('was the second')}"
        task = client.task(task_id)
        assert (task.status, set(task.steps.values())) == ("completed", {"completed"}), story
        assert len(shop.payments) == 1, story
        assert len(first.host.calls) + len(second.host.calls) <= 9, story
