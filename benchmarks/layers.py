"""Directories that hold what a contender runs on, with byte code, as a built layer holds it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PEERS = ROOT / "benchmarks" / "peers"
FUNCTIONS = ROOT / "benchmarks" / "functions"
LAYERS = ROOT / "benchmarks" / ".layers"
GROUPS = ("floor", "dressed", "baton", "awslabs", "official", "fastmcp")


def interpreter() -> str:
    """The interpreter without an environment around it: a function sees its layers and nothing else."""
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    return str(base if base.exists() else sys.executable)


def build() -> None:
    """Build every layer from the lock, Baton's from the sources as they are now."""
    for group in GROUPS:
        packages = LAYERS / group / "python"
        shutil.rmtree(packages, ignore_errors=True)
        _install(group, packages)
    baton = LAYERS / "baton"
    shutil.copytree(ROOT / "layers" / "baton" / "mcp_baton", baton / "python" / "mcp_baton")
    shutil.copy2(ROOT / "layers" / "baton" / "baton-runtime", baton / "baton-runtime")
    shutil.copytree(FUNCTIONS, LAYERS / "functions", dirs_exist_ok=True)
    for directory in (*(LAYERS / group / "python" for group in GROUPS), LAYERS / "functions"):
        _run(interpreter(), "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", str(directory))


def _install(group: str, target: Path) -> None:
    export = [
        "uv",
        "export",
        "--quiet",
        "--project",
        str(PEERS),
        "--frozen",
        "--only-group",
        group,
        "--no-emit-project",
    ]
    requirements = target.parent / "requirements.txt"
    target.parent.mkdir(parents=True, exist_ok=True)
    requirements.write_text(_run(*export))
    install = [
        "uv",
        "pip",
        "install",
        "--quiet",
        "--require-hashes",
        "--python",
        interpreter(),
        "--target",
        str(target),
    ]
    _run(*install, "--requirement", str(requirements))


def _run(*command: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout
