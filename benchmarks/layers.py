"""Directories with the packages and byte code of each contender. Baton's is the layer that `sam build` creates."""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

ROOT = Path(__file__).parents[1]
PEERS = ROOT / "benchmarks" / "peers"
LAYERS = ROOT / "benchmarks" / ".layers"
CODE = {"functions": ROOT / "benchmarks" / "functions", "sample": ROOT / "examples" / "sample"}
"""The code of the functions themselves."""
SOURCES = ROOT / "layers" / "baton"
BATON = "baton"
GROUPS = ("floor", "dressed", BATON, "awslabs", "official", "fastmcp")


def interpreter() -> str:
    """Return the interpreter outside any virtual environment, so that a function sees only its layers."""
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    return str(base if base.exists() else sys.executable)


def build(groups: Collection[str] = GROUPS) -> None:
    """Build these layers from the lock. Always copy the current code of Baton and of the functions."""
    for group in groups:
        packages = LAYERS / group / "python"
        shutil.rmtree(packages, ignore_errors=True)
        if group == BATON:
            _make_layer(LAYERS / group)
        else:
            _install(group, packages)
    shutil.rmtree(LAYERS / BATON / "python" / "mcp_baton", ignore_errors=True)
    _copy(SOURCES / "mcp_baton", LAYERS / BATON / "python" / "mcp_baton")
    wrapper = LAYERS / BATON / "python" / "mcp_baton" / "transport" / "runtime" / "baton-runtime"
    shutil.copy2(wrapper, LAYERS / BATON / "baton-runtime")
    for name, source in CODE.items():
        shutil.rmtree(LAYERS / name, ignore_errors=True)
        _copy(source, LAYERS / name)
    for directory in (*(LAYERS / group / "python" for group in {*groups, BATON}), *(LAYERS / name for name in CODE)):
        _run(interpreter(), "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", str(directory))


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))


def _make_layer(target: Path) -> None:
    """Build the deployed layer for this machine's processor. `build` compiles it, because byte code contains its
    path.
    """
    processor = {"aarch64": "arm64"}.get(platform.machine(), platform.machine())
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    variables = [f"ARTIFACTS_DIR={target}", f"ARCHITECTURE={processor}", f"PYTHON313={interpreter()}"]
    _run("make", "--silent", "-C", str(SOURCES), "build-BatonLayer", *variables)


def _install(group: str, target: Path) -> None:
    group_only = ["--only-group", group, "--no-emit-project"]
    export = ["uv", "export", "--quiet", "--project", str(PEERS), "--frozen", *group_only]
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
