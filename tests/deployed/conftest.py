"""The function as `sam build` makes it, deployed by `sam deploy` to a twin of AWS that runs it in containers."""

import shutil
import signal
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.deployed.deployment import SAM_LOG, Stack, Twin, running_workflow_tool
from tests.deployed.evidence import Evidence, tail
from tests.deployed.image import ensure_runtime_image
from tests.deployed.issuer import Issuer, running_issuer
from tests.deployed.machine import docker_client, emulator
from tests.deployed.page import Page, Served
from tests.deployed.project import built_project

ORIGIN = "https://app.example.com"
"""Whose pages may call the probe."""
WORKER_S = 30
"""How long one invocation of the probe's worker may take, its start included: too short for a night's rests, of which
none begins in the last six seconds.
"""
EARLY = ("building", "making_project", "twin", "serving_page")
"""What is begun at once, in this order, where a test wants it: the build is made while the twin starts."""
EVIDENCE = pytest.StashKey[Evidence]()


def pytest_configure(config: pytest.Config) -> None:
    """Begin with an empty log, and end what was started when told to stop, as when interrupted."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    SAM_LOG.parent.mkdir(exist_ok=True)
    SAM_LOG.write_bytes(b"")
    config.stash[EVIDENCE] = Evidence()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put last what has to wait for something that goes on beside the other tests."""
    items.sort(key=lambda item: item.get_closest_marker("last") is not None)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """What is said from now on is said during this test."""
    item.config.stash[EVIDENCE].begin()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Have a failure print what the deployed things said. A deployment may be older than the test that it fails."""
    report = yield
    if report.failed:
        report.sections.append((f"the end of {SAM_LOG.name}", tail(SAM_LOG.read_bytes())))
        report.sections += item.config.stash[EVIDENCE].sections()
    return report


@pytest.fixture(scope="session")
def evidence(pytestconfig: pytest.Config) -> Evidence:
    """What is printed when a test fails."""
    return pytestconfig.stash[EVIDENCE]


@pytest.fixture(scope="session")
def image() -> str:
    """The runtime's image; says where it is from."""
    return ensure_runtime_image(docker_client(), emulator())


@pytest.fixture(scope="session")
def early() -> Iterator[ThreadPoolExecutor]:
    """Does what takes long while something else is waited for."""
    with ThreadPoolExecutor() as executor:
        yield executor


@pytest.fixture(scope="session")
def page() -> Page:
    return Page.read()


@pytest.fixture(scope="session")
def building(early: ThreadPoolExecutor, page: Page) -> Future[Path]:
    """Everything that is deployed, on its way."""
    return early.submit(page.build)


@pytest.fixture(scope="session")
def build(building: Future[Path]) -> Path:
    """Everything that is deployed, as SAM built it at the page's command, with the sample as the server."""
    return building.result()


@pytest.fixture(scope="session")
def serving_page(
    page: Page, image: str, build: Path, tmp_path_factory: pytest.TempPathFactory, evidence: Evidence
) -> Iterator[Served]:
    """The page's other commands, on their way, down to the last one, which serves until the tests are over."""
    with page.serving(tmp_path_factory.mktemp("page")) as served:
        evidence.watch(served.log)
        yield served


@pytest.fixture(scope="session")
def making_project(early: ThreadPoolExecutor, tmp_path_factory: pytest.TempPathFactory) -> Future[Path]:
    """A project as `baton new` makes it, built, on its way."""
    return early.submit(built_project, tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="session", autouse=True)
def started(request: pytest.FixtureRequest) -> None:
    """Begin what takes long, and go on to the first test meanwhile."""
    wanted = {name for item in request.session.items if isinstance(item, pytest.Function) for name in item.fixturenames}
    for fixture in EARLY:
        if fixture in wanted:
            request.getfixturevalue(fixture)


@pytest.fixture(scope="session")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    with running_issuer(tmp_path_factory.mktemp("issuer")) as issuer:
        yield issuer


@pytest.fixture(scope="session")
def twin(tmp_path_factory: pytest.TempPathFactory, image: str, issuer: Issuer, evidence: Evidence) -> Iterator[Twin]:
    log = tmp_path_factory.mktemp("twin") / "twin.log"
    evidence.watch(log)
    with running_workflow_tool(log, issuer.docker_flags) as twin:
        yield twin


@pytest.fixture(scope="session")
def stack(twin: Twin, build: Path) -> Stack:
    """The template with its defaults, by `sam deploy`. The others are copies of it with other parameters."""
    return twin.deploy(build, "baton")


@pytest.fixture(scope="session")
def probe(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Stack:
    """The template with a bucket for large results, pages that may call, and a function of the tests' own."""
    code = tmp_path_factory.mktemp("probe")
    shutil.copy(Path(__file__).with_name("probe.py"), code / "app.py")
    return stack.copy("probe", code, Overflow="on", AllowedOrigins=ORIGIN, WorkerTimeout=str(WORKER_S))


@pytest.fixture(scope="session")
def keys(stack: Stack) -> tuple[str, str]:
    """Two API keys of the stack: the one that it made, and one more for another owner."""
    gateway = stack.twin.client("apigateway")
    [plan] = stack.resources("AWS::ApiGateway::UsagePlan").values()
    second = gateway.create_api_key(name="another", enabled=True)
    gateway.create_usage_plan_key(usagePlanId=plan, keyId=second["id"], keyType="API_KEY")
    return stack.api_key, second["value"]
