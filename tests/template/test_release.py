"""Changes are published. SAM's alias by itself would miss some of them."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.template.cloudformation import Stack
from tests.template.conftest import SERVING, MakeStack, Translate, function

LAMBDA_DESCRIPTION_LIMIT = 256
pytestmark = pytest.mark.parametrize("name", SERVING)


def version_id(template: Mapping[str, Any], name: str) -> str:
    [version] = [
        logical_id
        for logical_id, body in template["Resources"].items()
        if body["Type"] == "AWS::Lambda::Version" and body["Properties"]["FunctionName"] == {"Ref": name}
    ]
    return str(version)


def description(stack: Stack, name: str) -> str:
    [version] = [entry for entry in stack.of_type("AWS::Lambda::Version") if entry["FunctionName"] == {"Ref": name}]
    return str(version["Description"])


def test_changed_code_or_a_changed_layer_publishes_a_new_version(
    default: Stack, translation: Any, translate: Translate, name: str
) -> None:
    published = [version_id(translate(content={logical_id: "another"}), name) for logical_id in (name, "BatonLayer")]

    assert version_id(translate(), name) == version_id(translation, name)
    assert version_id(translation, name) not in published
    alias = function(default, f"{name}Aliaslive")
    assert alias["FunctionVersion"] == {"Fn::GetAtt": [version_id(translation, name), "Version"]}


def test_a_parameter_that_changes_the_function_replaces_the_version(
    translation: Any, default: Stack, stack: MakeStack, name: str
) -> None:
    changing_parameters = set()
    for parameter, entry in translation["Parameters"].items():
        for value in entry.get("AllowedValues", ["7"]):
            variant = stack(**{parameter: str(value)})
            # A version's description cannot be changed, so CloudFormation creates a new version. Lambda accepts that
            # only if the function differs from its last version.
            assert function(variant, name)["Description"] == description(variant, name)
            if "Change ReleaseId with it" in entry["Description"]:
                continue  # its value does not fit into the description
            if version_properties(variant, name) != version_properties(default, name):
                changing_parameters.add(parameter)
                assert description(variant, name) != description(default, name), parameter

    assert {"Auth", "MessageTopic", "AllowedOrigins"} <= changing_parameters


def version_properties(stack: Stack, name: str) -> dict[str, Any]:
    """Return the properties that a version stores. The reserved concurrency belongs to the function only."""
    excluded = ("Description", "ReservedConcurrentExecutions")
    return {key: value for key, value in function(stack, name).items() if key not in excluded}


def test_the_longest_parameters_fit_a_description(translation: Any, name: str) -> None:
    longest = {parameter: longest_value(entry) for parameter, entry in translation["Parameters"].items()}

    assert 200 < len(description(Stack(translation, longest), name)) <= LAMBDA_DESCRIPTION_LIMIT


def longest_value(parameter: Mapping[str, Any]) -> str:
    if "AllowedValues" in parameter:
        return str(max(map(str, parameter["AllowedValues"]), key=len))
    if "MaxValue" in parameter:
        return str(parameter["MaxValue"])
    return "x" * int(parameter.get("MaxLength", 4))
