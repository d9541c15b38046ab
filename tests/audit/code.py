"""Runs bandit over all code that runs on AWS and all code that users see: python -m tests.audit.code"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.audit.findings import ROOT, TOOLS, AuditError, Finding, report

SOURCES = ("layers", "functions", "examples")


def findings(folder: Path, sources: Sequence[str] = SOURCES) -> Iterator[Finding]:
    """Yield bandit's findings in the Python files of a folder's sources. `# nosec` is ignored: see accepted.toml.

    Raises:
        AuditError: bandit did not read every file.
    """
    options = ["--quiet", "--ignore-nosec", "--format", "json", "--recursive"]
    command = [str(TOOLS / "bandit"), *options, *sources]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    expected = {str(path.relative_to(folder)) for source in sources for path in (folder / source).rglob("*.py")}
    yield from parsed(done.stdout, done.stderr, expected)


def parsed(output: str, errors: str, expected: set[str]) -> Iterator[Finding]:
    """Yield the findings in bandit's report. The report must cover all expected files.

    bandit exits with 0 even if it could not parse a file or a folder does not exist.
    """
    try:
        reported = json.loads(output)
    except ValueError:
        raise AuditError(f"bandit gave no report: {errors.strip()}") from None
    if reported["errors"]:
        raise AuditError(
            "bandit could not read " + ", ".join(f"{e['filename']} ({e['reason']})" for e in reported["errors"])
        )
    if unread := expected - reported["metrics"].keys():
        raise AuditError(f"bandit did not check {', '.join(sorted(unread))}")
    for issue in reported["results"]:
        where = f"{issue['filename']}:{issue['line_number']}"
        yield Finding(f"{issue['test_id']} {issue['filename']}", f"{where}: {issue['issue_text']} {issue['more_info']}")


def main() -> int:
    return report("bandit", findings(ROOT))


if __name__ == "__main__":
    sys.exit(main())
