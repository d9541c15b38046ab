"""Generates docs/settings.md from `template.yaml` and `mcp_baton.settings`: `make settings-page`.

A test compares the page with the generated one.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from mcp_baton import settings

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "settings.md"
TEMPLATE = (ROOT / "template.yaml").read_text()
LONGEST_CHOICE: Final = 6

_BEGIN = """# Settings

The parameters of `template.yaml` become environment variables of a deployed server. Elsewhere, set the variables.

## Parameters of the template

Set them in `samconfig.toml`, as `parameter_overrides`, or on the command line:

<!-- not run: AWS -->
```sh
sam deploy --parameter-overrides Auth=IAM MemorySize=1024
```

"""
_MIDDLE = """See [Deploying](deploying.md#who-may-call) for authentication,
and [Cost](cost.md#what-bounds-it) for limits on cost.

## Environment variables

An empty or blank variable counts as not set. These are parameters of the template, with the same meaning and default:
"""
_OTHERS = """
| variable | in a stack | meaning | default |
|---|---|---|---|
"""
_END = """
Baton also reads variables of Lambda and Powertools: `AWS_LAMBDA_FUNCTION_NAME` (if it is set, Baton writes logs,
metrics and traces), `AWS_LAMBDA_LOG_LEVEL`, `POWERTOOLS_SERVICE_NAME` and `POWERTOOLS_METRICS_NAMESPACE`.
"""
_UNITS = ((3_600_000, "h"), (60_000, "min"), (1_000, "s"))


# Reads values with a tag, such as CloudFormation's `!Ref`, as `None`.
_Loader: Any = type("_Loader", (yaml.CSafeLoader,), {})
_Loader.add_multi_constructor("", lambda *_: None)


def read(text: str) -> Any:
    """Return a YAML document. Values with a tag are `None`."""
    return yaml.load(text, _Loader)  # noqa: S506 - a safe loader with one more constructor


def page() -> str:
    return "".join([_BEGIN, *_parameters(), _MIDDLE, *_variables_of_parameters(), _OTHERS, *_other_variables(), _END])


def template() -> dict[str, Any]:
    """Return the template. Values with a tag are `None`."""
    document: dict[str, Any] = read(TEMPLATE)
    return document


def _parameters() -> Iterator[str]:
    document = template()
    for group in document["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]:
        yield f"### {group['Label']['default']}\n\n| parameter | default | |\n|---|---|---|\n"
        for name in group["Parameters"]:
            yield _row(name, document["Parameters"][name])
        yield "\n"


def _row(name: str, parameter: dict[str, Any]) -> str:
    meaning, values = parameter["Description"].rstrip("."), parameter.get("AllowedValues", [])
    if 0 < len(values) <= LONGEST_CHOICE:
        meaning += f": {', '.join(f'`{value}`' for value in values)}"
    elif "MinValue" in parameter and "MaxValue" in parameter:
        meaning += f"; {parameter['MinValue']:,} to {parameter['MaxValue']:,}"
    default = parameter.get("Default", "")
    return f"| `{name}` | {'none' if default == '' else f'`{default}`'} | {meaning.replace('|', r'\|')} |\n"


def _is_a_parameter(stack: str) -> bool:
    """Whether the parameter describes the variable, too. `Auth` sets one that it does not describe."""
    return stack.startswith("`") and stack != "`Auth`"


def _variables_of_parameters() -> Iterator[str]:
    stacks = ((variable, _in_a_stack(variable)) for variable in settings.SETTINGS)
    yield "\n".join(f"`{variable}` ({stack})," for variable, stack in stacks if _is_a_parameter(stack)).rstrip(",")
    yield ".\n"


def _other_variables() -> Iterator[str]:
    defaults = settings.Settings()
    for variable, (name, setting) in settings.SETTINGS.items():
        stack = _in_a_stack(variable)
        if not _is_a_parameter(stack):
            default = setting.default or _format_default(name, getattr(defaults, name))
            yield f"| `{variable}` | {stack} | {setting.meaning} | {default} |\n"


def _in_a_stack(variable: str) -> str:
    """Say how the template sets a variable."""
    value = re.search(rf"^ +{variable}: (.+)$", TEMPLATE, re.MULTILINE)
    if value is None:
        return "not set"
    reference = re.match(r"!(?:Ref |If \[)(\w+)", value[1])
    name = reference[1] if reference else ""
    condition = re.search(rf"^  {name}: !Equals \[!Ref (\w+)", TEMPLATE, re.MULTILINE)
    parameter = condition[1] if condition else name
    return f"`{parameter}`" if parameter in template()["Parameters"] else "set"


def _format_default(name: str, default: object) -> str:
    match default:
        case None:
            return "none"
        case bool():
            return "`on`" if default else "`off`"
        case int() if name.endswith("_ms"):
            unit, symbol = next(unit for unit in _UNITS if default % unit[0] == 0)
            return f"`{default}` ({default // unit} {symbol})"
        case _:
            return f"`{default}`"


if __name__ == "__main__":
    PAGE.write_text(page())
