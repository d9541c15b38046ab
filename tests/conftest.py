"""What all tests share: hypothesis's profiles, and the database engines that several kinds of tests use."""

import gc
import os
import subprocess
import time
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import time_machine
from hypothesis import HealthCheck, settings

from tests.dynamodb_local import engine as dynamodb_local
from tests.examples import FUZZ_EXAMPLES, TEST_EXAMPLES
from tests.processes import becomes_ready, free_port, missing
from tests.support.handler import (  # noqa: F401 - fixtures
    _connected_to_memory,
    background,
    engine,
    era,
    make_client,
    memory_engine,
    ministack_engine,
    requests,
    script,
    submit,
    table,
    values,
)

# Hypothesis generates examples slowly on a busy machine. That is not a failure.
BUSY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# Examples depend only on the test's code, so a commit always gives the same result.
settings.register_profile("baton", BUSY, max_examples=TEST_EXAMPLES, derandomize=True)
# `make fuzz` tries new examples, in CI too, where hypothesis would not do so by default. It prints how to reproduce a
# failing example, and tries that example first in the next run.
settings.register_profile("fuzz", BUSY, max_examples=FUZZ_EXAMPLES, print_blob=True, derandomize=False)
settings.load_profile("baton")

# `make test-days` runs tests that use one process on another day. This comes before the tests are imported.
if SHIFT_DAYS := float(os.environ.get("SHIFT_DAYS", "0")):
    time_machine.travel(time.time() + SHIFT_DAYS * 86_400).start()

# `make test ARGS=…` passes its variables on, also to each `make` that a test runs.
for name in ("ARGS", "MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS"):
    os.environ.pop(name, None)

NIGHTLY = os.environ.get("NIGHTLY") == "1"
MINISTACK = Path(__file__).parent / "ministack"
MAX_WORKERS = 9
COLLECTOR = (20_000, 20, 20)
"""Thresholds of the garbage collector. The first is ten times the default: tests create many objects, but few
cycles.
"""


def pytest_xdist_auto_num_workers() -> int:
    """Use one worker more than there are processors: usually one of them waits for a process or a time limit."""
    return min((os.cpu_count() or 1) + 1, MAX_WORKERS)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run the tests marked `first` first. They take longest, and would otherwise run alone at the end. Leave out the
    tests marked `nightly`."""
    nightly = [] if NIGHTLY else [item for item in items if item.get_closest_marker("nightly")]
    if nightly:
        config.hook.pytest_deselected(items=nightly)
        items[:] = [item for item in items if item not in nightly]
    items.sort(key=lambda item: item.get_closest_marker("first") is None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exclude the objects that exist after collection from garbage collection. Modules, tests and parameters stay
    to the end, and they are most of all objects.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(*COLLECTOR)


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """While tests run, check every message of a server in this process against the official definitions."""
    if session.config.getoption("dist", "no") != "no":
        # The tests run in workers, and this process loads nothing that they need.
        return (yield)
    from tests.wire.tap import TAP

    with pytest.MonkeyPatch.context() as patch:
        TAP.install(patch)
        save_time_of_clients(patch)
        return (yield)


def save_time_of_clients(patch: pytest.MonkeyPatch) -> None:
    """Share between all clients what takes long at their start: botocore's data, the names of its events, and the
    authorities that httpx trusts. And let botocore read an attribute of DynamoDB by its type, instead of looking for
    each of the ten types.
    """
    import botocore.session
    from botocore.hooks import EventAliaser, HierarchicalEmitter
    from botocore.parsers import JSONParser
    from httpx._transports import default

    aliaser: Any = EventAliaser(HierarchicalEmitter())
    name_of = aliaser._alias_event_name  # noqa: SLF001 - it keeps the names
    untyped_parser: Any = JSONParser
    parse_structure = untyped_parser._handle_structure  # noqa: SLF001
    transports: Any = default

    def parse(parser: Any, shape: Any, value: Any) -> Any:
        if shape.name != "AttributeValue" or len(value) != 1:
            return parse_structure(parser, shape, value)
        [(kind, content)] = value.items()
        plain = kind in ("S", "N", "BOOL", "NULL")
        return {kind: content if plain else parser._parse_shape(shape.members[kind], content)}  # noqa: SLF001

    patch.setattr(botocore.session, "create_loader", cache(botocore.session.create_loader))
    patch.setattr(EventAliaser, "_alias_event_name", lambda _client, alias: name_of(alias))
    patch.setattr(JSONParser, "_handle_structure", parse)
    patch.setattr(transports, "create_ssl_context", cache(transports.create_ssl_context))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a test if a message sent during it or its setup does not match its protocol revision."""
    from tests.wire.tap import TAP

    try:
        result = yield
    finally:
        problems = TAP.take()
    if problems:
        pytest.fail("the server sent invalid messages:\n" + "\n\n".join(problems), pytrace=False)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Escape what is not Unicode in captured logs and output. A worker could not send it, and the run would crash."""
    report = yield
    report.sections = [(name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections]
    return report


@pytest.fixture(scope="session")
def ministack_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of MiniStack in its own process, with CloudFormation, DynamoDB, S3, SNS and SQS. Its writes are
    atomic, and it has DynamoDB's limits.
    """
    command = MINISTACK / ".venv" / "bin" / "ministack"
    if not command.exists():
        missing("MiniStack is not installed; `make test` does it: uv sync --project tests/ministack --frozen")
    directory = tmp_path_factory.mktemp("ministack")
    port = free_port()
    environment = {
        "PATH": os.environ["PATH"],
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "SERVICES": "cloudformation,dynamodb,s3,sns,sqs",
        "LOG_LEVEL": "WARNING",
        "TMPDIR": str(directory),
        "HOME": str(directory),
    }
    log = directory / "log"
    with (
        log.open("wb") as output,
        subprocess.Popen([command], env=environment, cwd=directory, stdout=output, stderr=output) as process,
    ):
        try:
            if not becomes_ready(process, port, "/_ministack/ready", 200):
                pytest.fail(f"MiniStack did not become ready:\n{log.read_text(errors='replace')}")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


@pytest.fixture(scope="session")
def dynamodb_local_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of DynamoDB Local, AWS's own engine. Each xdist worker starts one.

    If it cannot be installed, its tests are skipped, in CI too, because no script here installs Java. `make
    setup-tests` reports that.
    """
    reason = dynamodb_local.unavailable_reason()
    if reason is not None:
        pytest.skip(reason)
    if not dynamodb_local.LIBRARY.exists():
        missing("DynamoDB Local is not installed; `make test` does it: python -m tests.dynamodb_local.install")
    with dynamodb_local.running(tmp_path_factory.mktemp("dynamodb-local")) as url:
        yield url
