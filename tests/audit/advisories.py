"""Runs pip-audit over every package of uv.lock, deployed or not: python -m tests.audit.advisories

Advisories come from PyPI, or else from OSV. A mirror of PyPI often has none of them, and pip-audit then reports "no
known vulnerabilities". So each source is first asked about a release that is known to be vulnerable, and is used only
if it reports that.

If no source is usable, this is printed. It is a failure only if the environment has ADVISORIES=required. Otherwise a
machine that reaches only package registries could never pass.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.audit.findings import ROOT, TOOLS, AuditError, Finding, report

SOURCES = ("pypi", "osv")
KNOWN_VULNERABLE = "jinja2==2.4.1"
"""CVE-2014-0012, CVE-2019-10906 and others."""
DEPLOYED = (ROOT / "layers" / "baton" / "requirements.txt", ROOT / "functions" / "authorizer" / "requirements.txt")
TIMEOUT_S = 5

type Ask = Callable[[str, Sequence[Path]], str]
"""`ask(source, files)` returns pip-audit's report in JSON, or an empty text if there is none."""


def pip_audit(source: str, files: Sequence[Path]) -> str:
    """Ask a source about exactly the packages in requirements files. Nothing is installed."""
    options = f"--vulnerability-service {source} --timeout {TIMEOUT_S} --format json --progress-spinner off"
    words = [word for file in files for word in ("--requirement", file)]
    command = [TOOLS / "pip-audit", *options.split(), "--disable-pip", "--no-deps", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout


def usable_source(ask: Ask, vulnerable_file: Path) -> str | None:
    """Return the first source that knows advisories, or `None`."""
    return next((source for source in SOURCES if any(_vulnerabilities(ask(source, [vulnerable_file])))), None)


def findings(output: str, expected: set[str]) -> Iterator[Finding]:
    """Yield the advisories in pip-audit's report. The report must cover all expected packages."""
    try:
        entries = json.loads(output)["dependencies"]
    except (ValueError, KeyError, TypeError):
        raise AuditError("pip-audit gave no report") from None
    known_packages = {entry["name"] for entry in entries if "vulns" in entry}
    if unknown_packages := expected - known_packages:
        raise AuditError(f"the source of advisories knows nothing of {', '.join(sorted(unknown_packages))}")
    yield from _vulnerabilities(output)


def _vulnerabilities(output: str) -> Iterator[Finding]:
    for entry in json.loads(output)["dependencies"] if output.strip() else []:
        for advisory in entry.get("vulns", []):
            fixed_in = ", ".join(advisory["fix_versions"]) or "no release yet"
            yield Finding(
                advisory["id"], f"{entry['name']} {entry['version']}, fixed in {fixed_in}; `make lock` locks newer ones"
            )


def names_in(requirements: str) -> set[str]:
    """Return the packages in a requirements file of uv, without those that are only for other systems."""
    lines = [line for line in requirements.splitlines() if line and line[0] not in " #-"]
    return {line.partition("==")[0].partition("[")[0] for line in lines if ";" not in line}


def locked(folder: Path) -> list[Path]:
    """Return requirements files that together contain every package of uv.lock, with hashes."""
    export = folder / "locked.txt"
    words = ["export", "--frozen", "--quiet", "--no-emit-project", "--all-extras", "--all-groups", "--no-annotate"]
    process = subprocess.run(
        [os.environ.get("UV", "uv"), *words, "--no-header"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    export.write_text(process.stdout)
    return [*DEPLOYED, export]


def audit(ask: Ask, folder: Path, files: Sequence[Path]) -> str | int:
    """Ask about the packages in these files. Return the exit status, or the reason why the audit was not possible."""
    vulnerable_file = folder / "known.txt"
    vulnerable_file.write_text(f"{KNOWN_VULNERABLE}\n")
    packages = set[str]().union(*(names_in(file.read_text()) for file in files))
    source = usable_source(ask, vulnerable_file)
    if source is None:
        return f"advisories about {len(packages)} locked packages, because neither PyPI nor OSV can be reached"
    return report("advisories", findings(ask(source, files), packages))


def main() -> int:
    with TemporaryDirectory() as folder:
        status = audit(pip_audit, Path(folder), locked(Path(folder)))
    if isinstance(status, int):
        return status
    sys.stderr.write(f"NOT AUDITED: {status}\n")
    return 1 if os.environ.get("ADVISORIES") == "required" else 0


if __name__ == "__main__":
    sys.exit(main())
