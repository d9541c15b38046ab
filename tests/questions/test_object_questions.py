"""Questions to the user whose answers are objects: each is a form, as `ctx.elicit` of the same type is
(docs/workflows.md, Questions)."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

import pytest

from mcp_baton import Context, Server, ask_user, step
from mcp_baton.protocol.json import Json
from mcp_baton.testing import Unanswered, connect


class Level(IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Address:
    street: str
    level: Level = Level.LOW


def shop(*, background: bool) -> Server:
    server = Server("shop")

    @server.tool
    def send(sender: Address, receiver: Address, level: Level) -> str:
        return f"{sender.street} {sender.level.name}, {receiver.street} {receiver.level.name}, {level.name}"

    @server.tool
    def elicit_address(ctx: Context) -> str:
        return repr(ctx.elicit("From where?", Address).data)

    @server.workflow(background=background)
    def ship() -> None:
        sender = ask_user("sender", "From where?", returns=Address)
        level = ask_user("level", "How fast?", returns=Level)
        receiver = ask_user("receiver", "To where?", returns=Address)
        step(send)(sender=sender, receiver=receiver, level=level)

    return server


ANSWERS: dict[str, Json] = {
    "From where?": {"street": "A", "level": "2"},
    "How fast?": {"level": "2"},
    "To where?": {"street": "B"},
}


def test_a_user_fills_in_one_form_for_each_object(era: Literal["2025", "2026"]) -> None:
    with connect(shop(background=False), era=era) as client:
        client.answers(ANSWERS)
        run = client.call_workflow("ship", {})
        assert (run.completed, run.steps["send"]) == (True, "completed"), run.text
        assert "A HIGH, B LOW, HIGH" in run.text


def test_a_background_workflow_asks_for_objects_by_forms(era: Literal["2025", "2026"]) -> None:
    with connect(shop(background=True), era=era) as client:
        client.answers(ANSWERS)
        assert "A HIGH, B LOW, HIGH" in str(client.start_task("ship", {}).wait())


def test_a_form_of_an_object_without_an_answer_is_declined(era: Literal["2025", "2026"]) -> None:
    with connect(shop(background=False), era=era) as client:
        run = client.call_workflow("ship", {})
        assert (run.pause.type, run.pause.step) == ("answersRequired", "sender")
        run = run.answer(sender={"street": "A"}, level=1, receiver={"street": "B", "level": 2})
        assert "A LOW, B HIGH, LOW" in run.text

        client.answers({"sendr": {"street": "A"}})
        with pytest.raises(Unanswered, match="the answers 'sendr' do not answer 'sender'"):
            client.call_workflow("ship", {})


def test_a_form_of_a_question_has_the_fields_of_the_form_of_a_tool() -> None:
    with connect(shop(background=True)) as client:
        client.answers({"From where?": {"street": "A"}})
        assert client.call_tool("elicit_address").text == "Address(street='A', level=<Level.LOW: 1>)"
