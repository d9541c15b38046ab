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

SWITCHED_ON: Mapping[str, str] = {"Overflow": "on", "Dashboard": "on"}
"""Parameters that are off by default and create their own resources."""

CHECKOV = Path(__file__).with_name("checkov_stacks.py")


def translated() -> Any:
    """Return the template as CloudFormation would translate it."""
    order = {"template": (ROOT / "template.yaml").read_text(), "content": {}, "parameters": {}}
    command: list[str | Path] = [SAM / "python", "-W", "ignore", ROOT / "tests" / "template" / "translate.py"]
    answer = subprocess.run(command, input=f"{json.dumps(order)}\n", capture_output=True, text=True, check=True)
    return json.loads(answer.stdout)


def stacks() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the name of each authentication mode, and the resources of its stack."""
    template = translated()
    for name, parameters in MODES.items():
        yield name, Stack(template, {**SWITCHED_ON, **parameters}).resources


def findings(named: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[Finding]:
    """Yield checkov's findings in stacks, each given with its name.

    Raises:
        AuditError: checkov did not read every stack.
    """
    with TemporaryDirectory() as folder:
        expected = set()
        for name, resources in named:
            text = json.dumps({"AWSTemplateFormatVersion": "2010-09-09", "Resources": resources}, indent=1)
            (Path(folder) / f"{name}.json").write_text(text)
            expected.add(name)
        command = [TOOLS / "python", CHECKOV]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    yield from parsed(done.stdout, done.stderr, expected)


def parsed(output: str, errors: str, expected: set[str]) -> Iterator[Finding]:
    """Yield the findings in checkov's report. The report must cover all expected stacks."""
    try:
        reported = json.loads(output)
        failed, unread = reported["failed"], set(reported["unread"])
    except (ValueError, KeyError, TypeError):
        raise AuditError(f"checkov gave no report: {errors.strip()} {output.strip()}") from None
    # Every stack has accepted findings, so a stack without findings was not read.
    if unread := unread | (expected - {Path(check["file"]).stem for check in failed}):
        raise AuditError(f"checkov could not read {', '.join(sorted(unread))}")
    for check in failed:
        resource = check["resource"].rpartition(".")[2]
        where = f"{resource} with Auth={Path(check['file']).stem}"
        yield Finding(f"{check['check']} {resource}", f"{where}: {check['name']}")


def main() -> int:
    return report("checkov", findings(stacks()))


if __name__ == "__main__":
    sys.exit(main())
