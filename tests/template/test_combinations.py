"""Every combination of an operator's choices is a stack that can be created."""

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

from tests.template.cloudformation import Stack
from tests.template.conftest import MODES, MakeStack, Translate

CHOICES = {
    "Architecture": "x86_64",
    "SnapStart": "on",
    "MessageTopic": "on",
    "Console": "on",
    "Dashboard": "on",
    "ApiLogs": "off",
    "PublicUrl": "https://mcp.example.com",
    "AllowedOrigins": "https://app.example.com",
    "AlarmTopicArn": "arn:aws:sns:eu-central-1:123456789012:pager",
    "KmsKeyArn": "arn:aws:kms:eu-central-1:123456789012:key/1a2b3c4d",
}


def combinations() -> Iterator[dict[str, str]]:
    """Yield each mode with each one and two of the choices, and with all."""
    for mode in MODES.values():
        for pair in itertools.combinations_with_replacement(CHOICES, 2):
            yield {**mode, **{name: CHOICES[name] for name in pair}}
        yield {**mode, **CHOICES}
        yield {**mode, **CHOICES, "ApiLogs": "role-exists"}


def test_every_combination_refers_only_to_existing_resources_without_cycles(stack: MakeStack) -> None:
    for parameters in combinations():
        variant = stack(**parameters)
        assert variant.dangling_references() == set(), parameters
        assert len(variant.order()) == len(variant.resources), parameters


def test_a_reference_to_an_absent_resource_is_noticed(source: str, translate: Translate) -> None:
    template = translate(text=source.replace('!If [UseMessageTopic, !Ref Messages, ""]', "!Ref Messages"))

    assert Stack(template, {}).dangling_references() == {"Messages"}


def test_every_parameter_translates_to_the_same_template(translation: Any, translate: Translate) -> None:
    numbers = {name: "1" for name, entry in translation["Parameters"].items() if entry["Type"] == "Number"}

    for parameters in (*MODES.values(), CHOICES, numbers):
        assert without_timestamps(translate(**parameters)) == without_timestamps(translation), parameters


def without_timestamps(template: Any) -> str:
    """Return a template without the names that SAM derives from the time: it deploys the API anew each time."""
    text = json.dumps(template, sort_keys=True)
    return re.sub(r"RestApi deployment id: \w+", "", re.sub(r"ApiDeployment\w{10}", "ApiDeployment", text))
