"""Sessions of Semantic Kernel."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from openai import AsyncOpenAI
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.connectors.mcp import MCPStreamableHttpPlugin

from tests.frameworks.session import Ask, run


@asynccontextmanager
async def connected(url: str, headers: dict[str, str], api: str, variant: str) -> AsyncIterator[Ask]:
    service = OpenAIChatCompletion("gpt-5", async_client=AsyncOpenAI(base_url=f"{api}/v1", api_key="none"))
    async with MCPStreamableHttpPlugin(name="shop", url=url, headers=headers, load_prompts=False) as plugin:
        agent = ChatCompletionAgent(service=service, name="clerk", plugins=[plugin])

        async def ask(prompt: str) -> str:
            return str((await agent.get_response(messages=prompt)).message.content)

        yield ask


run(connected)
