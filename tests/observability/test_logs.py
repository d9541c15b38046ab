"""Log lines through Powertools' Logger, together with other users of Powertools and of the standard library."""

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
"""`watch(service)` returns a logger whose records go to this service's handler."""


@pytest.fixture
def service() -> str:
    """A name that no other test uses, because Powertools keeps a Logger per service."""
    return f"shop{next(SERVICES)}"


@pytest.fixture
def watch() -> Iterator[Watch]:
    attached: list[tuple[logging.Logger, logging.Handler]] = []

    def begin(service: str) -> logging.Logger:
        logger, handler = logging.getLogger("observed"), PowertoolsHandler(service)
        handler.begin({"correlation_id": "gateway-1"})
        logger.addHandler(handler)
        attached.append((logger, handler))
        return logger

    yield begin
    for logger, handler in attached:
        logger.removeHandler(handler)


@pytest.fixture
def root_messages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The messages that reach Lambda's handler of the root logger, as `name: message`."""
    messages: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(f"{record.name}: {record.getMessage()}")

    monkeypatch.setattr(logging.getLogger(), "handlers", [Keep()])
    return messages


def printed(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def is_accepted_by_lambda(timestamp: str) -> bool:
    """Return whether Lambda accepts the line's level. It does so only with an RFC 3339 timestamp."""
    return "T" in timestamp and datetime.fromisoformat(timestamp).tzinfo is not None


def test_log_lines_have_lambdas_time_format_in_either_order_of_creation(
    service: str, watch: Watch, capsys: pytest.CaptureFixture[str]
) -> None:
    powertools_logger = Logger(service=service)
    watch(service).error("ours")
    powertools_logger.error("theirs")
    lines = printed(capsys)
    assert [(line["message"], line["correlation_id"]) for line in lines] == [
        ("ours", "gateway-1"),
        ("theirs", "gateway-1"),
    ]
    assert all(is_accepted_by_lambda(line["timestamp"]) for line in lines)


def test_a_chosen_time_format_is_kept(service: str, watch: Watch, capsys: pytest.CaptureFixture[str]) -> None:
    Logger(service=service, datefmt="%Y")
    watch(service).error("ours")
    assert [len(line["timestamp"]) for line in printed(capsys)] == [4]


def test_a_logger_whose_name_begins_with_the_service_name_is_not_silenced(
    service: str, watch: Watch, root_messages: list[str]
) -> None:
    watch(service).error("ours")
    logging.getLogger(f"{service}_prices").error("theirs")
    assert f"{service}_prices: theirs" in root_messages


def test_a_line_of_powertools_is_written_once(
    service: str, watch: Watch, root_messages: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    watch(service).error("ours")
    Logger(service=service).error("theirs")
    Logger(service=service, child=True).error("a child's")
    assert [line["message"] for line in printed(capsys)] == ["ours", "theirs", "a child's"]
    assert [message for message in root_messages if message.startswith(service)] == []


def test_records_that_powertools_cannot_write_go_to_standard_error(
    service: str, watch: Watch, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POWERTOOLS_LOG_LEVEL", "LOUD")
    assert "aws_lambda_powertools.logging.logger" in sys.modules
    watch(service).error("the table is away")
    error_output = capsys.readouterr().err
    assert "Unknown level: 'LOUD'" in error_output
    assert "the table is away" in error_output


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("error", "end"),
    [
        pytest.param(ValueError("lone \ud800"), "ValueError: lone \ud800", id="a text that is not Unicode"),
        pytest.param(Unprintable(), "Unprintable: <exception str() failed>", id="an exception without a text"),
        pytest.param(ValueError("x" * 200_000 + "!"), "characters left out)\n" + "x" * 29_999 + "!", id="a long text"),
    ],
)
def test_each_exception_makes_one_line(
    service: str, watch: Watch, capsys: pytest.CaptureFixture[str], error: Exception, end: str
) -> None:
    watch(service).error("failed", exc_info=error)
    [line] = printed(capsys)
    assert (line["message"], line["exception_name"]) == ("failed", type(error).__name__)
    assert line["exception"].endswith(end)
    assert len(json.dumps(line)) < 70_000


@pytest.fixture
def restored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (PACKAGE, *VERBOSE_LOGGERS):
        for member in ("handlers", "propagate", "level"):
            monkeypatch.setattr(logging.getLogger(name), member, vars(logging.getLogger(name))[member])


@pytest.mark.usefixtures("restored")
def test_several_lambda_handlers_of_a_process_share_one_log_handler(service: str) -> None:
    assert install(service) is install(service)
    [handler] = logging.getLogger(PACKAGE).handlers
    assert isinstance(handler, PowertoolsHandler)


@pytest.mark.usefixtures("restored")
def test_install_keeps_log_levels_that_were_set_before(service: str) -> None:
    logging.getLogger("urllib3").setLevel(logging.NOTSET)
    logging.getLogger("botocore").setLevel(logging.DEBUG)
    install(service)
    assert logging.getLogger("urllib3").level == logging.INFO
    assert logging.getLogger("botocore").level == logging.DEBUG
