"""Bring DynamoDB Local from Maven Central: python -m tests.dynamodb_local.install [NOTE]

Maven is asked, with the settings and the cache that it has here. What it brings is taken only if the files and their
digests are those of `jars.sha256`. Where the machine cannot have the engine, the reason is printed and written into the
file NOTE, which `.ci/run` repeats at its end; that is no failure.
"""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.dynamodb_local.engine import HERE, LIBRARY, left_out

LOCK = HERE / "jars.sha256"
INCOMING = HERE / "lib.incoming"


class InstallFailed(Exception):
    """Maven brought nothing, or not what is locked."""


def locked(text: str) -> dict[str, str]:
    """The files of a list in the form of `sha256sum`, and the digest of each."""
    return {name: digest for digest, _, name in (line.partition("  ") for line in text.splitlines())}


def wrong(folder: Path, expected: Mapping[str, str]) -> list[str]:
    """What is missing from a folder, changed, or there without being expected."""
    there = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*")}
    return sorted(name for name in there.keys() | expected.keys() if there.get(name) != expected.get(name))


def install() -> None:
    """Have what is locked in `lib`; nothing is asked of Maven when it is there already.

    Raises:
        InstallFailed: With what Maven said, or the names of the files that differ.
    """
    expected = locked(LOCK.read_text())
    if not wrong(LIBRARY, expected):
        return
    shutil.rmtree(INCOMING, ignore_errors=True)
    command = ["mvn", "--batch-mode", "--quiet", "--file", str(HERE / "pom.xml"), "dependency:copy-dependencies"]
    brought = subprocess.run([*command, f"-DoutputDirectory={INCOMING}"], capture_output=True, text=True, check=False)
    if brought.returncode:
        raise InstallFailed(f"Maven could not bring DynamoDB Local:\n{brought.stdout}{brought.stderr}")
    differing = wrong(INCOMING, expected)
    if differing:
        raise InstallFailed(f"what Maven brought is not what {LOCK.name} says: {', '.join(differing)}")
    shutil.rmtree(LIBRARY, ignore_errors=True)
    INCOMING.rename(LIBRARY)


def main(note: Path | None) -> int:
    """Install it, or say why it is left out; the exit code."""
    reason = left_out()
    if note is not None:
        note.parent.mkdir(exist_ok=True)
        note.write_text(reason or "")
    if reason is not None:
        sys.stdout.write(f"LEFT OUT: {reason}\n")
        return 0
    try:
        install()
    except InstallFailed as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else None))
