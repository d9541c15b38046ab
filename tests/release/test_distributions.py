"""The wheel and the source archive: their content, and that every build gives the same bytes."""

import os
import stat
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.release.changelog import project_version
from tests.release.conftest import ROOT, Distributions, build

PACKAGE = ROOT / "layers" / "baton"


@pytest.fixture(scope="session")
def second_build(distributions: Distributions, tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    """Built again from the source archive alone, with other times and permissions of the files."""
    folder = tmp_path_factory.mktemp("again")
    with tarfile.open(distributions.archive) as archive:
        archive.extractall(folder, filter="data")
    [source] = folder.iterdir()
    for path in source.rglob("*"):
        is_executable = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
        path.chmod(0o777 if is_executable else 0o600)
        os.utime(path, (1_000_000_000, 1_000_000_000))
    return build(source, folder / "dist")


def test_a_rebuild_gives_the_same_bytes(distributions: Distributions, second_build: Distributions) -> None:
    assert second_build.archive.name == distributions.archive.name
    assert second_build.archive.read_bytes() == distributions.archive.read_bytes()
    assert second_build.wheel.read_bytes() == distributions.wheel.read_bytes()


def test_the_repository_and_the_source_archive_give_one_wheel(distributions: Distributions, tmp_path: Path) -> None:
    assert build(ROOT, tmp_path, "--wheel").wheel.read_bytes() == distributions.wheel.read_bytes()


def test_the_wheel_contains_the_whole_package_and_py_typed(distributions: Distributions) -> None:
    names = set(zipfile.ZipFile(distributions.wheel).namelist())
    package = {
        path.relative_to(PACKAGE).as_posix()
        for path in (PACKAGE / "mcp_baton").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }

    assert "mcp_baton/py.typed" in package
    assert package <= names
    own_names = {name for name in names if "/project_files/" not in name}
    assert [name for name in own_names if name.endswith(".pyc") or "/." in name] == []
    assert {name.split("/")[0] for name in names} == {"mcp_baton", f"mcp_baton-{project_version()}.dist-info"}


def test_the_source_archive_contains_exactly_the_files_of_a_build(distributions: Distributions) -> None:
    with tarfile.open(distributions.archive) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames()}

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    new_projects = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    metadata = {".gitignore", "CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}
    assert {name for name in names if not name.startswith("layers/baton/mcp_baton/")} == metadata | set(new_projects)
