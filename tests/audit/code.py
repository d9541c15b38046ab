"""Runs bandit over all code that runs on AWS and all code that users see: python -m tests.audit.code"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.audit.findings import ROOT, TOOLS, AuditError, Finding, report

SOURCES = ("layers", "functions", "examples")


def findings(folder: Path, sources: Sequence[str] = SOURCES) -> Iterator[Finding]:
    """Yield bandit's findings in the Python files of a folder's sources. `# nosec` is ignored: see accepted.toml."""
    options = ["--quiet", "--ignore-nosec", "--format", "json", "--recursive"]
    command = [str(TOOLS / "bandit"), *options, *sources]
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    expected = {str(path.relative_to(folder)) for source in sources for path in (folder / source).rglob("*.py")}
    yield from parse(process.stdout, process.stderr, expected)


def parse(output: str, errors: str, expected: set[str]) -> Iterator[Finding]:
    """Yield the findings in bandit's report. The report must cover all expected files.

    bandit exits with 0 even if it could not parse a file or a folder does not exist.
    """
    try:
        bandit_report = json.loads(output)
    except ValueError:
        raise AuditError(f"bandit gave no report: {errors.strip()}") from None
    if failures := ", ".join(f"{error['filename']} ({error['reason']})" for error in bandit_report["errors"]):
        raise AuditError(f"bandit could not read {failures}")
    if unread_files := expected - bandit_report["metrics"].keys():
        raise AuditError(f"bandit did not check {', '.join(sorted(unread_files))}")
    for issue in bandit_report["results"]:
        place = f"{issue['filename']}:{issue['line_number']}"
        yield Finding(f"{issue['test_id']} {issue['filename']}", f"{place}: {issue['issue_text']} {issue['more_info']}")


def main() -> int:
    return report("bandit", findings(ROOT))


if __name__ == "__main__":
    sys.exit(main())
