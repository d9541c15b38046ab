"""The sample's whole conversation with the deployed function, through the API's URL."""

import anyio
import pytest
from mcp import MCPError

from tests.deployed.conversation import talking, whole_conversation
from tests.deployed.deployment import Stack

INVALID_PARAMS = -32602


def test_the_official_client_holds_the_whole_conversation(stack: Stack, keys: tuple[str, str]) -> None:
    anyio.run(whole_conversation, stack.endpoint, {**stack.headers, "x-api-key": keys[0]})


def test_another_owner_cannot_tell_a_foreign_task_from_none(stack: Stack, keys: tuple[str, str]) -> None:
    mine, other = ({**stack.headers, "x-api-key": key} for key in keys)

    async def ask() -> list[tuple[int, str]]:
        task_id = await whole_conversation(stack.endpoint, mine)
        refusals = []
        async with talking(stack.endpoint, other) as talk:
            for asked in (task_id, task_id[:-1] + ("0" if task_id[-1] != "0" else "1")):
                with pytest.raises(MCPError) as caught:
                    await talk.task("get", asked)
                refusals.append((caught.value.error.code, caught.value.error.message))
        return refusals

    foreign, missing = anyio.run(ask)
    assert foreign == missing
    assert foreign[0] == INVALID_PARAMS
