"""Builds: with `sam build` and `make layer` for this machine's processor, and in a new project for the other processor.

Each is built once per test run, by the first xdist worker that needs it.
"""

import os
import platform
from collections.abc import Callable
from pathlib import Path

import pytest

from mcp_baton.cli.app import main
from tests.once import once
from tests.release.conftest import BuildFailed, Distributions, distributions, run
from tests.runtime.conftest import api, start

__all__ = ["BuildFailed", "api", "distributions", "start"]

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "examples" / "sample"
PROCESSOR = {"x86_64": "x86_64", "aarch64": "arm64"}.get(platform.machine(), "x86_64")
OTHER_PROCESSOR = "arm64" if PROCESSOR == "x86_64" else "x86_64"
UV_FOLDER = ROOT / ".tools" / "uv" / "bin"

type BuildLayer = Callable[..., Path]
"""`build_layer(architecture, source=…)` returns the layer's folder with the contents of `/opt`."""


@pytest.fixture(scope="session")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything that is deployed, built by SAM with the sample as the server."""

    def build() -> str:
        folder = tmp_path_factory.mktemp("all artifacts")
        sam = ROOT / "tests" / "sam" / ".venv" / "bin" / "sam"
        run(
            [sam, "build", "--build-dir", folder],
            {"ARCHITECTURE": PROCESSOR, "BATON_APP": str(SAMPLE), "SAM_CLI_TELEMETRY": "0"},
        )
        return str(folder)

    return Path(once(tmp_path_factory, "artifacts", build))


@pytest.fixture(scope="session")
def layer(artifacts: Path) -> Path:
    """The layer for this machine's processor, with the contents of `/opt`."""
    return artifacts / "BatonLayer"


@pytest.fixture(scope="session")
def layer_zip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def build() -> str:
        folder = tmp_path_factory.mktemp("dist")
        run(["make", "--no-print-directory", "layer", f"ARCHITECTURE={PROCESSOR}", f"DIST={folder}"])
        [archive] = folder.iterdir()
        return str(archive)

    return Path(once(tmp_path_factory, "layer-zip", build))


@pytest.fixture(scope="session")
def wheel(distributions: Distributions) -> Path:
    return distributions.wheel


@pytest.fixture(scope="session")
def project(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with Baton from the wheel, locked."""

    def create() -> str:
        project = tmp_path_factory.mktemp("projects") / "shop"
        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setenv("PATH", f"{UV_FOLDER}{os.pathsep}{os.environ['PATH']}")
            assert main(["new", str(project), "--wheel", str(wheel)]) == 0
        return str(project)

    return Path(once(tmp_path_factory, "project", create))


@pytest.fixture(scope="session")
def build_layer(tmp_path_factory: pytest.TempPathFactory) -> BuildLayer:
    def build(
        architecture: str, source: Path = ROOT / "layers" / "baton", umask: str = "022", **environment: str
    ) -> Path:
        folder = tmp_path_factory.mktemp("a layer")
        make: list[str | Path] = ["sh", "-c", f'umask {umask} && exec make -C "$0" build-BatonLayer', source]
        run(make, {"ARCHITECTURE": architecture, "ARTIFACTS_DIR": str(folder), **environment})
        return folder

    return build


@pytest.fixture(scope="session")
def other_layer(project: Path, build_layer: BuildLayer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's layer for the other processor."""

    def build() -> str:
        return str(build_layer(OTHER_PROCESSOR, project / "layers" / "baton"))

    return Path(once(tmp_path_factory, "others-layer", build))
