"""The changelog of a release.

    python -m tests.release.changelog release 0.2.0   turns the unreleased changes into version 0.2.0, of today
    python -m tests.release.changelog notes v0.2.0    prints the changes of the tag v0.2.0, for the page of the release

The form is Keep a Changelog 1.1.0 (https://keepachangelog.com/en/1.1.0/). RELEASING.md explains when to run each.
"""

import re
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
CHANGELOG: Final = ROOT / "CHANGELOG.md"
UNRELEASED: Final = "## [Unreleased]"
VERSION: Final = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:(a|b|rc)([1-9]\d*))?")
HEADING: Final = re.compile(r"^## .*$", re.MULTILINE)
RELEASED: Final = re.compile(rf"## \[(?P<version>{VERSION.pattern})\] - (?P<date>\d{{4}}-\d{{2}}-\d{{2}})")


class NotReady(Exception):
    """The version cannot be released. The message says what to do."""


@dataclass(frozen=True, slots=True)
class Section:
    """A version's part of the changelog.

    Attributes:
        heading: The first line.
        text: The lines under the heading.
    """

    heading: str
    text: str

    @property
    def version(self) -> str | None:
        """The version; `None` for unreleased changes and for a heading in another form."""
        found = RELEASED.fullmatch(self.heading)
        return found["version"] if found else None


def sections(changelog: str) -> list[Section]:
    """Return the parts of a changelog, in order."""
    texts = HEADING.split(changelog)[1:]
    return [Section(heading, text.strip()) for heading, text in zip(HEADING.findall(changelog), texts, strict=True)]


def order(version: str) -> tuple[int, ...]:
    """Return the sort key of a version. `0.2.0rc1` comes before `0.2.0`.

    Raises:
        NotReady: the version has another form.
    """
    found = VERSION.fullmatch(version)
    if found is None:
        raise NotReady(f"{version!r} is not a version: write 0.2.0, or 0.2.0rc1 for one that is tried first")
    stage = ("a", "b", "rc", None).index(found[4])
    return (int(found[1]), int(found[2]), int(found[3]), stage, int(found[5] or 0))


def faults(changelog: str, version: str) -> list[str]:
    """Return the mistakes in a changelog of a project that has this version."""
    parts = sections(changelog)
    if not parts or parts[0].heading != UNRELEASED:
        return [f"the first section is {UNRELEASED}"]
    found = [f"{part.heading!r}: write ## [0.2.0] - 2026-12-31" for part in parts[1:] if part.version is None]
    versions = [part.version for part in parts if part.version]
    if sorted(versions, key=order, reverse=True) != versions or len(set(versions)) != len(versions):
        found.append("the newest version comes first, and each once")
    if versions and order(versions[0]) > order(version):
        found.append(f"pyproject.toml has {version}, which is older than {versions[0]}")
    return found


def released(changelog: str, version: str, day: date) -> str:
    """Return the changelog with the unreleased changes under this version and day.

    Raises:
        NotReady: there are no unreleased changes, or the version is not newer than the released ones.
    """
    new = order(version)
    unreleased, *older = sections(changelog)
    for part in older:
        if part.version and order(part.version) >= new:
            raise NotReady(f"CHANGELOG.md has {part.version} already: choose a newer version than that")
    if not unreleased.text:
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
    if tag != f"v{version}":
        raise NotReady(f"the tag is {tag} and pyproject.toml has {version}: the tag of this version is v{version}")
    if wrong := faults(changelog, version):
        raise NotReady(f"CHANGELOG.md: {'; '.join(wrong)}")
    found = next((part for part in sections(changelog) if part.version == version), None)
    if found is None or not found.text:
        raise NotReady(f"CHANGELOG.md says nothing of {version}: run make release VERSION={version}")
    if sections(changelog)[0].text:
        raise NotReady(f"CHANGELOG.md has changes under Unreleased that are in {version}: move them to its section")
    return found.text


def project_version() -> str:
    """Return the version in pyproject.toml."""
    version: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    return version


def main(arguments: Sequence[str]) -> int:
    """Run the command and return the exit code."""
    changelog = CHANGELOG.read_text()
    try:
        match arguments:
            case ["release", version]:
                CHANGELOG.write_text(released(changelog, version, datetime.now(UTC).date()))
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
