"""What changes is published: SAM's alias stays behind for more changes than one would think."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.template.cloudformation import Stack
from tests.template.conftest import MakeStack, Translate

LAMBDA_DESCRIPTION_LIMIT = 256


SERVING = ("McpFunction", "WorkerFunction")
"""The functions that run the server's code, each with versions and an alias."""


def version_id(template: Mapping[str, Any], function: str = "McpFunction") -> str:
    [name] = [
        name
        for name, body in template["Resources"].items()
        if body["Type"] == "AWS::Lambda::Version" and body["Properties"]["FunctionName"] == {"Ref": function}
    ]
    return str(name)


def version(stack: Stack, function: str) -> Any:
    """The properties of a function's version."""
    [found] = [one for one in stack.of_type("AWS::Lambda::Version") if one["FunctionName"] == {"Ref": function}]
    return found


def parameters_of(value: Any, template: Mapping[str, Any]) -> Iterator[str]:
    """The parameters that a value depends on, by references and by conditions."""
    match value:
        case {"Ref": str(name)} if name in template["Parameters"]:
            yield name
        case {"Condition": str(name)}:
            yield from parameters_of(template["Conditions"][name], template)
        case {"Fn::If": [str(condition), *branches]}:
            yield from parameters_of(template["Conditions"][condition], template)
            yield from parameters_of(branches, template)
        case dict():
            for item in value.values():
                yield from parameters_of(item, template)
        case list():
            for item in value:
                yield from parameters_of(item, template)
        case str():
            yield from (name for name in re.findall(r"\$\{(\w+)\}", value) if name in template["Parameters"])


@pytest.mark.parametrize("name", SERVING)
def test_changed_code_and_a_changed_layer_are_new_versions(translation: Any, translate: Translate, name: str) -> None:
    published = [version_id(translate(content={what: "another"}), name) for what in (name, "BatonLayer")]

    assert version_id(translate(), name) == version_id(translation, name)
    assert version_id(translation, name) not in published


@pytest.mark.parametrize("name", SERVING)
def test_every_parameter_that_a_function_depends_on_is_in_its_versions_description(translation: Any, name: str) -> None:
    properties = translation["Resources"][name]["Properties"]
    description = translation["Resources"][version_id(translation, name)]["Properties"]["Description"]

    # How many run at once is the function's alone: versions know nothing of it.
    of_versions = {name: value for name, value in properties.items() if name != "ReservedConcurrentExecutions"}
    needed = set(parameters_of({**of_versions, "Description": ""}, translation))
    assert needed
    assert needed <= set(parameters_of(description, translation))


@pytest.mark.parametrize("name", SERVING)
def test_a_changed_parameter_replaces_the_version_and_changes_the_function(stack: MakeStack, name: str) -> None:
    # A version's description cannot be changed, so CloudFormation makes a new one; Lambda does so only for a function
    # that differs from its last version.
    descriptions = [
        (version(one, name)["Description"], one.resources[name]["Properties"]["Description"])
        for one in (stack(MemorySize="512"), stack(MemorySize="1024"))
    ]

    assert [of_version for of_version, _ in descriptions] == [of_function for _, of_function in descriptions]
    assert descriptions[0] != descriptions[1]


@pytest.mark.parametrize("name", SERVING)
def test_the_longest_parameters_fit_a_description(translation: Any, name: str) -> None:
    longest = {parameter: longest_value(entry) for parameter, entry in translation["Parameters"].items()}
    description = version(Stack(translation, longest), name)["Description"]

    assert 200 < len(description) <= LAMBDA_DESCRIPTION_LIMIT


def longest_value(parameter: Mapping[str, Any]) -> str:
    if "AllowedValues" in parameter:
        return str(max(map(str, parameter["AllowedValues"]), key=len))
    if "MaxValue" in parameter:
        return str(parameter["MaxValue"])
    return "x" * int(parameter.get("MaxLength", 4))


@pytest.mark.parametrize("name", SERVING)
def test_the_alias_follows_the_version(default: Stack, translation: Any, name: str) -> None:
    alias = default.resources[f"{name}Aliaslive"]["Properties"]

    assert alias["FunctionVersion"] == {"Fn::GetAtt": [version_id(translation, name), "Version"]}


def test_snapshots_are_of_published_versions_and_only_when_asked_for(stack: MakeStack) -> None:
    assert stack(SnapStart="on").resources["McpFunction"]["Properties"]["SnapStart"] == {"ApplyOn": "PublishedVersions"}
    assert stack(SnapStart="off").resources["McpFunction"]["Properties"]["SnapStart"] == {"ApplyOn": "None"}
    # Nobody waits for a worker to start.
    assert "SnapStart" not in stack(SnapStart="on").resources["WorkerFunction"]["Properties"]
