"""Sessions of CrewAI."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true", "CREWAI_TRACING_ENABLED": "false"}

from crewai import LLM, Agent
from crewai_tools import MCPServerAdapter

from tests.frameworks.session import Ask, run


@asynccontextmanager
async def connected(url: str, headers: dict[str, str], api: str, variant: str) -> AsyncIterator[Ask]:
    model = LLM(model="openai/gpt-4.1", base_url=f"{api}/v1", api_key="none")
    with MCPServerAdapter({"url": url, "transport": "streamable-http", "headers": headers}) as tools:

        async def ask(prompt: str) -> str:
            agent = Agent(role="clerk", goal="serve", backstory="A clerk.", tools=list(tools), llm=model)
            return str(await asyncio.to_thread(agent.kickoff, prompt))

        yield ask


run(connected)
