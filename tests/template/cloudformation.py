"""Evaluates a template with its parameters as CloudFormation does, as far as possible without AWS."""

import re
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from typing import Any

PSEUDO = {
    "AWS::AccountId": "123456789012",
    "AWS::Partition": "aws",
    "AWS::Region": "eu-central-1",
    "AWS::StackId": "arn:aws:cloudformation:eu-central-1:123456789012:stack/baton/51af3dc0-da77-11e4-872e-1234567db123",
    "AWS::StackName": "baton",
    "AWS::URLSuffix": "amazonaws.com",
}
NO_VALUE = {"Ref": "AWS::NoValue"}
REFERENCE = re.compile(r"\$\{([A-Za-z0-9.]+)\}")


class Stack:
    """A translated template with evaluated conditions and inserted parameters.

    References to resources stay as they are: `{"Ref": …}`, `{"Fn::GetAtt": […]}`, and `${Resource}` in text.
    `violations` has the messages of the template's rules that these parameters violate. CloudFormation reports them
    before it creates anything.
    """

    def __init__(self, template: Mapping[str, Any], parameters: Mapping[str, str]) -> None:
        self._template = template
        definitions = template["Parameters"]
        if unknown_names := parameters.keys() - definitions.keys():
            raise ValueError(f"the template has no parameters {unknown_names}")
        self.parameters = {name: parameters.get(name, str(entry.get("Default"))) for name, entry in definitions.items()}
        self._condition_values = dict[str, bool]()
        self.violations = [text for rule in template.get("Rules", {}).values() for text in self._violations_of(rule)]
        self.resources = {name: self._value(body) for name, body in self._included(template["Resources"])}
        self.outputs = {name: self._value(body["Value"]) for name, body in self._included(template["Outputs"])}

    def declared(self, parameter: str) -> Any:
        return self._template["Parameters"][parameter]

    def of_type(self, kind: str) -> list[Any]:
        return [body["Properties"] for body in self.resources.values() if body["Type"] == kind]

    def single(self, kind: str) -> Any:
        [properties] = self.of_type(kind)
        return properties

    def dangling_references(self) -> set[str]:
        """Return the references to resources that do not exist."""
        return references([self.outputs, *self.resources.values()]) - self.resources.keys()

    def order(self) -> list[str]:
        """Return the resources in an order in which they can be created."""
        graph = {name: references(body) & self.resources.keys() for name, body in self.resources.items()}
        return list(TopologicalSorter(graph).static_order())

    def _violations_of(self, rule: Mapping[str, Any]) -> Iterator[str]:
        if self._is_true(rule["RuleCondition"]):
            for assertion in rule["Assertions"]:
                if not self._is_true(assertion["Assert"]):
                    yield assertion["AssertDescription"]

    def _included(self, entries: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        for name, body in entries.items():
            if "Condition" not in body or self._condition(body["Condition"]):
                yield name, body

    def _condition(self, name: str) -> bool:
        if name not in self._condition_values:
            self._condition_values[name] = self._is_true(self._template["Conditions"][name])
        return self._condition_values[name]

    def _is_true(self, test: Mapping[str, Any]) -> bool:
        match dict(test):
            case {"Condition": name}:
                return self._condition(name)
            case {"Fn::Equals": [left, right]}:
                return bool(self._value(left) == self._value(right))
            case {"Fn::Not": [inner]}:
                return not self._is_true(inner)
            case {"Fn::And": tests}:
                return all(self._is_true(inner) for inner in tests)
            case {"Fn::Or": tests}:
                return any(self._is_true(inner) for inner in tests)
            case _:
                raise ValueError(f"unknown condition {test}")

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return value
        match value:
            case {"Fn::If": [condition, yes, no]}:
                return self._value(yes if self._condition(condition) else no)
            case {"Ref": str(name)} if name in self.parameters:
                return self._parameter(name)
            case {"Ref": str(name)} if name in PSEUDO:
                return PSEUDO[name]
            case {"Fn::Sub": [text, local]}:
                return self._substitute(text, self._value(local))
            case {"Fn::Sub": text}:
                return self._substitute(text, {})
            case {"Fn::Join": [separator, parts]}:
                return separator.join(self._value(parts))
            case {"Fn::Select": [index, parts]}:
                return self._value(parts)[int(index)]
            case {"Fn::Split": [separator, text]}:
                return self._value(text).split(separator)
            case _:
                return self._nested_value(value)

    def _nested_value(self, value: Any) -> Any:
        match value:
            case {"Fn::FindInMap": [name, *keys]}:
                first, second = (self._value(key) for key in keys)
                return self._template["Mappings"][name][first][second]
            case dict():
                return {key: self._value(item) for key, item in value.items() if not self._is_absent(item)}
            case list():
                return [self._value(item) for item in value if not self._is_absent(item)]
            case _:
                return value

    def _is_absent(self, value: Any) -> bool:
        """Return whether a value evaluates to `AWS::NoValue`, which removes its property."""
        while isinstance(value, dict) and "Fn::If" in value:
            condition, yes, no = value["Fn::If"]
            value = yes if self._condition(condition) else no
        return bool(value == NO_VALUE)

    def _parameter(self, name: str) -> Any:
        value = self.parameters[name]
        return value.split(",") if self._template["Parameters"][name]["Type"] == "CommaDelimitedList" else value

    def _substitute(self, text: str, local: Mapping[str, Any]) -> str:
        values = self.parameters | PSEUDO

        def replacement(reference: re.Match[str]) -> str:
            name = reference[1]
            match local.get(name, values.get(name)):
                case None:
                    return reference[0]
                case {"Ref": resource} | {"Fn::GetAtt": [resource, *_]}:
                    return f"${{{resource}}}"
                case value:
                    return str(value)

        return re.sub(r"\$\{([^!}]+)\}", replacement, text)


def references(value: Any) -> set[str]:
    """Return the logical names that a value refers to."""
    names = set[str]()
    remaining = [value]
    while remaining:
        current = remaining.pop()
        if isinstance(current, str):
            if "${" in current:
                names.update(name.split(".")[0] for name in REFERENCE.findall(current))
        elif isinstance(current, list):
            remaining += current
        elif isinstance(current, dict):
            match current:
                case {"Ref": str(name)} | {"Fn::GetAtt": [str(name), *_]}:
                    names.add(name)
                case _:
                    dependencies = current.get("DependsOn", [])
                    names.update([dependencies] if isinstance(dependencies, str) else dependencies)
                    remaining += current.values()
    return names
