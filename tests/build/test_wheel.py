"""The wheel contains the files of new projects unchanged, and Baton for a project's layer."""

import os
import zipfile
from pathlib import Path

from mcp_baton.cli.new import PROJECT_SOURCES
from tests.build.conftest import ROOT

FILES = "mcp_baton/cli/project_files/"


def test_the_wheel_contains_the_files_of_a_project_unchanged(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        files = {name.removeprefix(FILES): archive.read(name) for name in archive.namelist() if name.startswith(FILES)}

    assert files == {origin: (ROOT / origin).read_bytes() for origin in PROJECT_SOURCES.values()}


def test_deployed_packages_are_locked_with_hashes_and_without_the_command_line(project: Path, wheel: Path) -> None:
    requirements = (project / "layers" / "baton" / "requirements.txt").read_text()
    packages = [line for line in requirements.splitlines() if not line.startswith(" ")]

    assert f"./{wheel.name} \\" in packages
    assert requirements.count("--hash=sha256:") >= len(packages) > 10
    assert [line for line in packages if line.split("==")[0] in {"typer", "rich", "moto", "pytest"}] == []


def test_a_projects_layer_contains_baton_unchanged(other_layer: Path) -> None:
    assert modules(other_layer / "python" / "mcp_baton") == {
        path: content
        for path, content in modules(ROOT / "layers" / "baton" / "mcp_baton").items()
        if not path.startswith(("cli/", "local/", "testing/"))
    }
    assert (
        (other_layer / "baton-runtime")
        .read_text()
        .startswith("#!/bin/bash\n# AWS_LAMBDA_EXEC_WRAPPER=/opt/baton-runtime")
    )
    assert os.access(other_layer / "baton-runtime", os.X_OK)
    # These files contain the place and time of an installation, so each build would differ.
    assert [path for path in other_layer.rglob("*.json") if path.name in {"direct_url.json", "uv_cache.json"}] == []


def modules(package: Path) -> dict[str, bytes]:
    return {path.relative_to(package).as_posix(): path.read_bytes() for path in package.rglob("*.py")}
