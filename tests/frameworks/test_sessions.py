"""Whole sessions of agent frameworks (docs/frameworks.md).

The model of each is scripted: it knows only the tools and the texts that its framework sends to the API of its
provider. `make test` holds the sessions of the quick frameworks, and `make test-frameworks` those of the others.
"""

import os
import re

import httpx
import pytest

from tests.frameworks.conftest import COMMON, FRAMEWORKS, OWNER_HEADER, Sessions, served_shop, sessions_of
from tests.frameworks.model_api import DONE
from tests.frameworks.scripted import TOGETHER
from tests.hosts.phrases import read

TOOLS = {"find_book", "lend", "borrow", "label", "send_reminder", "fulfil", "issue_refund", "refund_order"}
LOAN = "lend PS-3048 to Kim for 3 weeks for kim"
OPENAI_AGENTS = FRAMEWORKS[0]


@pytest.mark.parametrize("script", COMMON)
def test_the_session_ends_with_the_models_last_text(sessions: Sessions, script: str) -> None:
    assert sessions[script].end == DONE


def test_the_model_gets_every_tool(sessions: Sessions) -> None:
    for script in COMMON:
        assert set(sessions[script].tools) >= TOOLS


def test_the_model_sees_the_result_of_a_call(sessions: Sessions) -> None:
    [text] = sessions["plain"].texts
    assert "PS-3048" in text


def test_the_model_sees_why_a_call_has_failed(sessions: Sessions) -> None:
    [text] = sessions["failing"].texts
    assert "there is no 'Nope'; there is Walden" in text


def test_a_tool_that_returns_nothing_does_not_look_like_a_failure(sessions: Sessions) -> None:
    """This model repeats a call if its framework says that it has failed."""
    assert sessions["nothing"].effects == ["remind Kim for kim"]


def test_twenty_calls_at_once_all_get_results(sessions: Sessions) -> None:
    """LlamaIndex shows them in the order in which they arrive, and smolagents in one text."""
    found = [int(number) for text in sessions["together"].texts for number in set(re.findall(r"label (\d+)\.", text))]
    assert sorted(found) == list(range(TOGETHER))


@pytest.mark.parametrize("script", ["borrow", "restart"])
def test_a_paused_workflow_is_finished_by_what_models_see_even_after_a_restart(sessions: Sessions, script: str) -> None:
    pause, end = sessions[script].texts
    assert "Who borrows Walden?" in pause
    assert "Kim has PS-3048 for 3 weeks" in end
    assert sessions[script].effects == [LOAN]


@pytest.mark.parametrize(("script", "count"), [("refund", 2), ("monthly", 2), ("regional", 1)])
def test_the_workflows_of_the_sample_are_finished(sessions: Sessions, script: str, count: int) -> None:
    session = sessions[script]
    assert len(session.calls) == count
    assert any(read(line).done for line in re.split(r'[\n"]', session.texts[-1].replace("\\n", "\n")))


def test_calls_without_the_header_are_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    """So the sessions show that the frameworks send the header, and the effects name the owner in it."""
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    with served_shop(tmp_path_factory.mktemp("shop")) as shop:
        statuses = [
            httpx.post(shop.url, json=request, headers=headers).status_code for headers in ({}, {OWNER_HEADER: "kim"})
        ]
    assert statuses == [403, 200]


needs_openai_agents = pytest.mark.skipif("FRAMEWORKS" in os.environ, reason="`make test` runs this")


@needs_openai_agents
def test_a_workflow_longer_than_openai_agents_timeout_runs_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The framework gives up after 5 s, and its model tries again until the workflow is done, after 6 s."""
    session = sessions_of(OPENAI_AGENTS, tmp_path_factory, ["slow"], "hurried")["slow"]
    assert "An error occurred while running the tool" in session.texts[0]
    assert session.effects == ["charge A-1 for kim", "pack A-1 for kim", "ship A-1 for kim"]
    assert len(session.calls) > 1


@needs_openai_agents
def test_a_model_in_strict_mode_leaves_the_answers_to_its_user(tmp_path_factory: pytest.TempPathFactory) -> None:
    """It must write every parameter: null for the answers, and in the second call the values of the first."""
    sessions = sessions_of(OPENAI_AGENTS, tmp_path_factory, ["borrow", "refund"], "strict")
    schema = sessions["borrow"].tools["borrow"]
    assert set(schema["required"]) == {"title", "weeks", "answers", "task_id"}
    assert sessions["borrow"].effects == [LOAN]
    assert [len(sessions[script].calls) for script in ("borrow", "refund")] == [2, 2]
