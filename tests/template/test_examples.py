"""The template with the changes in the README of an example, or with the resources of docs/events.md (tests/deployed
deploys them)."""

import json
import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.event_docs import with_event_resources
from tests.example_readmes import ExampleReadme
from tests.template.cloudformation import Stack
from tests.template.conftest import ROOT, SAM, SERVING, Translate, variables

READ = re.compile(r"os\.environ\[\"(\w+)\"\]")


@pytest.mark.parametrize("name", ["incident", "report"])
def test_the_functions_have_every_variable_that_the_example_reads(name: str, translate: Translate) -> None:
    readme = ExampleReadme.read(name)
    stack = Stack(translate(readme.template()), {"MessageTopic": "on"})
    names = set(READ.findall((readme.app / "app.py").read_text()))

    assert names
    for function in SERVING:
        values = variables(stack, function)
        assert {variable for variable in names if values.get(variable)} == names


def test_the_resources_for_events_are_valid(source: str, tmp_path: Path) -> None:
    template = tmp_path / "template.yaml"
    template.write_text(with_event_resources(source))

    process = subprocess.run(
        [SAM / "sam", "validate", "--lint", "--region", "us-east-1", "--template", template],
        env={**os.environ, "SAM_CLI_TELEMETRY": "0"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert process.returncode == 0, process.stdout + process.stderr


def test_sam_reads_the_approvers_as_the_page_writes_them() -> None:
    [written] = re.findall(r"`(\"Approvers=.+?)`", (ROOT / "docs" / "approvals.md").read_text())
    override = tomllib.loads(f"override = {written}")["override"]
    code = (
        "import sys; from samcli.cli.types import CfnParameterOverridesType as Overrides; "
        "print(Overrides().convert([sys.argv[1]], None, None)['Approvers'])"
    )
    read = subprocess.run([SAM / "python", "-c", code, override], capture_output=True, text=True, check=True)
    assert json.loads(read.stdout) == {"refunds": ["ada"]}
