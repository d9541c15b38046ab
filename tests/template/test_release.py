"""What changes is published: SAM's alias stays behind for more changes than one would think."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.template.cloudformation import Stack
from tests.template.conftest import MakeStack, Translate

LAMBDA_DESCRIPTION_LIMIT = 256


def version_id(template: Mapping[str, Any]) -> str:
    [name] = [name for name, body in template["Resources"].items() if body["Type"] == "AWS::Lambda::Version"]
    return str(name)


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


def test_a_changed_layer_is_a_new_version(translation: Any, translate: Translate) -> None:
    changed = translate(content={"BatonLayer": "another"})

    assert version_id(changed) != version_id(translation)


def test_changed_code_is_a_new_version(translation: Any, translate: Translate) -> None:
    changed = translate(content={"McpFunction": "another"})

    assert version_id(changed) != version_id(translation)


def test_the_same_code_and_layer_are_the_same_version(translation: Any, translate: Translate) -> None:
    again = translate()

    assert version_id(again) == version_id(translation)


def test_every_parameter_that_the_function_depends_on_is_in_its_versions_description(translation: Any) -> None:
    properties = translation["Resources"]["McpFunction"]["Properties"]
    description = translation["Resources"][version_id(translation)]["Properties"]["Description"]

    # How many run at once is the function's alone: versions know nothing of it.
    of_versions = {name: value for name, value in properties.items() if name != "ReservedConcurrentExecutions"}
    needed = set(parameters_of({**of_versions, "Description": ""}, translation))
    assert needed
    assert needed <= set(parameters_of(description, translation))


def test_a_changed_parameter_replaces_the_version_and_changes_the_function(stack: MakeStack) -> None:
    one, two = stack(MemorySize="512"), stack(MemorySize="1024")
    # A version's description cannot be changed, so CloudFormation makes a new one; Lambda does so only for a function
    # that differs from its last version.
    descriptions = [
        (one.one("AWS::Lambda::Version")["Description"], one.resources["McpFunction"]["Properties"]["Description"]),
        (two.one("AWS::Lambda::Version")["Description"], two.resources["McpFunction"]["Properties"]["Description"]),
    ]

    assert [version for version, _ in descriptions] == [function for _, function in descriptions]
    assert descriptions[0] != descriptions[1]


def test_the_longest_parameters_fit_a_description(translation: Any) -> None:
    longest = {name: longest_value(entry) for name, entry in translation["Parameters"].items()}
    description = Stack(translation, longest).one("AWS::Lambda::Version")["Description"]

    assert 200 < len(description) <= LAMBDA_DESCRIPTION_LIMIT


def longest_value(parameter: Mapping[str, Any]) -> str:
    if "AllowedValues" in parameter:
        return str(max(map(str, parameter["AllowedValues"]), key=len))
    if "MaxValue" in parameter:
        return str(parameter["MaxValue"])
    return "x" * int(parameter.get("MaxLength", 4))


def test_the_alias_follows_the_version(default: Stack) -> None:
    alias = default.one("AWS::Lambda::Alias")
    [version] = [name for name, body in default.resources.items() if body["Type"] == "AWS::Lambda::Version"]

    assert alias["FunctionVersion"] == {"Fn::GetAtt": [version, "Version"]}


def test_snapshots_are_of_published_versions_and_only_when_asked_for(stack: MakeStack) -> None:
    assert stack(SnapStart="on").resources["McpFunction"]["Properties"]["SnapStart"] == {"ApplyOn": "PublishedVersions"}
    assert stack(SnapStart="off").resources["McpFunction"]["Properties"]["SnapStart"] == {"ApplyOn": "None"}


def test_the_api_is_deployed_anew_every_time(source: str) -> None:
    # Its text is the same for every value of Auth, and SAM deploys anew only what has another text.
    assert "AlwaysDeploy: true" in source


def test_function_and_layer_are_for_the_same_processor(stack: MakeStack) -> None:
    chosen = stack(Architecture="x86_64")

    assert chosen.resources["McpFunction"]["Properties"]["Architectures"] == ["x86_64"]
    assert chosen.one("AWS::Lambda::LayerVersion")["CompatibleArchitectures"] == ["x86_64"]
    assert chosen.one("AWS::Lambda::LayerVersion")["CompatibleRuntimes"] == ["python3.13"]
