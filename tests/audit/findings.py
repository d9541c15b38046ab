"""What an auditor found, held against what was accepted (accepted.toml)."""

import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
ACCEPTED = Path(__file__).with_name("accepted.toml")
TOOLS = Path(__file__).parent / ".venv" / "bin"


class AuditError(Exception):
    """An auditor that did not do its work: that is no clean bill."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that an auditor does not like.

    Attributes:
        key: What accepted.toml would call it.
        text: What is wrong and where, for whoever has to mend it.
    """

    key: str
    text: str


def accepted(auditor: str) -> Mapping[str, str]:
    """The reasons of an auditor's table in accepted.toml, by finding.

    Raises:
        AuditError: a finding has no reason.
    """
    table = tomllib.loads(ACCEPTED.read_text())[auditor]
    if silent := [key for key, reason in table.items() if not isinstance(reason, str) or not reason.strip()]:
        raise AuditError(f"accepted.toml, [{auditor}]: no reason is given for {', '.join(silent)}")
    return {str(key): str(reason) for key, reason in table.items()}


def complaints(found: Iterable[Finding], reasons: Mapping[str, str]) -> Iterator[str]:
    """What was found and not accepted, then what was accepted and is not found any more."""
    findings = list(found)
    yield from dict.fromkeys(f"{finding.key}: {finding.text}" for finding in findings if finding.key not in reasons)
    for key in reasons.keys() - {finding.key for finding in findings}:
        yield f"{key}: nothing finds this any more; take it out of accepted.toml"


def report(auditor: str, found: Iterable[Finding]) -> int:
    """Print what is to be done; the exit status. An auditor that did not do its work has failed."""
    try:
        findings = list(found)
        wrong = list(complaints(findings, accepted(auditor)))
    except AuditError as error:
        findings, wrong = [], [str(error)]
    for line in wrong:
        sys.stderr.write(f"{auditor}: {line}\n")
    if not wrong:
        kinds = len({finding.key for finding in findings})
        sys.stdout.write(
            f"{auditor}: nothing new; {kinds} findings are accepted, with reasons, in tests/audit/accepted.toml\n"
        )
    return 1 if wrong else 0
