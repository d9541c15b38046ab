"""The changelog's format, and its changes for a release."""

from datetime import date

import pytest

from tests.release.changelog import CHANGELOG, NotReady, notes, release_changelog, sections

DAY = date(2026, 12, 31)
HEAD = "# Changelog\n\nWhat changes.\n\n"
FIRST = "## [0.1.0] - 2026-11-30\n\n### Added\n\n- All of it.\n"
EMPTY = "## [Unreleased]\n\n"
CHANGES = EMPTY + "### Added\n\n- More.\n\n"


def test_the_changelog_has_the_required_format() -> None:
    sections(CHANGELOG.read_text())


def test_a_release_moves_the_unreleased_changes_to_the_version() -> None:
    candidate = release_changelog(HEAD + CHANGES + FIRST, "0.2.0rc1", DAY)
    assert candidate == HEAD + EMPTY + "## [0.2.0rc1] - 2026-12-31\n\n### Added\n\n- More.\n\n" + FIRST
    assert notes(candidate, "v0.2.0rc1", "0.2.0rc1") == "### Added\n\n- More."

    # A release candidate comes before its version.
    assert "## [0.2.0] - 2026-12-31" in release_changelog(candidate.replace(EMPTY, CHANGES), "0.2.0", DAY)


@pytest.mark.parametrize(
    ("changelog", "version", "message"),
    [
        (HEAD, "0.2.0", "the first section"),
        (HEAD + CHANGES + "## 0.1.0\n", "0.2.0", "is written ## "),
        (HEAD + CHANGES + FIRST + FIRST.replace("0.1.0", "0.1.1"), "0.2.0", "the newest version comes first"),
        (HEAD + CHANGES + FIRST + FIRST, "0.2.0", "each once"),
        (HEAD + CHANGES + FIRST, "0.1.0", "has 0.1.0 already"),
        (HEAD + CHANGES + FIRST, "v0.2.0", "is not a version"),
        (HEAD + EMPTY + FIRST, "0.2.0", "nothing to release"),
    ],
)
def test_an_invalid_changelog_or_version_is_rejected(changelog: str, version: str, message: str) -> None:
    with pytest.raises(NotReady, match=message):
        release_changelog(changelog, version, DAY)


@pytest.mark.parametrize(
    ("changelog", "tag", "message"),
    [
        (HEAD + EMPTY + FIRST, "v0.1.1", "the tag of this version is v0.1.0"),
        (HEAD + CHANGES, "v0.1.0", "run make release VERSION=0.1.0"),
        (HEAD + CHANGES + FIRST, "v0.1.0", "move them"),
    ],
)
def test_a_tag_without_a_matching_section_publishes_nothing(changelog: str, tag: str, message: str) -> None:
    with pytest.raises(NotReady, match=message):
        notes(changelog, tag, "0.1.0")
