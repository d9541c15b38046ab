"""The changes to the template that the README of an example asks for."""

import re
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent

ROOT = Path(__file__).parents[1]
VARIABLES = "    Environment:\n      Variables:\n"
STATEMENTS = "      Description: !Sub Permissions of the functions of ${AWS::StackName}\n"
STATEMENT = "        Statement:\n"
OUTPUTS = "\nOutputs:\n"


@dataclass(frozen=True, slots=True)
class ExampleReadme:
    """How to deploy an example, as its README says it.

    Attributes:
        app: The folder in `BATON_APP`.
        variables: The lines for the functions' environment, as YAML.
        statements: The statements for `FunctionPolicy`, as YAML.
        resources: More resources, as YAML; empty if there are none.
    """

    app: Path
    variables: str
    statements: str
    resources: str = ""

    @classmethod
    def read(cls, name: str) -> "ExampleReadme":
        text = (ROOT / "examples" / name / "README.md").read_text()
        changes = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        [app] = re.findall(r"^BATON_APP=\$PWD/(\S+) make deploy ARGS=--guided$", text, re.MULTILINE)
        return cls(ROOT / app, *changes)

    def template(self) -> str:
        """The template with these changes."""
        text = (ROOT / "template.yaml").read_text()
        before, variables, after = text.partition(VARIABLES)
        text = f"{before}{variables}{indent(self.variables, ' ' * 8)}{after}"
        before, policy, after = text.partition(STATEMENTS)
        properties, statements, after = after.partition(STATEMENT)
        text = f"{before}{policy}{properties}{statements}{indent(self.statements, ' ' * 10)}{after}"
        before, outputs, after = text.partition(OUTPUTS)
        return f"{before}{indent(self.resources, ' ' * 2)}{outputs}{after}"
