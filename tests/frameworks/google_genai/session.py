"""Sessions of Google's GenAI SDK, which calls the tools of an MCP session by itself."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
from google import genai
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from tests.frameworks.session import Ask, run


@asynccontextmanager
async def connected(url: str, headers: dict[str, str], api: str, variant: str) -> AsyncIterator[Ask]:
    client = genai.Client(api_key="none", http_options={"base_url": api})
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        streamable_http_client(url, http_client=http) as (read, write, *_),
        ClientSession(read, write) as session,
    ):
        await session.initialize()

        async def ask(prompt: str) -> str:
            config = {"tools": [session], "automatic_function_calling": {"maximum_remote_calls": 30}}
            reply = await client.aio.models.generate_content(model="gemini-2.5-flash", contents=prompt, config=config)
            return str(reply.text)

        yield ask


run(connected)
