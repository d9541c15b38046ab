"""Runs checkov over the template's stacks: python -m tests.audit.stacks

checkov does not evaluate `Fn::If`. So it gets the translated template with inserted parameters and evaluated conditions
(tests/template), which contains exactly what is created. It runs offline (checkov_stacks.py).
"""

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.audit.findings import TOOLS, AuditError, Finding, report
from tests.template.cloudformation import Stack
from tests.template.conftest import MODES, ROOT, SAM

SWITCHED_ON: Mapping[str, str] = {"Dashboard": "on"}
"""Parameters that are off by default and create their own resources."""

CHECKOV = Path(__file__).with_name("checkov_stacks.py")


def translated_template() -> Any:
    """Return the template as CloudFormation would translate it."""
    request = {"template": (ROOT / "template.yaml").read_text(), "content": {}, "parameters": {}}
    command: list[str | Path] = [SAM / "python", "-W", "ignore", ROOT / "tests" / "template" / "translate.py"]
    process = subprocess.run(command, input=f"{json.dumps(request)}\n", capture_output=True, text=True, check=True)
    return json.loads(process.stdout)


def stacks() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the name of each authentication mode, and the resources of its stack."""
    template = translated_template()
    for name, parameters in MODES.items():
        yield name, Stack(template, {**SWITCHED_ON, **parameters}).resources


def findings(named_stacks: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[Finding]:
    """Yield checkov's findings in stacks, each given with its name."""
    with TemporaryDirectory() as folder:
        expected = set()
        for name, resources in named_stacks:
            text = json.dumps({"AWSTemplateFormatVersion": "2010-09-09", "Resources": resources}, indent=1)
            (Path(folder) / f"{name}.json").write_text(text)
            expected.add(name)
        command = [TOOLS / "python", CHECKOV]
        process = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    yield from parse(process.stdout, process.stderr, expected)


def parse(output: str, errors: str, expected: set[str]) -> Iterator[Finding]:
    """Yield the findings in checkov's report. The report must cover all expected stacks."""
    try:
        checkov_report = json.loads(output)
        failed_checks, unread_stacks = checkov_report["failed"], set(checkov_report["unread"])
    except (ValueError, KeyError, TypeError):
        raise AuditError(f"checkov gave no report: {errors.strip()} {output.strip()}") from None
    # Every stack has accepted findings, so a stack without findings was not read.
    if unread_stacks := unread_stacks | (expected - {Path(check["file"]).stem for check in failed_checks}):
        raise AuditError(f"checkov could not read {', '.join(sorted(unread_stacks))}")
    for check in failed_checks:
        resource = check["resource"].rpartition(".")[2]
        place = f"{resource} with Auth={Path(check['file']).stem}"
        yield Finding(f"{check['check']} {resource}", f"{place}: {check['name']}")


def main() -> int:
    return report("checkov", findings(stacks()))


if __name__ == "__main__":
    sys.exit(main())
