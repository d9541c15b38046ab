"""One container asks the client a question, and another receives the answer: the deployed state key makes that
possible.
"""

from typing import Any

from mcp_types import CallToolResult, ElicitResult, InputRequiredResult

from tests.deployed.containers import containers_of
from tests.deployed.conversation import Session, in_session
from tests.deployed.deployment import Stack


def test_another_container_than_the_one_that_asked_can_receive_the_answer(probe: Stack) -> None:
    async def ask_and_answer(session: Session) -> tuple[str, Any]:
        mcp_session = session.client.session
        input_request = await mcp_session.call_tool("greet", {}, allow_input_required=True)
        assert isinstance(input_request, InputRequiredResult)
        assert input_request.input_requests is not None
        question: Any = input_request.input_requests["name"]
        for container in containers_of(probe):
            container.kill()
        answers = {"name": ElicitResult(action="accept", content={"name": "Kim"})}
        result = await mcp_session.call_tool(
            "greet", {}, input_responses=answers, request_state=input_request.request_state, allow_input_required=True
        )
        assert isinstance(result, CallToolResult), result
        return question.params.message, result.structured_content

    message, answer = in_session(probe, ask_and_answer, "2026")
    assert answer["name"] == "Kim"
    assert message.startswith("Who calls ")
    assert answer["container"] not in message
