"""Regression tests for single hostile requests that once caused faults."""

import base64
import json
import os
from typing import Any

import pytest

from mcp_baton.aws import dynamodb_store
from mcp_baton.settings import Settings
from mcp_baton.tasks.ids import new_question
from tests.hostile_requests.valid import ERAS
from tests.hostile_requests.wire import HostileClient
from tests.support.client import Era

INVALID_REQUEST, INVALID_PARAMS = -32600, -32602
FITS_NOWHERE = base64.b64encode(os.urandom(2**19)).decode()
"""A text that is larger than DynamoDB's limit even when compressed."""


def answer_to(question: str | int, **members: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": question, **members})


@pytest.mark.parametrize("question", ["x" * 2_000, "baton-", "\ud800", "", 7, "TASK#x", f"baton-{'é' * 32}"])
def test_an_answer_to_no_question_does_not_reach_the_table(hostile: HostileClient, question: str | int) -> None:
    assert hostile.post(answer_to(question, result={})).refusal == (400, INVALID_REQUEST)
    assert hostile.writes == []


def test_an_answer_with_the_id_of_a_possible_question_is_looked_up(hostile: HostileClient) -> None:
    assert hostile.post(answer_to(new_question(), result={})).refusal == (400, INVALID_REQUEST)
    assert hostile.writes == ["UpdateItem"]


def test_an_answer_that_is_too_large_is_refused_and_leaves_the_question_open(large: HostileClient) -> None:
    question, table = new_question(), large.table
    store = dynamodb_store(table.name, Settings(), connect=lambda: table.client)
    store.answers.ask("alice", question, 60)
    large.recount()
    assert large.post(answer_to(question, result={"x": FITS_NOWHERE})).status == 413
    assert large.post(answer_to(question, result={"x": "fits"})).status == 202


@pytest.mark.parametrize("era", ERAS)
def test_lone_surrogates_in_names_and_values_become_replacement_characters(hostile: HostileClient, era: Era) -> None:
    halves = {"a": 1, "b": 1.5, "c": True, "d": [{"\ud800": "\udfff"}], "e": {"\udfff": None}}
    result = hostile.request(era, "tools/call", {"name": "plain", "arguments": halves}).result
    assert result["structuredContent"] == {**halves, "d": [{"\ufffd": "\ufffd"}], "e": {"\ufffd": None}}
