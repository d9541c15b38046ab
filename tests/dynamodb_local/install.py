"""Installs DynamoDB Local from Maven Central: python -m tests.dynamodb_local.install [NOTE]

It uses this machine's Maven with its settings and cache. The files are installed only if their names and digests match
`jars.sha256`. If the machine cannot run the engine, the reason is printed and written into the file NOTE, which
`.ci/run` repeats at its end. That is not a failure.
"""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.dynamodb_local.engine import HERE, LIBRARY, unavailable_reason

LOCK = HERE / "jars.sha256"
INCOMING = HERE / "lib.incoming"


class InstallFailed(Exception):
    """Maven failed, or its files are not the locked ones."""


def parse_digests(text: str) -> dict[str, str]:
    """Return the digests of a list in the format of `sha256sum`, by file."""
    return {name: digest for digest, _, name in (line.partition("  ") for line in text.splitlines())}


def wrong_files(folder: Path, expected: Mapping[str, str]) -> list[str]:
    """Return the names of files in a folder that are missing, changed or unexpected."""
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*")}
    return sorted(name for name in digests.keys() | expected.keys() if digests.get(name) != expected.get(name))


def install() -> None:
    """Install the locked files into `lib`. If they are there already, do not run Maven."""
    expected = parse_digests(LOCK.read_text())
    if not wrong_files(LIBRARY, expected):
        return
    shutil.rmtree(INCOMING, ignore_errors=True)
    command = ["mvn", "--batch-mode", "--quiet", "--file", str(HERE / "pom.xml"), "dependency:copy-dependencies"]
    process = subprocess.run([*command, f"-DoutputDirectory={INCOMING}"], capture_output=True, text=True, check=False)
    if process.returncode:
        raise InstallFailed(f"Maven could not download DynamoDB Local:\n{process.stdout}{process.stderr}")
    files = wrong_files(INCOMING, expected)
    if files:
        raise InstallFailed(f"Maven's files differ from {LOCK.name}: {', '.join(files)}")
    shutil.rmtree(LIBRARY, ignore_errors=True)
    INCOMING.rename(LIBRARY)


def main(note: Path | None) -> int:
    """Install the engine, or report why it is left out. Return the exit code."""
    reason = unavailable_reason()
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
