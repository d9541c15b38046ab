"""Makes docs/settings.md from `template.yaml` and the docstring of `mcp_baton.settings`: `make settings-page`.

A test holds that the page is what this makes, so that no parameter and no variable is missing there.
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

A deployed server is set by the parameters of `template.yaml`, which become environment variables of its functions.
Elsewhere (`baton serve`, a function of your own) the variables are set directly. What is one server's, the same
wherever it runs, are arguments of [`Server`](reference/server.md).

## Parameters of the template

They stand in `samconfig.toml`, as `parameter_overrides`, or on the command line. All have defaults.

<!-- not run: it needs an AWS account -->
```sh
sam deploy --parameter-overrides Auth=IAM MemorySize=1024
```

"""
_BETWEEN = """[Deploying](deploying.md#who-may-call) says more of who may call,
[Operating](operating.md#what-bounds-it) of what bounds the cost.

## Environment variables

| variable | in a stack | meaning | default |
|---|---|---|---|
"""
# What the template puts into a variable where that is no parameter's value as it is.
_IN_A_STACK = {
    "BATON_TABLE": "the stack's",
    "BATON_OVERFLOW_BUCKET": "by `Overflow`",
    "BATON_ALLOW_ANONYMOUS": "by `Auth`",
    "BATON_STREAMING": "`on`",
    "BATON_WORKER": "the stack's",
    "BATON_STATE_KEY_SECRET": "the stack's",
}


# Reads CloudFormation's short forms (`!Ref`) and other tags as nothing: what is looked at has none.
_Loader: Any = type("_Loader", (yaml.SafeLoader,), {})
_Loader.add_multi_constructor("", lambda *_: None)


def read(text: str) -> Any:
    """A YAML document, without what its tags stand for."""
    return yaml.load(text, _Loader)  # noqa: S506 - a safe loader with one more constructor


def page() -> str:
    """The page's text."""
    return "".join([_BEGIN, *_parameters(), _BETWEEN, *_variables()])


def documented() -> list[tuple[str, str, str]]:
    """Each variable's name, meaning and default, as the docstring has them."""
    return re.findall(r"^\| `(BATON_\w+)` \| (.+?) \| (.+?) \|$", settings.__doc__ or "", re.MULTILINE)


def template() -> dict[str, Any]:
    """The template, without its references."""
    loaded: dict[str, Any] = read(TEMPLATE)
    return loaded


def _parameters() -> Iterator[str]:
    loaded = template()
    for group in loaded["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]:
        yield f"### {group['Label']['default']}\n\n| parameter | default | |\n|---|---|---|\n"
        for name in group["Parameters"]:
            yield _row(name, loaded["Parameters"][name])
        yield "\n"


def _row(name: str, parameter: dict[str, Any]) -> str:
    meaning, values = parameter["Description"].rstrip("."), parameter.get("AllowedValues", [])
    if 0 < len(values) <= LONGEST_CHOICE:
        meaning += f": {', '.join(f'`{value}`' for value in values)}"
    elif "MinValue" in parameter and "MaxValue" in parameter:
        meaning += f"; {parameter['MinValue']:,} to {parameter['MaxValue']:,}"
    default = parameter.get("Default", "")
    return f"| `{name}` | {'none' if default == '' else f'`{default}`'} | {meaning.replace('|', r'\|')} |\n"


def _variables() -> Iterator[str]:
    referred = dict(re.findall(r"^        (BATON_\w+): !Ref (\w+)$", TEMPLATE, re.MULTILINE))
    for name, meaning, default in documented():
        place = _IN_A_STACK.get(name) or (f"`{referred[name]}`" if name in referred else "not set")
        yield f"| `{name}` | {place} | {meaning} | {default} |\n"
    doc = settings.__doc__ or ""
    yield "\n" + doc[doc.rindex(" |\n") + 3 :].strip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
