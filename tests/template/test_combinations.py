"""Whatever an operator chooses is a stack that can be created."""

import itertools
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.template.cloudformation import Stack
from tests.template.conftest import MODES, MakeStack, Translate

CHOICES = {
    "Architecture": ("arm64", "x86_64"),
    "SnapStart": ("off", "on"),
    "Overflow": ("off", "on"),
    "MessageTopic": ("off", "on"),
    "ApiLogs": ("create-role", "role-exists", "off"),
    "PublicUrl": ("", "https://mcp.example.com"),
    "AllowedOrigins": ("", "https://app.example.com"),
    "AlarmTopicArn": ("", "arn:aws:sns:eu-central-1:123456789012:pager"),
    "KmsKeyArn": ("", "arn:aws:kms:eu-central-1:123456789012:key/1a2b3c4d"),
}


def combinations(source: str) -> list[dict[str, str]]:
    """Every combination of the choices that a condition asks about; the others change no resource's being there."""
    conditions = source.partition("\nConditions:")[2].partition("\nResources:")[0]
    asked = {name: values for name, values in CHOICES.items() if f"!Ref {name}," in conditions}
    assert len(asked) > len(CHOICES) / 2
    return [
        {**mode, **dict(zip(asked, values, strict=True))}
        for mode in MODES.values()
        for values in itertools.product(*asked.values())
    ]


def test_every_combination_is_resources_that_exist_and_can_be_put_in_order(source: str, stack: MakeStack) -> None:
    for parameters in combinations(source):
        chosen = stack(**parameters)
        assert chosen.dangling() == set(), parameters
        assert len(chosen.order()) == len(chosen.resources), parameters


def test_every_parameter_translates_and_to_the_same_template(translation: Any, translate: Translate) -> None:
    others = [
        *MODES.values(),
        {name: values[-1] for name, values in CHOICES.items()},
        {"MemorySize": "1024", "ReleaseId": "2", "RequiredScopes": "", "JwtAudiences": "a,b", "LogRetentionDays": "1"},
        {"WorkerConcurrency": "2", "WorkerMemorySize": "1024", "WorkerTimeout": "60"},
        {"ReservedConcurrency": "5", "KeyRateLimit": "1", "KeyBurstLimit": "1", "KeyQuotaPerDay": "1"},
        {"ListenMs": "1000", "QuestionMs": "1000", "TrustSessionNames": "on", "DeletionProtection": "on"},
    ]

    for parameters in others:
        assert undated(translate(**parameters)) == undated(translation), parameters


def undated(template: Any) -> Any:
    """A template without what SAM makes of the time of day: the API is deployed anew every time."""
    text = json.dumps(template, sort_keys=True)
    return json.loads(re.sub(r"RestApi deployment id: \w+", "", re.sub(r"ApiDeployment\w{10}", "ApiDeployment", text)))


@pytest.mark.parametrize("reference", ["!Ref OverflowBucket", "!GetAtt OverflowBucket.Arn", '!Sub "${OverflowBucket}"'])
def test_a_reference_to_what_a_choice_leaves_out_is_noticed(source: str, translate: Translate, reference: str) -> None:
    template = translate(text=source.replace('!If [UseOverflow, !Ref OverflowBucket, ""]', reference))

    assert Stack(template, {}).dangling() == {"OverflowBucket"}


def test_the_linter_finds_nothing_in_the_translation(translation: Any, tmp_path: Path) -> None:
    translated = tmp_path / "translated.json"
    translated.write_text(json.dumps(translation))

    done = subprocess.run(
        [Path(sys.executable).with_name("cfn-lint"), "--regions", "us-east-1", "--", translated],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
