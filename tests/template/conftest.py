"""The template as its author wrote it, and as CloudFormation would see it."""

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.template.cloudformation import Stack

ROOT = Path(__file__).parents[2]
SAM = ROOT / "tests" / "sam" / ".venv" / "bin"

type Translate = Callable[..., list[Any]]
"""`translate(parameters, …, text=…, content=…)`: the template translated once for each set of parameters."""

type MakeStack = Callable[..., Stack]
"""`stack(Auth="IAM", …)`: the template's resources with these parameters, the others at their defaults."""


@pytest.fixture(scope="session")
def source() -> str:
    return (ROOT / "template.yaml").read_text()


@pytest.fixture(scope="session")
def translate(source: str) -> Translate:
    def translated(
        *parameters: Mapping[str, str], text: str = source, content: Mapping[str, str] | None = None
    ) -> list[Any]:
        order: dict[str, object] = {"template": text, "content": content or {}, "parameters": parameters}
        done = subprocess.run(
            [SAM / "python", "-W", "ignore", Path(__file__).with_name("translate.py")],
            input=json.dumps(order),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        templates: list[Any] = json.loads(done.stdout)
        return templates

    return translated


@pytest.fixture(scope="session")
def stack(translate: Translate) -> MakeStack:
    def make(**parameters: str) -> Stack:
        [template] = translate(parameters)
        return Stack(template, parameters)

    return make
