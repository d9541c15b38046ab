"""The changelog of a release.

    python -m tests.release.changelog release 0.2.0   turns the unreleased changes into version 0.2.0, of today
    python -m tests.release.changelog notes v0.2.0    prints the changes of the tag v0.2.0, for the page of the release

The format is Keep a Changelog 1.1.0 (https://keepachangelog.com/en/1.1.0/). RELEASING.md explains when to run each.
"""

import re
import sys
import tomllib
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

from packaging.version import Version

ROOT: Final = Path(__file__).parents[2]
CHANGELOG: Final = ROOT / "CHANGELOG.md"
UNRELEASED: Final = "## [Unreleased]"
VERSION: Final = r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?"
VERSION_HEADING: Final = re.compile(rf"## \[({VERSION})\] - \d{{4}}-\d{{2}}-\d{{2}}")


class NotReady(Exception):
    """The version cannot be released. The message says what to do."""


def sections(changelog: str) -> tuple[str, dict[str, str]]:
    """Return the unreleased changes, and those of each version, in order."""
    _, *parts = re.split(r"^(?=## )", changelog, flags=re.MULTILINE)
    entries = [(heading, text.strip()) for heading, _, text in (part.partition("\n") for part in parts)]
    if not entries or entries[0][0] != UNRELEASED:
        raise NotReady(f"the first section is {UNRELEASED}")
    versions = [VERSION_HEADING.fullmatch(heading) for heading, _ in entries[1:]]
    if None in versions:
        raise NotReady("the heading of a version is written ## [0.2.0] - 2026-12-31")
    texts = {match[1]: text for match, (_, text) in zip(versions, entries[1:], strict=True) if match}
    if sorted(texts, key=Version, reverse=True) != [match[1] for match in versions if match]:
        raise NotReady("the newest version comes first, and each once")
    return entries[0][1], texts


def release_changelog(changelog: str, version: str, day: date) -> str:
    """Return the changelog with the unreleased changes under this version and day.

    Raises:
        NotReady: there are no unreleased changes, or the version is not newer than the released ones.
    """
    unreleased, versions = sections(changelog)
    if not re.fullmatch(VERSION, version):
        raise NotReady(f"{version!r} is not a version: write 0.2.0, or 0.2.0rc1 for a release candidate")
    if newer := [existing for existing in versions if Version(existing) >= Version(version)]:
        raise NotReady(f"CHANGELOG.md has {newer[0]} already: choose a newer version")
    if not unreleased:
        raise NotReady("CHANGELOG.md has no changes under Unreleased, so there is nothing to release")
    return changelog.replace(UNRELEASED, f"{UNRELEASED}\n\n## [{version}] - {day.isoformat()}", 1)


def notes(changelog: str, tag: str, version: str) -> str:
    """Return the changes of the version that a tag publishes.

    Args:
        changelog: The whole changelog.
        tag: `v` and the version.
        version: The version of the project at this tag.

    Raises:
        NotReady: they do not match.
    """
    unreleased, versions = sections(changelog)
    if tag != f"v{version}":
        raise NotReady(f"the tag is {tag} and pyproject.toml has {version}: the tag of this version is v{version}")
    if next(iter(versions), None) != version or not versions[version]:
        raise NotReady(f"the newest version of CHANGELOG.md is not {version}: run make release VERSION={version}")
    if unreleased:
        raise NotReady(f"CHANGELOG.md has changes under Unreleased that are in {version}: move them to its section")
    return versions[version]


def project_version() -> str:
    version: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    return version


def main(arguments: Sequence[str]) -> int:
    changelog = CHANGELOG.read_text()
    try:
        match arguments:
            case ["release", version]:
                CHANGELOG.write_text(release_changelog(changelog, version, datetime.now(UTC).date()))
            case ["notes", tag]:
                sys.stdout.write(f"{notes(changelog, tag, project_version())}\n")
            case _:
                sys.stderr.write(f"{__doc__}")
                return 2
    except NotReady as error:
        sys.stderr.write(f"not released: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
