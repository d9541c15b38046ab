"""An audit counts only if the auditor checked everything. Its findings are fixed, or accepted with a reason."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.audit import advisories, code, stacks
from tests.audit.advisories import Ask, audit
from tests.audit.findings import TOOLS, AuditError, Finding, complaints
from tests.processes import missing

REQUIREMENTS = (
    'boto3==1.2 \\\n    --hash=sha256:00\npyjwt[crypto]==2 \\\n    --hash=sha256:00\ncolorama==0.4 ; os == "win"\n'
)


def package(name: str, *ids: str) -> dict[str, Any]:
    return {"name": name, "version": "1", "vulns": [{"id": key, "fix_versions": ["2"], "aliases": []} for key in ids]}


def report_of(*packages: dict[str, Any]) -> str:
    return json.dumps({"dependencies": packages, "fixes": []})


def skipped(name: str) -> dict[str, Any]:
    """Return pip-audit's entry for a package that its source does not have. pip-audit exits with 0 then."""
    return {"name": name, "skip_reason": "Dependency not found on PyPI and could not be audited"}


def source(*reports: str) -> Ask:
    """Return a source that gives these reports, the first one about the release that is known to be vulnerable."""
    remaining = [*reports]
    return lambda _source, _files: remaining.pop(0)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    (tmp_path / "requirements.txt").write_text(REQUIREMENTS)
    return [tmp_path / "requirements.txt"]


def test_unaccepted_findings_and_unused_acceptances_are_complaints() -> None:
    findings = [Finding("B102 a.py", "a.py:3: exec"), Finding("B311 b.py", "b.py:1: random")]

    assert list(complaints(findings, {"B311 b.py": "jitter"})) == ["B102 a.py: a.py:3: exec"]
    [complaint] = complaints([], {"B311 b.py": "jitter"})
    assert complaint.startswith("B311 b.py: nothing finds this any more")


def test_a_file_that_bandit_did_not_read_fails_the_audit() -> None:
    report = {"errors": [], "metrics": {"_totals": {}, "a.py": {}}, "results": []}

    with pytest.raises(AuditError, match=r"did not check b\.py"):
        list(code.parse(json.dumps(report), "", {"a.py", "b.py"}))


def test_dangerous_code_is_found_despite_a_nosec_comment(tmp_path: Path) -> None:
    if not (TOOLS / "bandit").exists():
        missing("the auditors are not installed; `make test` does it: uv sync --project tests/audit --frozen")
    (tmp_path / "functions").mkdir()
    (tmp_path / "functions" / "app.py").write_text('type Text = str\nexec("1")  # nosec\n')

    assert [finding.key for finding in code.findings(tmp_path, ["functions"])] == ["B102 functions/app.py"]


def test_a_stack_that_checkov_does_not_report_fails_the_audit() -> None:
    check = {"check": "CKV_AWS_1", "name": "x", "resource": "AWS::S3::Bucket.B", "file": "/JWT.json"}
    report = {"failed": [check], "unread": []}

    with pytest.raises(AuditError, match="IAM"):
        list(stacks.parse(json.dumps(report), "", {"JWT", "IAM"}))


@pytest.mark.parametrize("parse", [code.parse, stacks.parse], ids=["bandit", "checkov"])
def test_an_auditor_that_crashes_fails_the_audit(parse: Any) -> None:
    with pytest.raises(AuditError, match="no such option"):
        list(parse("", "no such option", set()))


def test_an_advisory_about_a_locked_package_fails_the_audit(
    files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    advisory_report = report_of(package("boto3"), package("pyjwt", "PYSEC-2026-7"))

    assert audit(source(report_of(package("jinja2", "CVE-2019-10906")), advisory_report), tmp_path, files) == 1
    assert "PYSEC-2026-7: pyjwt 1, fixed in 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    "silence", ["", report_of(skipped("jinja2")), report_of(package("jinja2"))], ids=["dead", "unknown", "clean"]
)
def test_a_source_without_a_known_vulnerability_is_not_trusted(silence: str, files: list[Path], tmp_path: Path) -> None:
    result = audit(source(silence, silence), tmp_path, files)

    assert result == "advisories about 2 locked packages, because neither PyPI nor OSV can be reached"


@pytest.mark.parametrize(
    ("status", "advisories_setting", "exit_status"),
    [("not reached", "", 0), ("not reached", "required", 1), (1, "", 1)],
)
def test_a_missing_audit_is_said_and_fails_if_required(
    status: str | int,
    advisories_setting: str,
    exit_status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ADVISORIES", advisories_setting)
    monkeypatch.setattr(advisories, "locked", lambda _folder: [])
    monkeypatch.setattr(advisories, "audit", lambda *_: status)

    assert advisories.main() == exit_status
    assert capsys.readouterr().err == ("NOT AUDITED: not reached\n" if status == "not reached" else "")
