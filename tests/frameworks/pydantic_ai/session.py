"""Sessions of Pydantic AI, with the models of three providers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset

from tests.frameworks.session import Ask, run


def model_of(variant: str, api: str) -> Any:
    if variant == "gemini":
        from pydantic_ai.models.google import GoogleModel
        from pydantic_ai.providers.google import GoogleProvider

        return GoogleModel("gemini-2.5-flash", provider=GoogleProvider(api_key="none", base_url=api))
    if variant == "anthropic":
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        return AnthropicModel("claude-sonnet-4-5", provider=AnthropicProvider(api_key="none", base_url=api))
    from pydantic_ai.models.openai import OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    return OpenAIResponsesModel("gpt-5", provider=OpenAIProvider(base_url=f"{api}/v1", api_key="none"))


async def strictly(_: object, definitions: list[Any]) -> list[Any]:
    """Send the tools in OpenAI's strict mode."""
    return [replace(definition, strict=True) for definition in definitions]


@asynccontextmanager
async def connected(url: str, headers: dict[str, str], api: str, variant: str) -> AsyncIterator[Ask]:
    toolset: Any = MCPToolset(url, headers=headers)
    if variant == "strict":
        toolset = toolset.prepared(strictly)
    agent = Agent(model_of(variant, api), toolsets=[toolset])
    async with agent:

        async def ask(prompt: str) -> str:
            return str((await agent.run(prompt)).output)

        yield ask


run(connected)
