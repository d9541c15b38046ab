"""What `sam build` builds, for the processor of this machine."""

import os
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.runtime.conftest import api, start

__all__ = ["api", "start"]

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "examples" / "sample"
HERE = {"x86_64": "x86_64", "aarch64": "arm64"}.get(platform.machine(), "x86_64")
BUILD_WITHIN_S = 300

type BuildLayer = Callable[..., Path]
"""`build_layer(architecture, source=…)`: the layer as it will be under `/opt`."""


@pytest.fixture(scope="session")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything that is deployed, as SAM built it, with the sample as the server."""
    folder = tmp_path_factory.mktemp("all artifacts")
    sam = ROOT / "tests" / "sam" / ".venv" / "bin" / "sam"
    run(
        [sam, "build", "--build-dir", folder],
        {"ARCHITECTURE": HERE, "BATON_APP": str(SAMPLE), "SAM_CLI_TELEMETRY": "0"},
    )
    return folder


@pytest.fixture(scope="session")
def build_layer(tmp_path_factory: pytest.TempPathFactory) -> BuildLayer:
    def build(architecture: str, source: Path = ROOT / "layers" / "baton") -> Path:
        folder = tmp_path_factory.mktemp("a layer")
        run(["make", "-C", source, "build-BatonLayer"], {"ARCHITECTURE": architecture, "ARTIFACTS_DIR": str(folder)})
        return folder

    return build


@pytest.fixture(scope="session")
def arm64(build_layer: BuildLayer) -> Path:
    return build_layer("arm64")


@pytest.fixture(scope="session")
def x86_64(build_layer: BuildLayer) -> Path:
    return build_layer("x86_64")


class BuildFailed(Exception):
    """A build that stopped; its text is what the build said."""


def run(command: list[str | Path], environment: Mapping[str, str]) -> None:
    """Run a build to its end, with a Python 3.13 for byte code when the tests run on one."""
    inherited = {name: value for name, value in os.environ.items() if name not in {"ARCHITECTURE", "MAKEFLAGS"}}
    if sys.version_info[:2] == (3, 13):
        inherited["PYTHON313"] = sys.executable
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILD_WITHIN_S,
    )
    if done.returncode != 0:
        raise BuildFailed(done.stdout + done.stderr)
