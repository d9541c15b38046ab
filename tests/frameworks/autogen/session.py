"""Sessions of AutoGen."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import OpenAIChatCompletionClient
from autogen_ext.tools.mcp import McpWorkbench, StreamableHttpServerParams

from tests.frameworks.session import Ask, run


@asynccontextmanager
async def connected(url: str, headers: dict[str, str], api: str, variant: str) -> AsyncIterator[Ask]:
    client = OpenAIChatCompletionClient(model="gpt-4.1", base_url=f"{api}/v1", api_key="none")
    async with McpWorkbench(StreamableHttpServerParams(url=url, headers=headers)) as workbench:

        async def ask(prompt: str) -> str:
            agent = AssistantAgent("clerk", client, workbench=workbench, max_tool_iterations=30)
            return str((await agent.run(task=prompt)).messages[-1].to_text())

        yield ask


run(connected)
