"""Request states signed with a secret from AWS Secrets Manager, through the handler."""

import time
from collections.abc import Callable
from unittest.mock import patch

import pytest

from mcp_baton import ToolStep, Workflow
from tests.questions.test_asked_by_tools import ACCEPTED
from tests.questions.test_rounds import Talk, asking_server, questions_and_state, talk, text_of
from tests.questions.test_task_questions import asking_server as task_server
from tests.questions.test_task_questions import begin, waiting_task
from tests.support.background import MakeBackground
from tests.support.client import Client
from tests.support.handler import MakeClient
from tests.vault import Vault, new_vault

FIRST, SECOND, THIRD = "1" * 32, "2" * 32, "3" * 32

type Process = Callable[..., Client]
"""Starts a new process and returns its client. The processes share only the secret."""


@pytest.fixture
def vault() -> Vault:
    return new_vault(FIRST)


@pytest.fixture
def process(make_client: MakeClient, vault: Vault) -> Process:
    def start(clock: Callable[[], float] = time.monotonic) -> Client:
        with patch("mcp_baton.aws.secrets_client", return_value=vault.client):
            return make_client(asking_server(), era="2026", state_key_secret=vault.arn, clock=clock)

    return start


def call_who(client: Client) -> Talk:
    return talk(client, name="who", arguments={})


def test_another_process_accepts_the_state_after_one_rotation_and_refuses_it_after_two(
    process: Process, vault: Vault, caplog: pytest.LogCaptureFixture
) -> None:
    _, state = questions_and_state(call_who(process()).round())
    assert text_of(call_who(process()).round(state, {"name": ACCEPTED})) == "Hello Kim"
    # With a secret, no key is generated, so the warning about that is not logged.
    assert "BATON_STATE_KEY" not in caplog.text

    vault.put(SECOND)
    assert text_of(call_who(process()).round(state, {"name": ACCEPTED})) == "Hello Kim"

    vault.put(THIRD)
    assert call_who(process()).round(state, {"name": ACCEPTED}).refusal == (400, -32602)


def test_the_worker_needs_no_key(background: MakeBackground, vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_baton.aws.secrets_client", lambda: vault.client)
    server = task_server([])
    steps = [ToolStep("one", tool="able"), ToolStep("two", tool="one")]
    server.add_workflow(Workflow(name="flow", description="ask", steps=steps, background=True))
    jobs = background(server, state_key_secret=vault.arn)

    with vault.hushed():
        task = waiting_task(jobs, "one")
        jobs.client().task("update", task, inputResponses={"who": {"action": "accept", "content": {"name": "Kim"}}})
        assert jobs.work() == "completed"
        begin(jobs, "flow")
        # In the 2026 era a step cannot ask the client, so the workflow pauses.
        assert jobs.work() == "completed"
    assert vault.take() == []
