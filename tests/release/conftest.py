"""The wheel and the source archive as `make dist` builds them, and an environment with only the wheel."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.once import once

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 300
TOOLS = ROOT / "tests" / "release" / ".venv" / "bin"


class BuildFailed(Exception):
    """A command failed. The message contains its output."""


@dataclass(frozen=True, slots=True)
class Distributions:
    """The files that are published on PyPI."""

    wheel: Path
    archive: Path


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment outside this repository, with nothing of the repository on its path."""

    folder: Path

    @property
    def programs(self) -> Path:
        return self.folder / "bin"

    def run(self, program: str, *arguments: str | Path, **environment: str) -> str:
        return run([self.programs / program, *arguments], environment, cwd=self.folder)


def run(command: Sequence[str | Path], environment: Mapping[str, str] | None = None, cwd: Path = ROOT) -> str:
    """Run a command until it ends, and return its output. It does not inherit the settings of these tests."""
    excluded = {"ARCHITECTURE", "PYTHONPATH", "VIRTUAL_ENV", "MAKEFLAGS", "SOURCE_DATE_EPOCH"}
    variables = {name: value for name, value in os.environ.items() if name not in excluded}
    variables["PATH"] = f"{variables['PATH']}:{ROOT / '.tools' / 'uv' / 'bin'}"
    if sys.version_info[:2] == (3, 13):
        variables["PYTHON313"] = sys.executable  # compiles byte code
    process = subprocess.run(
        command,
        cwd=cwd,
        env={**variables, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    if process.returncode:
        output = f"{process.stdout}{process.stderr}"
        raise BuildFailed(f"{' '.join(map(str, command))} ended with {process.returncode}:\n{output}")
    return process.stdout


def build(source: Path, target: Path, *options: str, **environment: str) -> Distributions:
    """Build a folder with the locked Hatchling."""
    command: list[str | Path] = ["uv", "build", "--quiet", "--no-build-isolation", "--python", TOOLS / "python"]
    run([*command, "--out-dir", target, *options, source], environment)
    return find_distributions(target)


def find_distributions(folder: Path) -> Distributions:
    wheels, archives = list(folder.glob("*.whl")), list(folder.glob("*.tar.gz"))
    return Distributions(wheels[0] if wheels else folder, archives[0] if archives else folder)


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    """The files that `make dist` builds, once per test run."""

    def create() -> str:
        folder = tmp_path_factory.mktemp("dist")
        run(["make", "--no-print-directory", "dist", f"DIST={folder}"])
        return str(folder)

    return find_distributions(Path(once(tmp_path_factory, "distributions", create)))


@pytest.fixture(scope="session")
def wheel_environment(distributions: Distributions, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The wheel with its dependencies, without extras and development tools; created once per test run."""

    def create() -> str:
        return str(make_environment(tmp_path_factory.mktemp("installed"), distributions.wheel).folder)

    return Environment(Path(once(tmp_path_factory, "installed", create)))


def make_environment(folder: Path, requirement: str | Path) -> Environment:
    """Create an environment with only this package, from PyPI or uv's cache, in the versions of the lock."""
    environment = Environment(folder / "environment")
    constraints = folder / "constraints.txt"
    words = ["export", "--frozen", "--quiet", "--no-emit-project", "--all-extras", "--no-hashes", "--no-header"]
    run(["uv", *words, "--output-file", constraints])
    run(["uv", "venv", "--quiet", "--python", sys.executable, environment.folder])
    install: list[str | Path] = ["uv", "pip", "install", "--quiet", "--python", environment.programs / "python"]
    run([*install, "--constraints", constraints, requirement])
    return environment
