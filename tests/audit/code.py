"""bandit over everything that runs on AWS and everything that users are shown: python -m tests.audit.code"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.audit.findings import ROOT, TOOLS, AuditError, Finding, report

SOURCES = ("layers", "functions", "examples")


def findings(folder: Path, sources: Sequence[str] = SOURCES) -> Iterator[Finding]:
    """What bandit finds in the Python files below a folder's sources. `# nosec` is not heard: see accepted.toml.

    Raises:
        AuditError: bandit did not read every file.
    """
    options = ["--quiet", "--ignore-nosec", "--format", "json", "--recursive"]
    command = [str(TOOLS / "bandit"), *options, *sources]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    expected = {str(path.relative_to(folder)) for source in sources for path in (folder / source).rglob("*.py")}
    yield from parsed(done.stdout, done.stderr, expected)


def parsed(output: str, errors: str, expected: set[str]) -> Iterator[Finding]:
    """The findings in bandit's report, which must speak of all the files that were expected.

    bandit ends with 0 when it could not parse a file, and when it was given a folder that is not there.
    """
    try:
        reported = json.loads(output)
    except ValueError:
        raise AuditError(f"bandit told nothing: {errors.strip()}") from None
    if reported["errors"]:
        raise AuditError(
            "bandit could not read " + ", ".join(f"{e['filename']} ({e['reason']})" for e in reported["errors"])
        )
    if unread := expected - reported["metrics"].keys():
        raise AuditError(f"bandit did not look at {', '.join(sorted(unread))}")
    for issue in reported["results"]:
        where = f"{issue['filename']}:{issue['line_number']}"
        yield Finding(f"{issue['test_id']} {issue['filename']}", f"{where}: {issue['issue_text']} {issue['more_info']}")


def main() -> int:
    return report("bandit", findings(ROOT))


if __name__ == "__main__":
    sys.exit(main())
