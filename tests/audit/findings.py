"""Compares an auditor's findings with the accepted ones (accepted.toml)."""

import sys
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
ACCEPTED = Path(__file__).with_name("accepted.toml")
TOOLS = Path(__file__).parent / ".venv" / "bin"


class AuditError(Exception):
    """An auditor failed, so its lack of findings means nothing."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding of an auditor: its key in accepted.toml, and the problem with its place."""

    key: str
    text: str


def accepted(auditor: str) -> Mapping[str, str]:
    """Return the reasons in an auditor's table of accepted.toml, by finding."""
    table = tomllib.loads(ACCEPTED.read_text())[auditor]
    if bare_keys := [key for key, reason in table.items() if not isinstance(reason, str) or not reason.strip()]:
        raise AuditError(f"accepted.toml, [{auditor}]: no reason is given for {', '.join(bare_keys)}")
    return {str(key): str(reason) for key, reason in table.items()}


def complaints(findings: Collection[Finding], reasons: Mapping[str, str]) -> Iterator[str]:
    """Yield the findings that are not accepted, and then the accepted ones that are no longer found."""
    yield from dict.fromkeys(f"{finding.key}: {finding.text}" for finding in findings if finding.key not in reasons)
    for key in reasons.keys() - {finding.key for finding in findings}:
        yield f"{key}: nothing finds this any more; take it out of accepted.toml"


def report(auditor: str, findings: Iterable[Finding]) -> int:
    """Print the complaints and return the exit status. A failed auditor is a failure."""
    try:
        all_findings = list(findings)
        problems = list(complaints(all_findings, accepted(auditor)))
    except AuditError as error:
        all_findings, problems = [], [str(error)]
    for line in problems:
        sys.stderr.write(f"{auditor}: {line}\n")
    if not problems:
        kinds = len({finding.key for finding in all_findings})
        sys.stdout.write(
            f"{auditor}: nothing new; {kinds} findings are accepted, with reasons, in tests/audit/accepted.toml\n"
        )
    return 1 if problems else 0
