"""checkov over the stacks that the template makes: python -m tests.audit.stacks

What it is given is the template translated, its parameters put in and its conditions decided (tests/template): it sees
what is created, and it does not follow `Fn::If`. It stays offline: no guidelines, no question for a newer version.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.audit.findings import TOOLS, AuditError, Finding, report
from tests.template.cloudformation import Stack
from tests.template.conftest import MODES, ROOT, SAM

SWITCHED_ON: Mapping[str, str] = {"Overflow": "on"}
"""What is off by default and makes resources of its own."""

OFFLINE: Mapping[str, str] = {"CKV_SKIP_PACKAGE_UPDATE_CHECK": "true"}


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
        command: list[str | Path] = [TOOLS / "checkov", "--directory", ".", "--framework", "cloudformation"]
        command += ["--skip-download", "--compact", "--quiet", "--soft-fail", "--output", "json"]
        done = subprocess.run(
            command, cwd=folder, env={**os.environ, **OFFLINE}, capture_output=True, text=True, check=False
        )
    yield from parsed(done.stdout, done.stderr, expected)


def parsed(output: str, errors: str, expected: set[str]) -> Iterator[Finding]:
    """The findings in checkov's report, which must speak of all the stacks that were expected."""
    try:
        told = json.loads(output)
        failed, broken = told["results"]["failed_checks"], told["summary"]["parsing_errors"]
    except (ValueError, KeyError, TypeError):
        raise AuditError(f"checkov told nothing: {errors.strip()} {output.strip()}") from None
    seen = {Path(check["file_path"]).stem for check in failed}
    # Every stack has findings that are accepted: one without any was not read.
    if broken or (unread := expected - seen):
        raise AuditError(f"checkov could not read {broken or ', '.join(sorted(unread))}")
    for check in failed:
        resource = check["resource"].rpartition(".")[2]
        where = f"{resource} with Auth={Path(check['file_path']).stem}"
        yield Finding(f"{check['check_id']} {resource}", f"{where}: {check['check_name']}")


def main() -> int:
    """Audit this repository's template."""
    return report("checkov", findings(stacks()))


if __name__ == "__main__":
    sys.exit(main())
