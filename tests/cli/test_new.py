"""`baton new`: the files, and the errors before the first write."""

import os
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from zipfile import ZipFile

import pytest

from mcp_baton.cli.app import main
from mcp_baton.cli.new import PROJECT_SOURCES, WHEEL_SOURCE
from tests.starter import needs_the_starter

ROOT = Path(__file__).parents[2]
UV = ROOT / ".tools" / "uv" / "bin"
OTHER_WHEEL = "mcp_baton-99.0-py3-none-any.whl"
DIFFERING_FILES = {"functions/mcp/app.py", "samconfig.toml", "pyproject.toml", "README.md"}
"""Files whose content differs between projects."""


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)


def create(*options: str) -> Path:
    """Create a project with these options."""
    assert main(["new", "shop", "--no-lock", *options]) == 0
    return Path("shop")


def region_and_auth(project: Path) -> tuple[str, str]:
    """Return the region and the `Auth` of a project's first stage."""
    sam = tomllib.loads((project / "samconfig.toml").read_text())["default"]
    [auth, *_] = sam["deploy"]["parameters"]["parameter_overrides"]
    return sam["global"]["parameters"]["region"], auth


def files(project: Path) -> set[str]:
    return {path.relative_to(project).as_posix() for path in project.rglob("*") if path.is_file()}


def test_a_project_has_every_file_of_the_template() -> None:
    assert files(create()) == set(PROJECT_SOURCES)


def test_files_without_settings_are_those_of_this_repository() -> None:
    project = create()

    shared = {path for path, origin in PROJECT_SOURCES.items() if not origin.startswith("project/")} - DIFFERING_FILES
    assert {"template.yaml", "layers/baton/Makefile", "functions/authorizer/tokens.py"} <= shared
    assert [path for path in sorted(shared) if (project / path).read_bytes() != (ROOT / path).read_bytes()] == []


def test_a_project_depends_on_this_version_and_has_the_chosen_settings() -> None:
    shop = create("--region", "eu-central-1", "--auth", "iam")

    own_version = version("mcp-baton")
    project = tomllib.loads((shop / "pyproject.toml").read_text())
    sam = tomllib.loads((shop / "samconfig.toml").read_text())
    assert project["project"]["name"] == "shop"
    assert project["project"]["dependencies"] == ["mcp-baton[aws]"]
    assert project["dependency-groups"]["baton"] == [f"mcp-baton[local]>={own_version}"]
    assert project["dependency-groups"]["dev"] == [{"include-group": "baton"}, "pytest>=9"]
    assert sam["default"]["global"]["parameters"] == {"stack_name": "shop", "region": "eu-central-1"}
    assert sam["production"]["global"]["parameters"] == {"stack_name": "shop-production", "region": "eu-central-1"}
    assert sam["default"]["deploy"]["parameters"]["parameter_overrides"] == ["Auth=IAM", "ReservedConcurrency=none"]


def test_with_auth_none_the_production_stage_still_needs_iam() -> None:
    sam = tomllib.loads((create("--auth", "NONE") / "samconfig.toml").read_text())

    assert sam["default"]["deploy"]["parameters"]["parameter_overrides"] == ["Auth=NONE", "ReservedConcurrency=none"]
    assert sam["production"]["deploy"]["parameters"]["parameter_overrides"][0] == "Auth=IAM"


@needs_the_starter
def test_the_tests_of_a_new_project_pass() -> None:
    create()

    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    process = subprocess.run(command, cwd="shop", env=env, capture_output=True, text=True, check=False, timeout=120)

    assert (process.returncode, "3 passed" in process.stdout) == (0, True), process.stdout


def test_the_printed_commands_can_be_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    folder = "the shop's folder/shop"
    assert main(["new", folder, "--no-lock"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.strip().startswith("cd "))

    process = subprocess.run(["bash", "-c", f"{line}; pwd"], capture_output=True, text=True, check=True)
    assert process.stdout.rstrip("\n") == str(Path(folder).resolve())


def test_the_region_of_the_environment_is_suggested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "ap-southeast-2")

    assert region_and_auth(create()) == ("ap-southeast-2", "Auth=API_KEY")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["My_Shop"], "'My_Shop' is not a valid project name: use 2 to 40 of a-z 0-9 -"),
        (["shop-"], "'shop-' is not a valid project name"),
        (["a--b"], "'a--b' is not a valid project name"),
        (["s" * 41], "is not a valid project name"),
        (["folder", "--name", "1st"], "'1st' is not a valid project name"),
        (["boto3"], "'boto3' is a package that the project depends on: use another name with --name"),
        (["mcp-baton"], "'mcp-baton' is a package that the project depends on"),
        (["shop", "--region", "Frankfurt"], "'Frankfurt' is not the name of an AWS region. Use --region"),
        (["shop", "--auth", "JWT"], "'JWT' is not one of"),
        (["shop", "--wheel", "there.whl"], "there is no file there.whl"),
        (["shop", "--wheel", OTHER_WHEEL], f"uvx --from {OTHER_WHEEL} baton"),
    ],
)
def test_invalid_arguments_are_refused_and_nothing_is_written(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(OTHER_WHEEL).touch()

    assert main(["new", *arguments, "--no-lock"]) == 2

    assert complaint in capsys.readouterr().err
    assert [str(path) for path in Path().iterdir()] == [OTHER_WHEEL]


def test_a_folder_that_is_not_empty_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("shop").mkdir()
    Path("shop/notes.txt").write_text("mine")

    assert main(["new", "shop", "--no-lock"]) == 2

    assert "shop is not empty: name a new folder, or an empty one" in capsys.readouterr().err
    assert files(Path("shop")) == {"notes.txt"}


def test_a_folder_with_only_a_git_repository_is_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    Path("shop/.git").mkdir(parents=True)
    create()

    assert main(["new", "shop", "--no-lock"]) == 2

    assert "shop is not empty" in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["uv", "make"])
def test_a_missing_tool_is_named_before_anything_is_written(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in {"uv", "make"} - {missing}:
        (tools / tool).write_text("#!/bin/sh\n")
        (tools / tool).chmod(0o755)
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.delenv("UV", raising=False)

    assert main(["new", "shop"]) == 2

    error = capsys.readouterr().err
    assert f"baton: {missing}, which" in error
    assert "install it" in error
    assert not Path("shop").exists()


def test_if_a_project_cannot_be_locked_the_message_of_uv_and_the_remedy_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    uv = tmp_path / "failing-uv"
    uv.write_text("#!/bin/sh\necho 'no network' >&2\nexit 2\n")
    uv.chmod(0o755)
    monkeypatch.setenv("UV", str(uv))

    assert main(["new", "shop"]) == 2

    error = capsys.readouterr().err
    assert "uv says:\nno network" in error
    assert "run `make lock` in shop" in error
    assert Path("shop/functions/mcp/app.py").exists()
    assert not Path("shop/layers/baton/requirements.txt").exists()


def toy_wheel(folder: Path, package: str, number: str) -> Path:
    """Write an empty wheel."""
    metadata_folder = f"{package}-{number}.dist-info"
    wheel = folder / f"{package}-{number}-py3-none-any.whl"
    folder.mkdir(exist_ok=True)
    with ZipFile(wheel, "w") as archive:
        archive.writestr(f"{metadata_folder}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: {number}\n")
        archive.writestr(f"{metadata_folder}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{metadata_folder}/RECORD", "")
    return wheel


def test_make_check_refuses_packages_without_a_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = toy_wheel(tmp_path / "wheels", "mcp_baton", version("mcp-baton"))
    toy_wheel(tmp_path / "wheels", "pytest", "9.0.0")
    for name, value in {"UV_FIND_LINKS": str(wheel.parent), "UV_NO_INDEX": "1", "UV_OFFLINE": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{UV}:{os.environ['PATH']}")
    assert main(["new", "shop"]) == 0

    def make(target: str) -> subprocess.CompletedProcess[str]:
        command = ["make", "-C", "shop", target, "SAM=true"]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    for target in ("check", "build"):
        process = make(target)
        assert (process.returncode, "mcp-baton==" in process.stdout) == (2, True), process.stdout + process.stderr
        assert "no hash" in process.stderr
        assert "copy it to layers/baton" in process.stderr

    # The remedy of the message.
    shutil.copyfile(wheel, Path("shop/layers/baton", wheel.name))
    with Path("shop/pyproject.toml").open("a") as project:
        project.write(WHEEL_SOURCE.format(wheel=wheel.name))
    for target in ("lock", "check", "build"):
        process = make(target)
        assert process.returncode == 0, process.stdout + process.stderr


def test_a_project_that_is_made_with_a_wheel_uses_it(tmp_path: Path) -> None:
    wheel = toy_wheel(tmp_path / "wheels", "mcp_baton", version("mcp-baton"))

    project = create("--wheel", str(wheel))

    assert (project / "layers/baton" / wheel.name).read_bytes() == wheel.read_bytes()
    source = tomllib.loads((project / "pyproject.toml").read_text())["tool"]["uv"]["sources"]["mcp-baton"]
    assert source == {"path": f"layers/baton/{wheel.name}"}
