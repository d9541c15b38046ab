"""A question to the client, asked by one container and answered to another: what the deployed state key is for."""

import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_types import CallToolResult, ElicitResult, InputRequiredResult

from tests.deployed.containers import containers_of
from tests.deployed.conversation import talking
from tests.deployed.deployment import Stack, Twin

ASKING = Path(__file__).with_name("asking.py")


@pytest.fixture(scope="module")
def asking(twin: Twin, build: Path, tmp_path_factory: pytest.TempPathFactory) -> Stack:
    """The template, with a function that asks."""
    changed = tmp_path_factory.mktemp("asking") / "build"
    # What the build compiled would be run in the place of a source that changed since.
    shutil.copytree(build, changed, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ASKING, changed / "McpFunction" / "app.py")
    return twin.deploy(changed, "asking")


def test_another_container_takes_the_answer_to_a_containers_question(asking: Stack) -> None:
    async def ask_and_answer() -> tuple[str, Any]:
        async with talking(asking.endpoint, asking.caller(x_api_key=asking.api_key), "2026") as talk:
            session = talk.client.session
            asked = await session.call_tool("greet", {}, allow_input_required=True)
            assert isinstance(asked, InputRequiredResult)
            assert asked.input_requests is not None
            question: Any = asked.input_requests["name"]
            for container in containers_of(asking):
                container.kill()
            answers = {"name": ElicitResult(action="accept", content={"name": "Kim"})}
            answered = await session.call_tool(
                "greet", {}, input_responses=answers, request_state=asked.request_state, allow_input_required=True
            )
            assert isinstance(answered, CallToolResult), answered
            return question.params.message, answered.structured_content

    message, answer = anyio.run(ask_and_answer)
    assert answer["name"] == "Kim"
    assert message.startswith("Who calls ")
    assert answer["container"] not in message


def test_the_client_answers_of_itself(asking: Stack) -> None:
    async def greeted() -> Any:
        async with talking(asking.endpoint, asking.caller(x_api_key=asking.api_key), "2026", answer="Ada") as talk:
            return await talk.call("greet", {})

    value, _ = anyio.run(greeted)
    assert value["name"] == "Ada"


def test_what_signs_the_state_is_the_stacks_secret_and_every_container_has_it(asking: Stack) -> None:
    [secret] = asking.resources("AWS::SecretsManager::Secret").values()
    key = asking.twin.client("secretsmanager").get_secret_value(SecretId=secret)["SecretString"]
    assert len(key) == 64
    aws_lambda = asking.twin.client("lambda")
    name = asking.outputs["FunctionName"]
    deployed = aws_lambda.get_function_configuration(FunctionName=name, Qualifier="live")["Environment"]["Variables"]
    assert deployed["BATON_STATE_KEY"] == key
