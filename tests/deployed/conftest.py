"""Fixtures: the function as `sam build` builds it, deployed with `sam deploy` to an AWS emulator that runs it in
containers.
"""

import shutil
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.deployed.deployment import SAM_LOG, Emulator, Stack, running_emulator
from tests.deployed.evidence import LOG_FILES, sections
from tests.deployed.image import ensure_runtime_image
from tests.deployed.issuer import Issuer, running_issuer
from tests.deployed.machine import docker_client, runtime_emulator
from tests.deployed.page import Page, PageRun

ORIGIN = "https://app.example.com"
"""The origin whose pages may call the probe."""
WORKER_S = 30
"""The timeout of the probe's worker, including its start, seconds. It is too short for all rests of the workflow
`night`: no rest starts in the last six seconds.
"""


def pytest_configure() -> None:
    """Empty the log. On SIGTERM, stop everything that the tests started, as on an interrupt."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    SAM_LOG.parent.mkdir(exist_ok=True)
    SAM_LOG.write_bytes(b"")
    LOG_FILES.append(SAM_LOG)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the tests marked `first` to the start, and those marked `last` to the end: the first ones start something
    that runs beside the other tests, and the last ones wait for its end.
    """

    def position(item: pytest.Item) -> int:
        return -1 if item.get_closest_marker("first") else 1 if item.get_closest_marker("last") else 0

    items.sort(key=position)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the end of each log to the report of a failed test. Session fixtures deploy the stacks, so pytest's own
    capture may not contain their output.
    """
    report = yield
    if report.failed:
        report.sections += sections()
    return report


@pytest.fixture(scope="session")
def image() -> str:
    """Ensure that the runtime's image exists. Return where it comes from."""
    return ensure_runtime_image(docker_client(), runtime_emulator())


@pytest.fixture(scope="session")
def page() -> Page:
    return Page.read()


@pytest.fixture(scope="session")
def build(page: Page) -> Path:
    """Run the documentation's build command, with the sample as the server. Return the build folder."""
    return page.build()


@pytest.fixture(scope="session")
def serving_page(page: Page, image: str, build: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageRun]:
    """Run the documentation's other commands. The last one serves until the tests end."""
    with page.serving(tmp_path_factory.mktemp("page")) as run:
        LOG_FILES.append(run.log)
        yield run


@pytest.fixture(scope="session")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    with running_issuer(tmp_path_factory.mktemp("issuer")) as issuer:
        yield issuer


@pytest.fixture(scope="session")
def emulator(tmp_path_factory: pytest.TempPathFactory, image: str, issuer: Issuer) -> Iterator[Emulator]:
    log = tmp_path_factory.mktemp("emulator") / "emulator.log"
    LOG_FILES.append(log)
    with running_emulator(log, issuer.docker_flags) as emulator:
        yield emulator


@pytest.fixture(scope="session")
def stack(emulator: Emulator, build: Path) -> Stack:
    """Deploy the template with its defaults, with `sam deploy`. Other stacks are copies of it with other parameters."""
    return emulator.deploy(build, "baton")


@pytest.fixture(scope="session")
def probe_code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the code of the probe function."""
    code = tmp_path_factory.mktemp("probe")
    shutil.copy(Path(__file__).with_name("probe.py"), code / "app.py")
    return code


@pytest.fixture(scope="session")
def probe(stack: Stack, probe_code: Path) -> Stack:
    """A copy of the stack that runs the probe, with an allowed origin."""
    return stack.copy("probe", probe_code, AllowedOrigins=ORIGIN, WorkerTimeout=str(WORKER_S))


@pytest.fixture(scope="session")
def keys(stack: Stack) -> tuple[str, str]:
    """Two API keys of the stack: the one from the template, and one for another owner."""
    gateway = stack.emulator.client("apigateway")
    [plan] = stack.resources("AWS::ApiGateway::UsagePlan").values()
    second_key = gateway.create_api_key(name="another", enabled=True)
    gateway.create_usage_plan_key(usagePlanId=plan, keyId=second_key["id"], keyType="API_KEY")
    return stack.api_key, second_key["value"]
