"""The outcomes of checks, and their output."""

import sys
from collections.abc import Callable, Iterable
from typing import Literal

from msgspec import Struct

from mcp_baton.local.clean_text import cleaned

type Outcome = Literal["held", "failed", "not checked"]


class Finding(Struct, frozen=True):
    outcome: Outcome
    text: str


def held(text: str) -> Finding:
    return Finding("held", text)


def failed(text: str) -> Finding:
    return Finding("failed", text)


def not_checked(text: str) -> Finding:
    return Finding("not checked", text)


class Report:
    """Runs checks and prints each finding at once."""

    def __init__(self, errors: tuple[type[Exception], ...]) -> None:
        self.findings: list[Finding] = []
        self._errors = errors

    def run(self, name: str, check: Callable[[], Iterable[Finding]]) -> bool:
        """Run a check and print its findings. Return whether none of them failed."""
        before = len(self.findings)
        try:
            for finding in check():
                self.add(name, finding)
        except self._errors as error:
            self.add(name, failed(f"{type(error).__name__}: {error}"))
        return all(finding.outcome != "failed" for finding in self.findings[before:])

    def add(self, name: str, finding: Finding) -> None:
        self.findings.append(finding)
        sys.stdout.write(cleaned(f"{finding.outcome:<11}  {name}: {finding.text}") + "\n")
        sys.stdout.flush()

    def close(self) -> int:
        """Print the numbers of findings. Return the exit code: 1 if a check failed."""
        outcomes = [finding.outcome for finding in self.findings]
        counts = {outcome: outcomes.count(outcome) for outcome in ("held", "not checked", "failed")}
        sys.stdout.write(", ".join(f"{count} {outcome}" for outcome, count in counts.items()) + "\n")
        return 1 if counts["failed"] else 0
