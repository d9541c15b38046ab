"""Sign in with the official Python client, call, refresh, and sign out.

    python -m tests.clients.python_sign_in URL CLIENT_ID REDIRECT LATER

`LATER` is an address that makes it two hours later. Prints the report as JSON.
"""

import asyncio
import json
import sys
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

HOURS_S = 7200


class Memory:
    """Keeps the tokens of one process."""

    def __init__(self) -> None:
        self.tokens: Any = None
        self.client: Any = None

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client_info: Any) -> None:
        self.client = client_info


async def sign_in(url: str, client_id: str, redirect: str, later: str) -> dict[str, Any]:
    """Run the session."""
    memory, answers, report = Memory(), list[dict[str, list[str]]](), dict[str, Any]()
    async with httpx2.AsyncClient() as browser:

        async def visit(address: str) -> None:
            response = await browser.get(address)
            assert response.status_code == 302, response.text
            assert response.headers["location"].startswith(f"{redirect}?")
            answers.append(parse_qs(urlsplit(response.headers["location"]).query))

        async def callback() -> AuthorizationCodeResult:
            answer = answers[-1]
            return AuthorizationCodeResult(code=answer["code"][0], state=answer["state"][0])

        provider = OAuthClientProvider(
            url,
            OAuthClientMetadata(redirect_uris=[redirect], token_endpoint_auth_method="none"),
            memory,
            visit,
            callback,
            client_metadata_url=client_id,
        )
        async with (
            httpx2.AsyncClient(auth=provider, timeout=60) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            report["call"] = (await client.call_tool("fetch_order", {"order_id": "A-17"})).structured_content
            await browser.post(later)
            # The SDK refreshes by its own clock.
            provider.context.token_expiry_time -= HOURS_S
            report["after"] = (await client.call_tool("fetch_order", {"order_id": "A-17"})).structured_content
        metadata = provider.context.oauth_metadata
        form = {"client_id": memory.client.client_id, "token": memory.tokens.refresh_token}
        await browser.post(str(metadata.revocation_endpoint), data=form)
        form = {"client_id": form["client_id"], "refresh_token": form["token"], "grant_type": "refresh_token"}
        report["revoked"] = (await browser.post(str(metadata.token_endpoint), data=form)).json()
    return report


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(sign_in(*sys.argv[1:]))))
