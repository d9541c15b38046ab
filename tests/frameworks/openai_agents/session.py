"""Sessions of the OpenAI Agents SDK: its defaults, its strict mode, and `hurried`, with its timeout of 5 s. A call on a
busy machine can take longer than that."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agents import Agent, OpenAIResponsesModel, Runner, set_tracing_disabled
from agents.mcp import MCPServerStreamableHttp
from openai import AsyncOpenAI

from tests.frameworks.session import Ask, run


@asynccontextmanager
async def connected(url: str, headers: dict[str, str], api: str, variant: str) -> AsyncIterator[Ask]:
    set_tracing_disabled(True)
    model = OpenAIResponsesModel("gpt-5", AsyncOpenAI(base_url=f"{api}/v1", api_key="none"))
    timeout = {} if variant == "hurried" else {"client_session_timeout_seconds": 60}
    async with MCPServerStreamableHttp(params={"url": url, "headers": headers}, **timeout) as server:
        config = {"convert_schemas_to_strict": variant == "strict"}
        agent = Agent(name="clerk", model=model, mcp_servers=[server], mcp_config=config)

        async def ask(prompt: str) -> str:
            result = await Runner.run(agent, prompt, max_turns=30)
            return str(result.final_output)

        yield ask


run(connected)
