"""Sessions of LangChain, with the models of three providers."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import ModelRequest, wrap_model_call
from langchain_mcp_adapters.client import MultiServerMCPClient

from tests.frameworks.session import Ask, run


@wrap_model_call
async def strictly(request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[Any]]) -> Any:
    """Send the tools in OpenAI's strict mode."""
    return await handler(request.override(model_settings={"strict": True}))


def model_of(variant: str, api: str) -> Any:
    if variant == "gemini":
        from langchain_google_genai import ChatGoogleGenerativeAI

        return ChatGoogleGenerativeAI(model="gemini-2.5-flash", base_url=api, api_key="none")
    if variant == "anthropic":
        from langchain_anthropic import ChatAnthropic

        return ChatAnthropic(model="claude-sonnet-4-5", base_url=api, api_key="none")
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model="gpt-5", base_url=f"{api}/v1", api_key="none")


@asynccontextmanager
async def connected(url: str, headers: dict[str, str], api: str, variant: str) -> AsyncIterator[Ask]:
    client = MultiServerMCPClient({"shop": {"transport": "http", "url": url, "headers": headers}})
    tools = await client.get_tools()
    agent = create_agent(model_of(variant, api), tools, middleware=[strictly] if variant == "strict" else [])

    async def ask(prompt: str) -> str:
        result = await agent.ainvoke({"messages": prompt}, {"recursion_limit": 60})
        return str(result["messages"][-1].text)

    yield ask


run(connected)
