"""checkov over the stacks that the template makes: python -m tests.audit.stacks

What it is given is the template translated, its parameters put in and its conditions decided (tests/template): it sees
what is created, and it does not follow `Fn::If`. It stays offline (checkov_stacks.py).
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
"""What is off by default and makes resources of its own."""

CHECKOV = Path(__file__).with_name("checkov_stacks.py")


def translated() -> Any:
    """The template as CloudFormation would translate it."""
    order = {"template": (ROOT / "template.yaml").read_text(), "content": {}, "parameters": {}}
    command: list[str | Path] = [SAM / "python", "-W", "ignore", ROOT / "tests" / "template" / "translate.py"]
    answer = subprocess.run(command, input=f"{json.dumps(order)}\n", capture_output=True, text=True, check=True)
    return json.loads(answer.stdout)


def stacks() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """For each way to say who may call: its name, and the resources of its stack."""
    template = translated()
    for name, parameters in MODES.items():
        yield name, Stack(template, {**SWITCHED_ON, **parameters}).resources


def findings(named: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[Finding]:
    """What checkov finds in stacks, each with its name.

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
    """The findings in checkov's report, which must speak of all the stacks that were expected."""
    try:
        reported = json.loads(output)
        failed, unread = reported["failed"], set(reported["unread"])
    except (ValueError, KeyError, TypeError):
        raise AuditError(f"checkov told nothing: {errors.strip()} {output.strip()}") from None
    # Every stack has findings that are accepted: one without any was not read.
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
