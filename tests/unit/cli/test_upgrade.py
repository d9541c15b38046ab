"""`baton upgrade` installs a newer template and keeps the user's changes."""

import json
from importlib.metadata import version
from pathlib import Path

import pytest

from mcp_baton.cli import project as projects
from mcp_baton.cli.app import main
from mcp_baton.cli.upgrade import FileAction, decide, merge_versions

OLD, NEW, MINE = b"old", b"new", b"mine"
NEWER = '{"version": "99.1", "name": "shop", "region": "eu-west-1", "auth": "IAM", "wheel": null}'
LINES = [f"line {number}" for number in range(20)]


def text(**changes: str) -> bytes:
    """Return twenty lines, some of them changed, such as `text(line_3="…")`."""
    return "".join(f"{changes.get(line.replace(' ', '_'), line)}\n" for line in LINES).encode()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of version 0.0.1."""
    monkeypatch.chdir(tmp_path)
    assert main(["new", "shop", "--yes", "--no-lock", "--region", "eu-west-1"]) == 0
    remember(tmp_path / "shop", version="0.0.1")
    return tmp_path / "shop"


def remember(project: Path, **changes: str) -> None:
    """Change what `.baton/project.json` stores."""
    record = project / ".baton" / "project.json"
    record.write_text(json.dumps({**json.loads(record.read_bytes()), **changes}))


def change_on_both_sides(project: Path) -> str:
    """Change one line of a file as the user and another as the template. Return the merged content."""
    template = project / "template.yaml"
    newest = template.read_text()
    write_generated(project, template.name, newest.replace("Default: 512", "Default: 256").encode())
    template.write_text(template.read_text().replace("Description: The MCP endpoint", "Description: Mine"))
    return newest.replace("Description: The MCP endpoint", "Description: Mine")


def write_generated(project: Path, path: str, content: bytes) -> None:
    """Make a file look as if the older version had generated it with this content."""
    (project / path).write_bytes(content)
    (project / ".baton" / "generated" / f"{path}.base").write_bytes(content)


def upgrade(project: Path) -> int:
    return main(["upgrade", str(project)])


@pytest.mark.parametrize(
    ("base", "mine", "theirs", "action"),
    [
        (OLD, OLD, OLD, FileAction.KEPT),
        (OLD, MINE, OLD, FileAction.KEPT),
        (OLD, None, OLD, FileAction.KEPT),
        (OLD, NEW, NEW, FileAction.KEPT),
        (None, NEW, NEW, FileAction.KEPT),
        (OLD, None, None, FileAction.KEPT),
        (None, None, NEW, FileAction.ADDED),
        (OLD, OLD, NEW, FileAction.REPLACED),
        (OLD, OLD, None, FileAction.REMOVED),
        (OLD, None, NEW, FileAction.LEFT_OUT),
        (OLD, MINE, None, FileAction.ORPHANED),
        (OLD, MINE, NEW, FileAction.CONFLICT),
        (None, MINE, NEW, FileAction.CONFLICT),
    ],
)
def test_the_fate_of_a_file_depends_on_three_versions(
    base: bytes | None, mine: bytes | None, theirs: bytes | None, action: FileAction
) -> None:
    assert decide(base, mine, theirs) is action


def test_a_conflict_contains_both_changes() -> None:
    content, is_merged = merge_versions(text(), text(line_2="mine"), text(line_2="theirs"))

    assert not is_merged
    assert b"<<<<<<< yours\nmine\n" in content
    assert b"=======\ntheirs\n>>>>>>> template\n" in content


@pytest.mark.parametrize(("mine", "theirs"), [(b"\x00mine\xff", b"\x00theirs\xff"), (b"\x00a" * 9, b"b")])
def test_binary_files_are_not_merged(mine: bytes, theirs: bytes) -> None:
    assert merge_versions(b"\x00old\xff", mine, theirs) == (theirs, False)


def test_without_git_the_result_is_the_templates_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert merge_versions(text(), text(line_2="mine"), text(line_15="theirs")) == (text(line_15="theirs"), False)


def test_a_project_of_this_version_is_not_changed(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {path: path.read_bytes() for path in project.rglob("*") if path.is_file() and path.name != "project.json"}

    assert upgrade(project) == 0

    assert "from 0.0.1 to" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in files} == files
    assert json.loads((project / ".baton/project.json").read_bytes())["region"] == "eu-west-1"


def test_unchanged_files_are_replaced_added_and_removed(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    newest = (project / "template.yaml").read_bytes()
    write_generated(project, "template.yaml", b"an old template\n")
    write_generated(project, "old.txt", b"no longer\n")
    (project / "sam-local.json").unlink()
    (project / ".baton/generated/sam-local.json.base").unlink()

    assert upgrade(project) == 0

    assert (project / "template.yaml").read_bytes() == newest
    assert (project / "sam-local.json").exists()
    assert not (project / "old.txt").exists()
    output = capsys.readouterr().out
    for line in ("added:\n  sam-local.json", "replaced:\n  template.yaml", "removed:\n  old.txt"):
        assert line in output


def test_an_upgrade_merges_the_changes_of_the_user_and_the_template(project: Path) -> None:
    merged = change_on_both_sides(project)

    assert upgrade(project) == 0

    assert (project / "template.yaml").read_text() == merged
    assert list(project.rglob("*.new")) == []


def test_upgrades_do_not_change_the_server_its_tests_and_the_readme(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "functions/mcp/app.py").write_text("mine")
    (project / "tests/test_app.py").unlink()
    (project / "README.md").write_text("mine")

    assert upgrade(project) == 0

    assert "no file changed" in capsys.readouterr().out
    assert (project / "functions/mcp/app.py").read_text() == (project / "README.md").read_text() == "mine"
    assert not (project / "tests/test_app.py").exists()


def test_in_a_conflict_the_users_file_stays_and_the_next_upgrade_is_refused_until_it_is_resolved(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newest = (project / "template.yaml").read_text()
    write_generated(project, "template.yaml", newest.replace("Default: 512", "Default: 256").encode())
    mine = newest.replace("Default: 512", "Default: 1024")
    (project / "template.yaml").write_text(mine)

    assert upgrade(project) == 1

    assert "template.yaml  (see template.yaml.new)" in capsys.readouterr().out
    assert (project / "template.yaml").read_text() == mine
    conflict = (project / "template.yaml.new").read_text()
    assert "Default: 1024" in conflict
    assert "Default: 512" in conflict

    assert upgrade(project) == 2
    assert (
        "an earlier upgrade has unresolved conflicts: copy what you need from template.yaml.new"
        in capsys.readouterr().err
    )

    (project / "template.yaml.new").unlink()
    assert upgrade(project) == 0
    assert (project / "template.yaml").read_text() == mine


def test_a_users_file_that_the_template_also_adds_stays(project: Path) -> None:
    (project / ".baton/generated/sam-local.json.base").unlink()
    (project / "sam-local.json").write_text("mine")

    assert upgrade(project) == 1

    assert (project / "sam-local.json").read_text() == "mine"
    assert "McpFunction" in (project / "sam-local.json.new").read_text()


def test_deleted_files_are_not_restored_and_changed_files_are_not_removed(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_generated(project, "sam-local.json", b"old\n")
    (project / "sam-local.json").unlink()
    write_generated(project, "old.txt", b"no longer\n")
    (project / "old.txt").write_bytes(b"mine\n")

    assert upgrade(project) == 0

    assert not (project / "sam-local.json").exists()
    assert (project / "old.txt").read_bytes() == b"mine\n"
    output = capsys.readouterr().out
    assert "not restored: you deleted it:\n  sam-local.json" in output
    assert "the template no longer has it:\n  old.txt" in output


def test_an_interrupted_upgrade_can_be_repeated(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    merged = change_on_both_sides(project)

    def raise_error(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(projects, "write_record", raise_error)
        with pytest.raises(ZeroDivisionError):
            upgrade(project)
    assert upgrade(project) == 0

    assert (project / "template.yaml").read_text() == merged


@pytest.mark.parametrize(
    ("record", "complaint"),
    [
        (None, "is not a project that `baton new` made"),
        *((unreadable, "project.json cannot be read") for unreadable in ("{", "{}", '{"version": "x"}', "[]")),
        (NEWER, "the project was made by Baton 99.1"),
    ],
)
def test_an_invalid_project_is_refused(
    project: Path, record: str | None, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = project / ".baton/project.json"
    file.unlink() if record is None else file.write_text(record)

    assert upgrade(project) == 2

    assert complaint in capsys.readouterr().err


def test_a_project_with_a_wheel_needs_the_new_wheel(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel = "mcp_baton-0.0.1-py3-none-any.whl"
    remember(project, wheel=wheel)
    (project / "layers/baton" / wheel).touch()

    assert upgrade(project) == 2
    assert f"the project uses Baton from the wheel {wheel}" in capsys.readouterr().err

    assert main(["upgrade", str(project), "--wheel", "none"]) == 0
    assert json.loads((project / ".baton/project.json").read_bytes())["wheel"] is None
    assert list((project / "layers/baton").glob("*.whl")) == []


def test_a_new_package_and_a_new_version_of_baton_are_merged(project: Path) -> None:
    file = project / "pyproject.toml"
    newest = file.read_text()
    write_generated(project, "pyproject.toml", newest.replace("[local]>=", "[local]>=0.0.1,!=").encode())

    def with_packages(text: str) -> str:
        """Make the changes of `uv add httpx` and `uv add --dev ruff`."""
        text = text.replace('  "mcp-baton[aws]",\n', '  "httpx>=0.28",\n  "mcp-baton[aws]",\n')
        return text.replace('  "pytest>=9",\n', '  "pytest>=9",\n  "ruff>=0.14",\n')

    file.write_text(with_packages(file.read_text()))

    assert upgrade(project) == 0

    assert file.read_text() == with_packages(newest)
    assert file.read_text() != newest


def test_the_wheel_stays_while_a_conflict_keeps_it_in_use(project: Path, tmp_path: Path) -> None:
    old_wheel = project / "layers" / "baton" / "mcp_baton-0.0.1-py3-none-any.whl"
    new_wheel = tmp_path / f"mcp_baton-{version('mcp-baton')}-py3-none-any.whl"
    old_wheel.touch()
    new_wheel.touch()
    remember(project, wheel=old_wheel.name)
    file = project / "pyproject.toml"
    write_generated(project, "pyproject.toml", f"{file.read_text()}# from {old_wheel.name}\n".encode())
    file.write_text(f"{file.read_text()}# mine\n")

    assert main(["upgrade", str(project), "--wheel", str(new_wheel)]) == 1

    assert (old_wheel.exists(), (old_wheel.parent / new_wheel.name).exists()) == (True, True)
    assert new_wheel.name in (project / "pyproject.toml.new").read_text()


LINKED = [
    "template.yaml",
    "template.yaml.new",
    "functions/authorizer",
    "layers/baton",
    "layers/baton/mcp_baton-0.0.1-py3-none-any.whl",
    "pyproject.toml",
    ".baton",
    ".baton/project.json",
    ".baton/generated",
    ".baton/generated/template.yaml.base",
]


@pytest.mark.parametrize("dangling", [False, True])
@pytest.mark.parametrize("path", LINKED)
def test_an_upgrade_does_not_follow_links(
    project: Path, tmp_path: Path, path: str, dangling: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    write_generated(project, "template.yaml", b"an old template\n")
    remember(project, wheel="mcp_baton-0.0.1-py3-none-any.whl")
    file, outside = project / path, tmp_path / "outside"
    if file.exists():
        file.rename(outside)
    else:
        outside.write_text("s3cret")
    file.symlink_to(outside)
    if dangling:
        outside.rename(tmp_path / "elsewhere")
    contents_before = contents(tmp_path)

    assert main(["upgrade", str(project), "--wheel", "none"]) == 2

    assert f"{file} is a symbolic link" in capsys.readouterr().err
    assert contents(tmp_path) == contents_before


def contents(folder: Path) -> dict[Path, bytes]:
    """Return the content of each file in a folder, without links."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and not path.is_symlink()}


def test_the_projects_makefile_runs_only_with_lock(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("UV", "true")
    (project / "Makefile").write_text("lock:\n\t@touch ran\n")

    assert main(["upgrade", str(project)]) == 0
    assert not (project / "ran").exists()
    assert 'Run `make lock ARGS="--upgrade-package mcp-baton"`' in capsys.readouterr().out

    assert main(["upgrade", str(project), "--lock"]) == 0
    assert (project / "ran").exists()
