"""`make demo`: two workflows over real HTTP. A person approves a step of the first; the model answers for the second.

It starts `baton serve examples/sample/app.py`: the Lambda handler behind HTTP, with tasks in an embedded DynamoDB. This
script is the client and the client's model, and checks every answer. The exit code is 1 if an answer is unexpected.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import httpx

from local_server import NotServing, serving
from mcp_client import REVISION, McpClient, McpError
from screen import Screen

SAMPLE = Path(__file__).parent / "sample" / "app.py"
OWNER_HEADER = "X-Demo-User"
USER, SUPERVISOR, STRANGER = "kim@example.com", "ada@example.com", "mallory@example.com"
APPROVERS = {"refunds": [SUPERVISOR]}
FORBIDDEN = 403
INVALID_PARAMS = -32602

type Json = dict[str, Any]


class NotAsExpected(Exception):
    """The server's answer was not expected."""


def expect(condition: bool, message: str) -> None:
    """Stop the demo unless the condition holds."""
    if not condition:
        raise NotAsExpected(message)


class Demo:
    """The two workflows, printed while they run."""

    def __init__(self, url: str, client: McpClient, stranger: McpClient, screen: Screen) -> None:
        self._approvals = f"{url.removesuffix('/mcp')}/approvals"
        self._client = client
        self._stranger = stranger
        self._screen = screen

    def introduce(self) -> None:
        """Do the handshake, and list the tools and prompts."""
        hello = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": {"name": "demo", "version": "1"}}
        server = self._client.request("initialize", hello)
        info = server["serverInfo"]
        self._screen.say(f"{info['title']} {info['version']}, MCP {server['protocolVersion']}")
        for kind in ("tools", "prompts"):
            entries = self._client.request(f"{kind}/list")[kind]
            expect(len(entries) > 0, f"the server lists no {kind}")
            self._screen.say(f"\n{kind}:")
            self._screen.listing((f"  {entry['name']}", entry["description"]) for entry in entries)

    def refund(self) -> None:
        """Run a refund above the policy's limit: it waits for a supervisor, and then continues where it stopped."""
        screen = self._screen
        screen.title("1 · A workflow prompt runs on the server until it cannot continue")
        prompt = self._request("prompts/get", {"name": "refund_order", "arguments": {"order_id": "A-17"}})
        screen.title("2 · The client's model reads this")
        *trace, handoff, _ = prompt["messages"]
        for message in trace:
            screen.message(message["role"], message["content"]["text"])
        pause, task_id = self._paused(prompt, "approvalRequired")
        screen.handoff(handoff["content"]["text"])
        screen.title("3 · A supervisor decides: through the approvals API, which no tool can reach")
        self._approve(pause["approvalId"])
        screen.title("4 · The model lets the server continue")
        result = self._request("tools/call", {"name": "refund_order", "arguments": {"task_id": task_id}})
        expect(not result.get("isError"), f"refund_order failed: {result['content']}")
        screen.say("")
        screen.steps(result["structuredContent"]["steps"])
        self._show_task(task_id)
        self._refuse_stranger(task_id)

    def report(self) -> None:
        """Run a pipeline that asks the model for a text: one call answers the question, and the server continues."""
        screen = self._screen
        screen.title("5 · A longer workflow: progress arrives while a step runs")
        prompt = self._request("prompts/get", {"name": "monthly_report", "arguments": {"month": "2026-09"}})
        pause, task_id = self._paused(prompt, "answersRequired")
        screen.handoff(prompt["messages"][-2]["content"]["text"])
        [question] = pause["questions"]
        screen.title("6 · The model answers the question, and the server does the rest")
        answers = {question["name"]: "September brought in EUR 11208.69. The moss guide sold best."}
        params = {"name": pause["suggestedTool"], "arguments": {"task_id": task_id, "answers": answers}}
        result = self._request("tools/call", params)
        expect(not result.get("isError"), f"{params['name']} failed: {result['content']}")
        screen.say("")
        screen.steps(result["structuredContent"]["steps"])
        self._show_task(task_id)

    def _request(self, method: str, params: Json) -> Json:
        """Send a request that must stream progress."""
        self._screen.request(method, params)
        stopwatch = self._screen.stopwatch()
        result = self._client.request(method, params, stopwatch.progress)
        expect(stopwatch.count > 0, "no progress was streamed")
        return result

    def _paused(self, prompt: Json, reason: str) -> tuple[Json, str]:
        """Return the pause reason and the task id of a prompt that must have paused."""
        meta = prompt.get("_meta", {})
        pause = meta.get("pause_reason", {})
        expect(pause.get("type") == reason, f"the workflow should have paused with {reason}, but _meta is {meta}")
        self._screen.say("")
        self._screen.steps(meta["steps"])
        self._screen.request("pause_reason", pause)
        self._screen.request("task_id", meta["task_id"])
        return pause, meta["task_id"]

    def _approve(self, approval_id: str) -> None:
        """Show that the requester cannot decide, then approve as the supervisor."""
        [approval] = httpx.get(self._approvals, headers={OWNER_HEADER: SUPERVISOR}).json()["approvals"]
        expect(approval["approvalId"] == approval_id, f"the supervisor sees another approval: {approval}")
        self._screen.request(f"{SUPERVISOR}: GET /approvals", approval)
        decision = {"decision": "approve", "digest": approval["digest"]}
        for person, status in ((USER, FORBIDDEN), (SUPERVISOR, 200)):
            answer = httpx.post(f"{self._approvals}/{approval_id}", json=decision, headers={OWNER_HEADER: person})
            expect(answer.status_code == status, f"{person} got {answer.status_code}: {answer.text}")
            reply = answer.json()
            self._screen.say(f"{person}: POST /approvals/… {status} {reply.get('error') or reply['state']}")

    def _show_task(self, task_id: str) -> None:
        """Show the task in DynamoDB, which must be completed."""
        task = self._client.request("tasks/get", {"taskId": task_id})
        variables = task["_meta"]
        steps = variables["_workflow.progress"]["steps"]
        self._screen.say(f"\ntasks/get: {task['status']}, task variables:", "bold")
        self._screen.variables(variables)
        expect(task["status"] == "completed", f"the task is {task['status']}")
        expect(all(step["status"] == "completed" for step in steps), f"not every step is completed: {steps}")
        expect("_workflow.pause_reason" not in variables, "the completed task still has a pause reason")
        result = self._client.request("tasks/result", {"taskId": task_id})["result"]
        self._screen.request("tasks/result", result)

    def _refuse_stranger(self, task_id: str) -> None:
        try:
            self._stranger.request("tasks/get", {"taskId": task_id})
        except McpError as error:
            expect(error.code == INVALID_PARAMS, f"another user was refused with {error}")
            self._screen.say(f"\n{STRANGER} asks for the same task: {error}", "dim")
        else:
            raise NotAsExpected("another user could read the task")


def main(target: Path) -> int:
    """Run the demo with this file's server. Return the exit code."""
    # Exit with an exception, so that the server is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    screen = Screen()
    try:
        os.environ["BATON_APPROVERS"] = json.dumps(APPROVERS)
        with serving(target, "--owner-header", OWNER_HEADER) as url:
            screen.say(f"`baton serve {target.name}` is listening on {url}", "bold")
            with McpClient(url, {OWNER_HEADER: USER}) as client, McpClient(url, {OWNER_HEADER: STRANGER}) as stranger:
                demo = Demo(url, client, stranger, screen)
                demo.introduce()
                demo.refund()
                demo.report()
    except (NotAsExpected, NotServing, McpError, httpx.HTTPError) as error:
        screen.say(f"\nThe demo failed: {error}", "bold red")
        return 1
    except KeyboardInterrupt:
        return 130
    screen.say("\nBoth workflows are complete. Read examples/sample/ to see their code.", "bold green")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else SAMPLE))
