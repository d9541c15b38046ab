"""The changelog: always in its form, and what a release makes of it."""

from datetime import date

import pytest

from tests.release.changelog import CHANGELOG, NotReady, faults, notes, project_version, released

DAY = date(2026, 12, 31)
HEAD = "# Changelog\n\nWhat changes.\n\n"
FIRST = "## [0.1.0] - 2026-11-30\n\n### Added\n\n- All of it.\n"
CHANGED = "## [Unreleased]\n\n### Added\n\n- More.\n\n"


def test_this_changelog_has_its_form_and_no_version_that_the_project_has_not_reached() -> None:
    assert faults(CHANGELOG.read_text(), project_version()) == []


@pytest.mark.parametrize(
    ("changelog", "said"),
    [
        (HEAD + FIRST, "the first section"),
        (HEAD, "the first section"),
        (HEAD + CHANGED + "## 0.1.0\n", "write ## [0.2.0] - 2026-12-31"),
        (HEAD + CHANGED + "## [0.1] - 2026-11-30\n", "write ## [0.2.0] - 2026-12-31"),
        (HEAD + CHANGED + FIRST + "## [0.2.0] - 2026-11-29\n", "the newest version comes first"),
        (HEAD + CHANGED + FIRST + FIRST, "each once"),
        (HEAD + CHANGED + "## [0.3.0] - 2026-11-30\n", "older than 0.3.0"),
    ],
)
def test_a_changelog_out_of_its_form_is_noticed(changelog: str, said: str) -> None:
    [fault] = faults(changelog, "0.2.0")

    assert said in fault


def test_what_was_unreleased_is_the_versions_and_goes_onto_the_page_of_its_release() -> None:
    changelog = released(HEAD + CHANGED + FIRST, "0.2.0", DAY)

    assert changelog == HEAD + "## [Unreleased]\n\n## [0.2.0] - 2026-12-31\n\n### Added\n\n- More.\n\n" + FIRST
    assert notes(changelog, "v0.2.0", "0.2.0") == "### Added\n\n- More."


def test_a_release_candidate_comes_before_its_version() -> None:
    candidate = released(HEAD + CHANGED + FIRST, "0.2.0rc1", DAY)

    assert faults(candidate, "0.2.0rc1") == []
    assert released(candidate.replace("## [Unreleased]\n\n", CHANGED), "0.2.0", DAY)


@pytest.mark.parametrize(
    ("changelog", "version", "said"),
    [
        (HEAD + CHANGED + FIRST, "0.1.0", "has 0.1.0 already"),
        (HEAD + CHANGED + FIRST, "0.0.9", "choose a newer version"),
        (HEAD + CHANGED + FIRST, "v0.2.0", "is not a version"),
        (HEAD + CHANGED, "", "is not a version"),
        (HEAD + "## [Unreleased]\n\n" + FIRST, "0.2.0", "nothing to release"),
    ],
)
def test_what_cannot_become_a_version_is_refused(changelog: str, version: str, said: str) -> None:
    with pytest.raises(NotReady, match=said):
        released(changelog, version, DAY)


@pytest.mark.parametrize(
    ("changelog", "tag", "said"),
    [
        (HEAD + "## [Unreleased]\n\n" + FIRST, "v0.1.1", "the tag of this version is v0.1.0"),
        (HEAD + CHANGED, "v0.1.0", "run make release VERSION=0.1.0"),
        (HEAD + CHANGED + FIRST, "v0.1.0", "move them"),
        (HEAD + FIRST, "v0.1.0", "the first section"),
    ],
)
def test_a_tag_without_a_section_in_the_changelog_publishes_nothing(changelog: str, tag: str, said: str) -> None:
    with pytest.raises(NotReady, match=said):
        notes(changelog, tag, "0.1.0")
