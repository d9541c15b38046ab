"""The function as `sam build` makes it, deployed by `sam deploy` to a twin of AWS that runs it in containers."""

import shutil
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.deployed.deployment import SAM_LOG, Stack, Twin, running_twin, sam
from tests.deployed.evidence import Evidence, tail
from tests.deployed.image import ensure_runtime_image
from tests.deployed.issuer import Issuer, running_issuer
from tests.deployed.machine import SAMPLE, architecture, docker_client, emulator

ORIGIN = "https://app.example.com"
"""Whose pages may call the probe."""
WORKER_S = 30
"""How long one invocation of the probe's worker may take, its start included: too short for a night's rests, of which
none begins in the last six seconds.
"""
EVIDENCE = pytest.StashKey[Evidence]()


def pytest_configure(config: pytest.Config) -> None:
    """Begin with an empty log."""
    SAM_LOG.parent.mkdir(exist_ok=True)
    SAM_LOG.write_bytes(b"")
    config.stash[EVIDENCE] = Evidence()


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
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything that is deployed, as SAM built it, with the sample as the server."""
    folder = tmp_path_factory.mktemp("build")
    sam(
        ["build", "--build-dir", str(folder), "--parameter-overrides", f"Architecture={architecture()}"],
        BATON_APP=str(SAMPLE),
    )
    return folder


@pytest.fixture(scope="session")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    with running_issuer(tmp_path_factory.mktemp("issuer")) as issuer:
        yield issuer


@pytest.fixture(scope="session")
def twin(tmp_path_factory: pytest.TempPathFactory, image: str, issuer: Issuer, evidence: Evidence) -> Iterator[Twin]:
    log = tmp_path_factory.mktemp("twin") / "twin.log"
    evidence.watch(log)
    with running_twin(log, issuer.docker_flags) as twin:
        yield twin


@pytest.fixture(scope="session")
def stack(twin: Twin, build: Path) -> Stack:
    """The template with its defaults."""
    return twin.deploy(build, "baton")


@pytest.fixture(scope="session")
def probe(twin: Twin, build: Path, tmp_path_factory: pytest.TempPathFactory) -> Stack:
    """The template with a bucket for large results, pages that may call, and a function of the tests' own."""
    changed = tmp_path_factory.mktemp("probe") / "build"
    # What the build compiled would be run in the place of a source that changed since.
    shutil.copytree(build, changed, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for function in ("McpFunction", "WorkerFunction"):
        shutil.copy(Path(__file__).with_name("probe.py"), changed / function / "app.py")
    return twin.deploy(changed, "probe", Overflow="on", AllowedOrigins=ORIGIN, WorkerTimeout=str(WORKER_S))


@pytest.fixture(scope="session")
def keys(stack: Stack) -> tuple[str, str]:
    """Two API keys of the stack: the one that it made, and one more for another owner."""
    gateway = stack.twin.client("apigateway")
    [plan] = stack.resources("AWS::ApiGateway::UsagePlan").values()
    second = gateway.create_api_key(name="another", enabled=True)
    gateway.create_usage_plan_key(usagePlanId=plan, keyId=second["id"], keyType="API_KEY")
    return stack.api_key, second["value"]
