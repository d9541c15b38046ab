"""One container asks the client a question, and another receives the answer: the deployed state key makes that
possible.
"""

from typing import Any

from mcp_types import CallToolResult, ElicitResult, InputRequiredResult

from tests.deployed.containers import containers_of
from tests.deployed.conversation import Talk, talked
from tests.deployed.deployment import Stack


def test_another_container_than_the_one_that_asked_can_receive_the_answer(probe: Stack) -> None:
    async def ask_and_answer(talk: Talk) -> tuple[str, Any]:
        session = talk.client.session
        asked = await session.call_tool("greet", {}, allow_input_required=True)
        assert isinstance(asked, InputRequiredResult)
        assert asked.input_requests is not None
        question: Any = asked.input_requests["name"]
        for container in containers_of(probe):
            container.kill()
        answers = {"name": ElicitResult(action="accept", content={"name": "Kim"})}
        answered = await session.call_tool(
            "greet", {}, input_responses=answers, request_state=asked.request_state, allow_input_required=True
        )
        assert isinstance(answered, CallToolResult), answered
        return question.params.message, answered.structured_content

    message, answer = talked(probe, ask_and_answer, "2026")
    assert answer["name"] == "Kim"
    assert message.startswith("Who calls ")
    assert answer["container"] not in message
