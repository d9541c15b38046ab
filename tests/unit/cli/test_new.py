"""`baton new`: what it makes, what it asks, and what it refuses before anything is written."""

import json
import os
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from mcp_baton.cli.app import main
from mcp_baton.cli.projects.making import GIVEN_ONCE, SOURCES
from tests.starter import needs_the_starter

ROOT = Path(__file__).parents[3]
UV = ROOT / ".tools" / "uv" / "bin"
BY_HAND = [sys.executable, "-c", "import sys; from mcp_baton.cli.app import main; sys.exit(main())", "new", "shop"]
OWN = {"functions/mcp/app.py", "samconfig.toml", "pyproject.toml", "README.md"}
"""The files in which each project has something of its own."""


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)


def made(*options: str) -> Path:
    """A project, with what comes of these options."""
    assert main(["new", "shop", "--yes", "--no-lock", *options]) == 0
    return Path("shop")


def about(project: Path) -> dict[str, Any]:
    """What is remembered of a project."""
    found: dict[str, Any] = json.loads((project / ".baton/project.json").read_bytes())
    return found


def files(project: Path) -> set[str]:
    return {path.relative_to(project).as_posix() for path in project.rglob("*") if path.is_file()}


def test_a_project_has_every_file_of_the_template_and_remembers_what_an_upgrade_compares() -> None:
    project = made()

    compared = {path: f".baton/generated/{path}.base" for path in set(SOURCES) - GIVEN_ONCE}
    assert files(project) == {*SOURCES, ".baton/project.json", *compared.values()}
    for path, remembered in compared.items():
        assert (project / path).read_bytes() == (project / remembered).read_bytes()


def test_what_is_not_a_projects_own_is_the_file_of_this_repository() -> None:
    project = made()

    shared = {path for path, origin in SOURCES.items() if not origin.startswith("project/")} - OWN
    assert {"template.yaml", "layers/baton/Makefile", "functions/authorizer/tokens.py"} <= shared
    assert [path for path in sorted(shared) if (project / path).read_bytes() != (ROOT / path).read_bytes()] == []


def test_a_project_depends_on_this_version_and_is_deployed_as_was_chosen() -> None:
    shop = made("--region", "eu-central-1", "--auth", "iam")

    own = version("mcp-baton")
    project = tomllib.loads((shop / "pyproject.toml").read_text())
    sam = tomllib.loads((shop / "samconfig.toml").read_text())
    assert project["project"]["name"] == "shop"
    assert project["project"]["dependencies"] == ["mcp-baton[aws]"]
    assert project["dependency-groups"]["baton"] == [f"mcp-baton[local]>={own}"]
    assert project["dependency-groups"]["dev"] == [{"include-group": "baton"}, "pytest>=9"]
    assert sam["default"]["global"]["parameters"] == {"stack_name": "shop", "region": "eu-central-1"}
    assert sam["production"]["global"]["parameters"] == {"stack_name": "shop-production", "region": "eu-central-1"}
    assert sam["default"]["deploy"]["parameters"]["parameter_overrides"] == ["Auth=IAM", "ReservedConcurrency=none"]
    assert about(shop) == {"version": own, "name": "shop", "region": "eu-central-1", "auth": "IAM", "wheel": None}


def test_who_lets_everybody_in_does_not_do_so_in_production() -> None:
    sam = tomllib.loads((made("--auth", "NONE") / "samconfig.toml").read_text())

    assert sam["default"]["deploy"]["parameters"]["parameter_overrides"] == ["Auth=NONE", "ReservedConcurrency=none"]
    assert sam["production"]["deploy"]["parameters"]["parameter_overrides"][0] == "Auth=IAM"


@needs_the_starter
def test_the_tests_of_a_new_project_pass() -> None:
    made()

    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(command, cwd="shop", env=inherited, capture_output=True, text=True, check=False, timeout=120)

    assert (done.returncode, "3 passed" in done.stdout) == (0, True), done.stdout


def test_the_commands_that_come_next_can_be_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    folder = "the shop's folder/shop"
    assert main(["new", folder, "--yes", "--no-lock"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.strip().startswith("cd "))

    done = subprocess.run(["bash", "-c", f"{line}; pwd"], capture_output=True, text=True, check=True)
    assert done.stdout.rstrip("\n") == str(Path(folder).resolve())


def test_two_questions_are_asked_and_the_answers_taken() -> None:
    done = subprocess.run(
        [*BY_HAND, "--no-lock"], input="eu-west-1\nnone\n", capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "AWS region [us-east-1]" in done.stdout
    assert "Who may call (API_KEY, IAM, NONE) [API_KEY]" in done.stdout
    assert about(Path("shop")).items() >= {"region": "eu-west-1", "auth": "NONE"}.items()


def test_where_nobody_answers_the_options_are_named_and_nothing_is_written() -> None:
    done = subprocess.run([*BY_HAND, "--no-lock"], input="", capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "baton: nobody answers: AWS region? Give options, or --yes" in done.stderr
    assert not Path("shop").exists()


def test_the_region_of_the_environment_is_suggested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "ap-southeast-2")

    assert about(made())["region"] == "ap-southeast-2"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["My_Shop"], "'My_Shop' cannot be a project's name: use 2 to 40 of a-z 0-9 -"),
        (["shop-"], "'shop-' cannot be a project's name"),
        (["a--b"], "'a--b' cannot be a project's name"),
        (["s" * 41], "cannot be a project's name"),
        (["folder", "--name", "1st"], "'1st' cannot be a project's name"),
        (["boto3"], "'boto3' is a package that the project depends on: choose another name with --name"),
        (["mcp-baton"], "'mcp-baton' is a package that the project depends on"),
        (["shop", "--region", "Frankfurt"], "'Frankfurt' is not the name of an AWS region, such as eu-central-1"),
        (["shop", "--auth", "JWT"], "'JWT' does not say who may call: use API_KEY, IAM, NONE"),
        (["shop", "--wheel", "there.whl"], "there is no file there.whl"),
    ],
)
def test_what_cannot_be_made_is_refused_and_nothing_is_written(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", *arguments, "--yes", "--no-lock"]) == 2

    captured = capsys.readouterr()
    assert complaint in captured.err
    assert list(Path().iterdir()) == []


def test_a_folder_with_something_in_it_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    Path("shop").mkdir()
    Path("shop/notes.txt").write_text("mine")

    assert main(["new", "shop", "--yes", "--no-lock"]) == 2

    assert "shop is not empty: name a new folder, or an empty one" in capsys.readouterr().err
    assert files(Path("shop")) == {"notes.txt"}


def test_a_fresh_repository_is_empty_enough(capsys: pytest.CaptureFixture[str]) -> None:
    Path("shop/.git").mkdir(parents=True)
    made()

    assert main(["new", "shop", "--yes", "--no-lock"]) == 2

    assert "shop is a project already: `baton upgrade shop` brings it up to date" in capsys.readouterr().err


def test_a_wheel_of_another_version_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mcp_baton-99.0-py3-none-any.whl").touch()

    assert main(["new", "shop", "--yes", "--no-lock", "--wheel", "mcp_baton-99.0-py3-none-any.whl"]) == 2

    assert "uvx --from mcp_baton-99.0-py3-none-any.whl baton" in capsys.readouterr().err
    assert not Path("shop").exists()


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

    assert main(["new", "shop", "--yes"]) == 2

    error = capsys.readouterr().err
    assert f"baton: {missing} is not there" in error
    assert "install it" in error
    assert not Path("shop").exists()


def test_a_project_that_cannot_be_locked_says_what_uv_says_and_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    uv = tmp_path / "failing-uv"
    uv.write_text("#!/bin/sh\necho 'no network' >&2\nexit 2\n")
    uv.chmod(0o755)
    monkeypatch.setenv("UV", str(uv))

    assert main(["new", "shop", "--yes"]) == 2

    error = capsys.readouterr().err
    assert "uv says:\nno network" in error
    assert "run `make lock` in shop" in error
    assert Path("shop/functions/mcp/app.py").exists()
    assert not Path("shop/layers/baton/requirements.txt").exists()


def toy_wheel(folder: Path, package: str, number: str) -> Path:
    """A wheel with nothing in it."""
    about = f"{package}-{number}.dist-info"
    wheel = folder / f"{package}-{number}-py3-none-any.whl"
    folder.mkdir(exist_ok=True)
    with ZipFile(wheel, "w") as archive:
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: {number}\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    return wheel


def test_the_check_refuses_packages_without_a_hash_as_the_build_does_and_its_remedy_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = toy_wheel(tmp_path / "wheels", "mcp_baton", version("mcp-baton"))
    toy_wheel(tmp_path / "wheels", "pytest", "9.0.0")
    for name, value in {"UV_FIND_LINKS": str(wheel.parent), "UV_NO_INDEX": "1", "UV_OFFLINE": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{UV}:{os.environ['PATH']}")
    assert main(["new", "shop", "--yes"]) == 0

    def make(target: str) -> subprocess.CompletedProcess[str]:
        command = ["make", "-C", "shop", target, "SAM=true"]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    for target in ("check", "build"):
        done = make(target)
        assert (done.returncode, "mcp-baton==" in done.stdout) == (2, True), done.stdout + done.stderr
        assert "no hash" in done.stderr
        assert "uv run baton upgrade --wheel FILE" in done.stderr

    assert main(["upgrade", "shop", "--wheel", str(wheel)]) == 0
    assert [make(target).returncode for target in ("check", "build")] == [0, 0]
