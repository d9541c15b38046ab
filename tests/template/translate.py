"""Translates SAM templates offline as CloudFormation would. The tests run it with the interpreter of tests/sam.

Each line of the standard input is `{"template": TEXT, "content": {LOGICAL_ID: NAME}, "parameters": {…}}`. The answer is
a line with the translated template. `content` names the content of packaged functions and layers, like a hash in S3.
"""

import importlib
import json
import os
import sys
from typing import Any

PACKAGED_PROPERTIES = ("CodeUri", "ContentUri")


class NoManagedPolicies:
    """SAM loads the names of managed policies if a template uses a short name. This template does not."""

    def load(self) -> dict[str, str]:
        return {}


def module(name: str) -> Any:
    """Import a module of the translator, which only this script's interpreter has."""
    return importlib.import_module(name)


def package_template(text: str, content: dict[str, str]) -> dict[str, Any]:
    """Return the template as `sam package` writes it: with code and layers in a bucket."""
    template: dict[str, Any] = module("samtranslator.yaml_helper").yaml_parse(text)
    for logical_id, resource in template["Resources"].items():
        for name in set(PACKAGED_PROPERTIES) & resource.get("Properties", {}).keys():
            resource["Properties"][name] = f"s3://artifacts/{content.get(logical_id, logical_id)}"
    return template


def main() -> None:
    os.environ.setdefault("AWS_DEFAULT_REGION", "eu-central-1")
    # libyaml reads the template ten times as fast.
    yaml = module("yaml")
    yaml.SafeLoader = yaml.CSafeLoader
    transform = module("samtranslator.translator.transform").transform
    for line in sys.stdin:
        request = json.loads(line)
        template = package_template(request["template"], request["content"])
        sys.stdout.write(json.dumps(transform(template, request["parameters"], NoManagedPolicies())) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
