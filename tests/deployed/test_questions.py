"""A question to the client, asked by one container and answered to another: what the deployed state key is for."""

from typing import Any

from mcp_types import CallToolResult, ElicitResult, InputRequiredResult

from tests.deployed.containers import containers_of
from tests.deployed.conversation import Talk, talked
from tests.deployed.deployment import Stack


def test_another_container_takes_the_answer_to_a_containers_question(probe: Stack) -> None:
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


def test_the_client_answers_of_itself(probe: Stack) -> None:
    async def greeted(talk: Talk) -> Any:
        return await talk.call("greet", {})

    value, _ = talked(probe, greeted, "2026", answer="Ada")
    assert value["name"] == "Ada"


def test_what_signs_the_state_is_the_stacks_secret_and_is_not_in_the_functions_environment(probe: Stack) -> None:
    secrets = probe.twin.client("secretsmanager")
    [secret] = probe.resources("AWS::SecretsManager::Secret").values()
    key = secrets.get_secret_value(SecretId=secret)["SecretString"]
    assert len(key) == 64
    aws_lambda = probe.twin.client("lambda")
    name = probe.outputs["FunctionName"]
    deployed = aws_lambda.get_function_configuration(FunctionName=name, Qualifier="live")["Environment"]["Variables"]
    assert secrets.get_secret_value(SecretId=deployed["BATON_STATE_KEY_SECRET"])["SecretString"] == key
    assert key not in deployed.values()
