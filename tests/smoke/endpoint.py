"""Checks of an endpoint, over HTTP."""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
from msgspec.structs import replace

from mcp_baton.cli.options import is_loopback
from mcp_baton.cli.remote.client import Receive, Remote
from mcp_baton.cli.remote.http import Access, HttpTransport, signer
from mcp_baton.cli.remote.printing import ProgressDisplay
from mcp_baton.cli.remote.questions import Terminal
from tests.smoke.report import Finding, failed, held, not_checked

TIMEOUT_S: Final = 30.0
STREAM_S: Final = 2.0
LIST: Final = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
REJECTED: Final = (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN)
CLAUDE: Final = ("https://claude.ai/oauth/mcp-oauth-client-metadata", "https://claude.ai/api/mcp/auth_callback")
BAD_SIGNATURE: Final = (
    "AWS4-HMAC-SHA256 Credential=WRONG/20260101/us-east-1/execute-api/aws4_request, SignedHeaders=host, Signature=00"
)


class Declining(Terminal):
    """Declines the server's questions, and counts them."""

    def __init__(self) -> None:
        super().__init__(interactive=False)
        self.questions = 0

    def answer(self, question: Mapping[str, Any]) -> dict[str, Any]:
        self.questions += 1
        return super().answer(question)


class Endpoint:
    """A deployed server, and the tasks that these checks have started there."""

    def __init__(self, access: Access, workflow: str, arguments: Mapping[str, str]) -> None:
        self.access = access
        self.is_here = is_loopback(httpx.URL(access.url).host)
        self.task_ids: list[str] = []
        self._workflow = workflow
        self._arguments = arguments
        self._transport = HttpTransport(access)
        self._terminal = Declining()
        self._remote = Remote(self._transport.send, self._terminal, ProgressDisplay(shown=False), lambda _seconds: None)

    def close(self) -> None:
        self._transport.close()

    def answers(self) -> Iterator[Finding]:
        """Check that the endpoint is an MCP server and accepts the caller."""
        discovery = self._remote.result("server/discover")
        yield held(f"{self.access.url} speaks MCP {', '.join(discovery['supportedVersions'])}")

    def refuses_others(self) -> Iterator[Finding]:
        """Check that callers with missing or wrong credentials are rejected."""
        caller = self.access
        if not (caller.api_key or caller.token or caller.aws):
            yield not_checked("you gave no credentials (KEY, TOKEN or --aws), so there are none that could be missing")
            return
        bare = replace(caller, api_key=None, token=None, aws=False)
        callers = {"without credentials": bare}
        if caller.api_key:
            callers["with a wrong key"] = replace(bare, api_key="wrong")
        if caller.token:
            callers["with a wrong token"] = replace(bare, token="wrong")
            callers["with a token whose signature is wrong"] = replace(bare, token=_forged(caller.token))
        if caller.aws:
            callers["with a wrong signature"] = replace(bare, headers={**bare.headers, "Authorization": BAD_SIGNATURE})
        for name, access in callers.items():
            with http_client(access) as client:
                status = client.post(caller.url, json=LIST).status_code
            if status in REJECTED:
                yield held(f"a caller {name} gets {status}")
            elif self.is_here:
                yield not_checked(
                    f"a caller {name} gets {status}: the server is on this machine and accepts every caller"
                )
            else:
                yield failed(f"a caller {name} gets {status}")

    def leads_to_sign_in(self, client: tuple[str, str] = CLAUDE) -> Iterator[Finding]:
        """Follow a rejected call to the authorization server, as a client does that knows only the URL."""
        with httpx.Client(timeout=TIMEOUT_S) as http:
            rejection = http.post(self.access.url, json=LIST, headers=self.access.headers)
            address = re.search(r'resource_metadata="([^"]+)"', rejection.headers.get("WWW-Authenticate", ""))
            if address is None:
                yield not_checked(f"the {rejection.status_code} of a call without credentials names no metadata")
                return
            resource = http.get(address[1]).json()
            if resource["resource"] != self.access.url:
                yield failed(
                    f"{address[1]} is about {resource['resource']}: set PublicUrl to the URL that clients call"
                )
                return
            issuer = resource["authorization_servers"][0]
            replies = {place: http.get(place) for place in discovery_urls(issuer)}
            server = next((reply.json() for reply in replies.values() if reply.status_code == httpx.codes.OK), None)
            if server is None or server["issuer"] != issuer:
                yield failed(f"none of {', '.join(replies)} has the metadata of {issuer}")
                return
            yield held(f"a call without credentials leads to {issuer}")
            if not server.get("client_id_metadata_document_supported"):
                yield not_checked(f"{issuer} does not accept URLs as client ids: hosts need a registered one")
                return
            client_id, redirect = client
            query = {
                "response_type": "code",
                "client_id": client_id,
                "redirect_uri": redirect,
                "scope": " ".join(resource.get("scopes_supported", [])),
                "state": "smoke",
                "code_challenge": "x" * 43,
                "code_challenge_method": "S256",
                "resource": resource["resource"],
            }
            page = http.get(server["authorization_endpoint"], params=query)
            location = page.headers.get("Location", "")
        if page.has_redirect_location and "error" not in location:
            yield held(f"{client_id} may ask the user to sign in")
        else:
            yield failed(
                f"{client_id} may not ask the user to sign in: {page.status_code} {location or page.text[:200]}"
            )

    def stores_tasks(self) -> Iterator[Finding]:
        """Check that a run is stored, and that another request can read it."""
        run = self._remote.run(self._workflow, self._arguments)
        if run.task is None:
            yield failed(f"{self._workflow!r} has run without a task: it is not a workflow, or there is no table")
            return
        self.task_ids.append(run.task.task_id)
        if run.persisted is not True:
            yield failed(f"the run was not stored: {run.persisted}")
            return
        task = self._remote.task(run.task.task_id)
        yield held(f"{self._workflow} is {task.status} with {len(task.steps)} steps, read by another request")
        if self._terminal.questions:
            yield held("a question carried the request's state, which the server signed and accepted again")
        else:
            yield not_checked(f"{self._workflow} asks no question, so no state was signed")

    def streams(self) -> Iterator[Finding]:
        """Check that the client receives the start of a response before the response is complete.

        The check subscribes to a task, and cancels the task when the first message has arrived. The response is
        streamed if it reports the cancellation, or lasts for a while.
        """
        if not self.task_ids or self._remote.task(self.task_ids[-1]).ended:
            yield not_checked(f"{self._workflow} left no paused task to listen to: name another workflow")
            return
        changes, times = list[str](), list[float]()

        def on_message(message: dict[str, Any]) -> None:
            if not times:
                self._remote.end_task(self.task_ids[-1])
            if message.get("method") == "notifications/tasks":
                changes.append(message["params"]["status"])
            times.append(time.monotonic())

        self._listen(self.task_ids[-1], on_message)
        if "cancelled" in changes or times[-1] - times[0] > STREAM_S:
            yield held("the first message was read while the answer was still being made")
        elif self.is_here:
            yield not_checked("the answer came whole: emulators of AWS on this machine do not stream")
        else:
            yield failed("the answer came whole: a proxy holds it back, or the function does not stream")

    def _listen(self, task_id: str, on_message: Callable[[dict[str, Any]], None]) -> None:
        transport = HttpTransport(self.access)

        def send(message: Mapping[str, Any], headers: Mapping[str, str], take: Receive) -> int:
            def take_and_report(reply: dict[str, Any]) -> bool:
                on_message(reply)
                return take(reply)

            return transport.send(message, headers, take_and_report)

        with closing(transport):
            remote = Remote(send, self._terminal, ProgressDisplay(shown=False), lambda _seconds: None)
            remote.result("subscriptions/listen", {"notifications": {"taskIds": [task_id]}})

    def end_tasks(self) -> Iterator[Finding]:
        """Cancel the tasks that these checks have started, unless they have ended."""
        for task_id in self.task_ids:
            if not self._remote.task(task_id).ended:
                self._remote.end_task(task_id)
            state = self._remote.task(task_id)
            yield (held if state.ended else failed)(f"the task {task_id} of these checks is {state.status}")


def discovery_urls(issuer: str) -> list[str]:
    """Return where clients look for an issuer's metadata (RFC 8414, section 3.1, and MCP's authorization section)."""
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    names = ("oauth-authorization-server", "openid-configuration")
    urls = [f"{origin}/.well-known/{name}{path}" for name in names]
    return [*urls, f"{origin}{path}/.well-known/openid-configuration"] if path else urls


def http_client(access: Access) -> httpx.Client:
    """Return an HTTP client for requests whose status is checked."""
    headers = {**access.headers, "Accept": "application/json, text/event-stream"}
    if access.api_key:
        headers["x-api-key"] = access.api_key
    if access.token:
        headers["Authorization"] = f"Bearer {access.token}"
    return httpx.Client(auth=signer(access) if access.aws else None, headers=headers, timeout=TIMEOUT_S)


def _forged(token: str) -> str:
    """Return the token with another signature of the same length."""
    head, dot, signature = token.rpartition(".")
    middle = len(signature) // 2
    character = "A" if signature[middle : middle + 1] != "A" else "B"
    return f"{head}{dot}{signature[:middle]}{character}{signature[middle + 1 :]}"
