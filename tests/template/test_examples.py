"""The template with the changes in the README of an example (tests/deployed/test_examples.py deploys it)."""

import re

import pytest

from tests.example_readmes import ExampleReadme
from tests.template.cloudformation import Stack
from tests.template.conftest import SERVING, Translate, variables

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
