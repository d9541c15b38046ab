"""What all tests share: how hypothesis looks for examples, and the engines that several kinds of test run against."""

import gc
import os
import subprocess
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.dynamodb_local import engine as dynamodb_local
from tests.examples import FUZZED, USUAL
from tests.processes import becomes_ready, free_port, missing

# A busy machine is slow at drawing examples; that is no finding.
BUSY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same commit gives the same answer: examples follow from the test's code alone.
settings.register_profile("baton", BUSY, max_examples=USUAL, derandomize=True)
# `make fuzz` looks further, in CI too, where hypothesis would not by itself. A failing example is printed with what
# reproduces it, and tried first the next time.
settings.register_profile("fuzz", BUSY, max_examples=FUZZED, print_blob=True, derandomize=False)
settings.load_profile("baton")

MINISTACK = Path(__file__).parent / "ministack"
MOST_WORKERS = 9
COLLECTOR = (20_000, 20, 20)
"""Ten times as many new objects as usual before the garbage collector looks: tests make many, and few in circles."""


def pytest_xdist_auto_num_workers() -> int:
    """One worker more than there are processors: one at a time waits, for a process or another's time limit."""
    return min((os.cpu_count() or 1) + 1, MOST_WORKERS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, so that nobody waits for it alone in the end."""
    items.sort(key=lambda item: item.get_closest_marker("first") is None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Spare the garbage collector what stays to the end: modules, tests and their parameters, most of all objects."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(*COLLECTOR)


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """While tests run, every message of a server in this process is held against the official definitions.

    botocore's data is read once for all clients: that is most of what making one takes.
    """
    if session.config.getoption("dist", "no") != "no":
        # The tests run in workers, and nothing that they need is loaded here.
        return (yield)
    import botocore.session

    from tests.wire.tap import TAP

    with pytest.MonkeyPatch.context() as patch:
        TAP.install(patch)
        patch.setattr(botocore.session, "create_loader", cache(botocore.session.create_loader))
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a test during which, or during whose setup, a message was not what its revision says."""
    from tests.wire.tap import TAP

    try:
        result = yield
    finally:
        wrong = TAP.take()
    if wrong:
        pytest.fail("the server sent what is not MCP:\n" + "\n\n".join(wrong), pytrace=False)
    return result


@pytest.fixture(scope="session")
def ministack_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a CloudFormation, DynamoDB, S3, SNS and SQS in a process of their own: MiniStack, atomic, with
    DynamoDB's limits."""
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
    """The URL of AWS's own engine for one machine, DynamoDB Local. Each of xdist's workers starts one for itself.

    Where it cannot be had, its tests are left out, in CI too: no script here installs Java. `make setup-tests` says so.
    """
    reason = dynamodb_local.left_out()
    if reason is not None:
        pytest.skip(reason)
    if not dynamodb_local.LIBRARY.exists():
        missing("DynamoDB Local is not installed; `make test` does it: python -m tests.dynamodb_local.install")
    with dynamodb_local.running(tmp_path_factory.mktemp("dynamodb-local")) as url:
        yield url
