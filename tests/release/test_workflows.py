"""The workflows of GitHub Actions: all actions are pinned, and only one job may publish."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.release.conftest import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT_WORKFLOWS = sorted((ROOT / "project" / "github" / "workflows").glob("*.yml"))
"""The workflows in a project from `baton new`."""

PINNED = re.compile(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")


def jobs(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(path.read_text())["jobs"]
    return content


@pytest.mark.parametrize("path", [*WORKFLOWS, *PROJECT_WORKFLOWS], ids=lambda path: path.name)
def test_every_action_is_pinned_to_a_commit_with_a_version_comment(path: Path) -> None:
    actions = re.findall(r"uses: (.*)", path.read_text())

    assert actions
    assert [action for action in actions if not PINNED.fullmatch(action)] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_have_no_permissions_except_those_of_their_jobs(path: Path) -> None:
    assert yaml.safe_load(path.read_text())["permissions"] == {}
    assert all("permissions" in job for job in jobs(path).values())


@pytest.mark.parametrize("path", PROJECT_WORKFLOWS, ids=lambda path: path.name)
def test_a_projects_workflow_may_read_the_repository_and_keeps_no_credentials(path: Path) -> None:
    assert yaml.safe_load(path.read_text())["permissions"] == {"contents": "read"}
    steps = [step for job in jobs(path).values() for step in job["steps"]]
    checkouts = [step for step in steps if step.get("uses", "").startswith("actions/checkout@")]
    assert [step["with"] for step in checkouts] == [{"persist-credentials": False}] * len(checkouts)
    assert checkouts
    assert not any("permissions" in job for job in jobs(path).values())


def test_the_publishing_job_runs_no_code_of_the_repository() -> None:
    release = jobs(WORKFLOWS[-1])

    assert [name for name, job in release.items() if "id-token" in job["permissions"]] == ["publish"]
    [download, publish] = release["publish"]["steps"]
    assert download["uses"].startswith("actions/download-artifact@")
    assert publish["uses"].startswith("pypa/gh-action-pypi-publish@")
    assert release["publish"]["environment"]["name"] == "pypi"
    steps = [step for step in release["build"]["steps"] if "run" in step]
    [notes, everything, audit, dist] = [step["run"] for step in steps]
    assert 'notes "$GITHUB_REF_NAME"' in notes
    assert "bash .ci/run" in everything
    assert (audit, steps[2]["env"]) == ("make audit", {"ADVISORIES": "required"})
    assert "make dist" in dist
