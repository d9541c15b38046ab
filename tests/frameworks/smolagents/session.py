"""Sessions of smolagents."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from smolagents import MCPClient, OpenAIModel, ToolCallingAgent

from tests.frameworks.session import Ask, run


@asynccontextmanager
async def connected(url: str, headers: dict[str, str], api: str, variant: str) -> AsyncIterator[Ask]:
    model = OpenAIModel("gpt-5", api_base=f"{api}/v1", api_key="none")
    server = {"url": url, "transport": "streamable-http", "headers": headers}
    with MCPClient(server, structured_output=variant == "structured") as tools:

        async def ask(prompt: str) -> str:
            agent = ToolCallingAgent(tools=tools, model=model, verbosity_level=0, max_steps=30)
            return str(await asyncio.to_thread(agent.run, prompt))

        yield ask


run(connected)
