"""The setup of DynamoDB Local: only what is locked is taken, and a machine that cannot have it is told why."""

import hashlib
from pathlib import Path

import pytest

from tests.dynamodb_local import engine, install

RIGHT = {"a.jar": hashlib.sha256(b"a").hexdigest(), "b.jar": hashlib.sha256(b"b").hexdigest()}


@pytest.fixture
def maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose files a Maven of the test's own brings; `lib` beside it is where they go."""
    source, programs = tmp_path / "source", tmp_path / "bin"
    source.mkdir()
    programs.mkdir()
    program = programs / "mvn"
    program.write_text(f'#!/bin/sh\nfor last; do :; done\ntouch "{tmp_path}/asked"\ncp -r "{source}" "${{last#*=}}"\n')
    program.chmod(0o755)
    (tmp_path / "jars.sha256").write_text("".join(f"{digest}  {name}\n" for name, digest in RIGHT.items()))
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    for name, path in (("LOCK", "jars.sha256"), ("LIBRARY", "lib"), ("INCOMING", "lib.incoming")):
        monkeypatch.setattr(install, name, tmp_path / path)
    for name in RIGHT:
        (source / name).write_bytes(name[0].encode())
    return source


def test_locked_packages_are_listed_once(maven: Path) -> None:
    install.install()
    (maven.parent / "asked").unlink()
    install.install()

    assert sorted(path.name for path in (maven.parent / "lib").iterdir()) == ["a.jar", "b.jar"]
    assert not (maven.parent / "asked").exists()


@pytest.mark.parametrize(
    ("name", "content"), [("a.jar", b"changed"), ("c.jar", b"not locked"), ("b.jar", None)], ids=str
)
def test_other_files_are_refused_and_nothing_is_installed(maven: Path, name: str, content: bytes | None) -> None:
    if content is None:
        (maven / name).unlink()
    else:
        (maven / name).write_bytes(content)

    with pytest.raises(install.InstallFailed, match=name):
        install.install()
    assert not (maven.parent / "lib").exists()


@pytest.mark.parametrize(
    ("machine", "java", "reason"),
    [
        ("x86_64", None, "Java 17 or newer, which is missing"),
        ("x86_64", "11.0.2", "which is 11"),
        ("x86_64", "1.8.0_402", "which is 8"),
        ("x86_64", "17.0.15", "(mvn), which is missing"),
        ("aarch64", "17.0.15", "aarch64"),
    ],
)
def test_without_a_new_java_maven_or_a_processor_with_its_sqlite_it_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: str, java: str | None, reason: str
) -> None:
    have(tmp_path, monkeypatch, java, machine)

    assert reason in str(engine.left_out())


def have(folder: Path, monkeypatch: pytest.MonkeyPatch, java: str | None, machine: str = "x86_64") -> None:
    """Put a Java of this version on the path of such a machine with Linux, and nothing else."""
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr("platform.system", lambda: "Linux")
    if java is not None:
        program = folder / "java"
        program.write_text(f"#!/bin/sh\necho 'openjdk version \"{java}\" 2025-04-15' >&2\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
