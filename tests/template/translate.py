"""Translates SAM templates as CloudFormation would, offline. Run by the tests, with the interpreter of tests/sam.

Standard input: `{"template": TEXT, "content": {LOGICAL_ID: NAME}, "parameters": [{…}, …]}`. Standard output: one
translated template for each set of parameters. `content` names what packaged functions and layers hold, as a hash in
S3 would.
"""

import json
import os
import sys
from typing import Any

PACKAGED = ("CodeUri", "ContentUri")


class NoManagedPolicies:
    """SAM asks for the names of managed policies when a template uses one by its short name; ours does not."""

    def load(self) -> dict[str, str]:
        """Nothing."""
        return {}


def packaged(text: str, content: dict[str, str]) -> dict[str, Any]:
    """The template as `sam package` would leave it: code and layers are in a bucket."""
    from samtranslator.yaml_helper import yaml_parse

    template: dict[str, Any] = yaml_parse(text)
    for logical_id, resource in template["Resources"].items():
        for name in set(PACKAGED) & resource.get("Properties", {}).keys():
            resource["Properties"][name] = f"s3://artifacts/{content.get(logical_id, logical_id)}"
    return template


def main() -> None:
    """Translate what standard input holds."""
    os.environ.setdefault("AWS_DEFAULT_REGION", "eu-central-1")
    from samtranslator.translator.transform import transform

    order = json.load(sys.stdin)
    templates = [
        transform(packaged(order["template"], order["content"]), parameters, NoManagedPolicies())
        for parameters in order["parameters"]
    ]
    json.dump(templates, sys.stdout)


if __name__ == "__main__":
    main()
