"""Sessions of LlamaIndex."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai_like import OpenAILike
from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

from tests.frameworks.session import Ask, run


@asynccontextmanager
async def connected(url: str, headers: dict[str, str], api: str, variant: str) -> AsyncIterator[Ask]:
    tools = await McpToolSpec(client=BasicMCPClient(url, headers=headers)).to_tool_list_async()
    llm = OpenAILike(
        model="gpt-5", api_base=f"{api}/v1", api_key="none", is_chat_model=True, is_function_calling_model=True
    )
    agent = FunctionAgent(tools=tools, llm=llm, streaming=False)

    async def ask(prompt: str) -> str:
        return str(await agent.run(prompt, max_iterations=60))

    yield ask


run(connected)
