"""The function as `sam build` makes it, deployed by `sam deploy` to a twin of AWS that runs it in containers."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deployed.deployment import Stack, Twin, running_twin, sam
from tests.deployed.image import ensure_runtime_image
from tests.deployed.issuer import Issuer, running_issuer
from tests.deployed.machine import architecture, docker_client, emulator


@pytest.fixture(scope="session")
def image() -> str:
    """The runtime's image; says where it is from."""
    return ensure_runtime_image(docker_client(), emulator())


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything that is deployed, as SAM built it."""
    folder = tmp_path_factory.mktemp("build")
    sam(["build", "--build-dir", str(folder), "--parameter-overrides", f"Architecture={architecture()}"])
    return folder


@pytest.fixture(scope="session")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    with running_issuer(tmp_path_factory.mktemp("issuer")) as issuer:
        yield issuer


@pytest.fixture(scope="session")
def twin(tmp_path_factory: pytest.TempPathFactory, image: str, issuer: Issuer) -> Iterator[Twin]:
    log = tmp_path_factory.mktemp("twin") / "twin.log"
    with running_twin(log, issuer.docker_flags) as twin:
        yield twin
    sys.stdout.write(log.read_text()[-20_000:])


@pytest.fixture(scope="session")
def stack(twin: Twin, build: Path) -> Stack:
    """The template with its defaults."""
    return twin.deploy(build, "baton")


@pytest.fixture(scope="session")
def keys(stack: Stack) -> tuple[str, str]:
    """Two API keys of the stack: the one that it made, and one more for another owner."""
    gateway = stack.twin.client("apigateway")
    [first] = stack.resources("AWS::ApiGateway::ApiKey").values()
    [plan] = stack.resources("AWS::ApiGateway::UsagePlan").values()
    second = gateway.create_api_key(name="another", enabled=True)
    gateway.create_usage_plan_key(usagePlanId=plan, keyId=second["id"], keyType="API_KEY")
    return gateway.get_api_key(apiKey=first, includeValue=True)["value"], second["value"]
