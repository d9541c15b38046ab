"""Log lines through Powertools' Logger, beside what others do with it and with the standard library."""

import json
import logging
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import count
from typing import Any

import pytest
from aws_lambda_powertools import Logger

from mcp_baton.observability import PACKAGE, VERBOSE_LOGGERS, PowertoolsHandler, install

SERVICES = count(1)

type Watch = Callable[[str], logging.Logger]
"""`watch(service)`: a logger whose records a handler for this service writes."""


@pytest.fixture
def service() -> str:
    """A name that no other test has used: Powertools keeps a Logger for each."""
    return f"shop{next(SERVICES)}"


@pytest.fixture
def watch() -> Iterator[Watch]:
    watched: list[tuple[logging.Logger, logging.Handler]] = []

    def begin(service: str) -> logging.Logger:
        logger, handler = logging.getLogger("observed"), PowertoolsHandler(service)
        handler.begin({"correlation_id": "gateway-1"})
        logger.addHandler(handler)
        watched.append((logger, handler))
        return logger

    yield begin
    for logger, handler in watched:
        logger.removeHandler(handler)


@pytest.fixture
def rest(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What reaches the handler that Lambda gives to all other loggers: `name: message`."""
    said: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(f"{record.name}: {record.getMessage()}")

    monkeypatch.setattr(logging.getLogger(), "handlers", [Keep()])
    return said


def printed(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def is_taken_by_lambda(timestamp: str) -> bool:
    """Whether Lambda takes the line's level as given, which it does beside a time as RFC 3339 has it alone."""
    return "T" in timestamp and datetime.fromisoformat(timestamp).tzinfo is not None


def test_a_log_line_has_lambdas_time_format_whichever_module_created_the_logger(
    service: str, watch: Watch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = Logger(service=service)
    watch(service).error("ours")
    own.error("theirs")
    lines = printed(capsys)
    assert [(line["message"], line["correlation_id"]) for line in lines] == [
        ("ours", "gateway-1"),
        ("theirs", "gateway-1"),
    ]
    assert all(is_taken_by_lambda(line["timestamp"]) for line in lines)


def test_a_form_of_time_that_somebody_chose_is_kept(
    service: str, watch: Watch, capsys: pytest.CaptureFixture[str]
) -> None:
    Logger(service=service, datefmt="%Y")
    watch(service).error("ours")
    assert [len(line["timestamp"]) for line in printed(capsys)] == [4]


def test_a_logger_whose_name_merely_holds_the_services_is_not_silenced(
    service: str, watch: Watch, rest: list[str]
) -> None:
    watch(service).error("ours")
    logging.getLogger(f"{service}_prices").error("theirs")
    assert f"{service}_prices: theirs" in rest


def test_a_line_of_powertools_is_written_once(
    service: str, watch: Watch, rest: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    watch(service).error("ours")
    Logger(service=service).error("theirs")
    Logger(service=service, child=True).error("a child's")
    assert [line["message"] for line in printed(capsys)] == ["ours", "theirs", "a child's"]
    assert [said for said in rest if said.startswith(service)] == []


def test_what_powertools_cannot_write_is_written_to_standard_error_and_costs_no_request(
    service: str, watch: Watch, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POWERTOOLS_LOG_LEVEL", "LOUD")
    assert "aws_lambda_powertools.logging.logger" in sys.modules
    watch(service).error("the table is away")
    said = capsys.readouterr().err
    assert "Unknown level: 'LOUD'" in said
    assert "the table is away" in said


@pytest.fixture
def restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `install` changes is put back when the test ends."""
    for name in (PACKAGE, *VERBOSE_LOGGERS):
        for member in ("handlers", "propagate", "level"):
            monkeypatch.setattr(logging.getLogger(name), member, vars(logging.getLogger(name))[member])


@pytest.mark.usefixtures("restored")
def test_a_process_that_makes_several_lambda_handlers_has_one_for_its_logs(service: str) -> None:
    assert install(service) is install(service)
    [handler] = logging.getLogger(PACKAGE).handlers
    assert isinstance(handler, PowertoolsHandler)


@pytest.mark.usefixtures("restored")
def test_what_others_may_say_is_left_to_a_function_that_says_so(service: str) -> None:
    logging.getLogger("urllib3").setLevel(logging.NOTSET)
    logging.getLogger("botocore").setLevel(logging.DEBUG)
    install(service)
    assert logging.getLogger("urllib3").level == logging.INFO
    assert logging.getLogger("botocore").level == logging.DEBUG
