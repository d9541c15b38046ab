"""A second `sam deploy`: a changed layer is published and served, and an unchanged build changes nothing."""

import shutil
from pathlib import Path

import anyio

from tests.deployed.conversation import whole_conversation
from tests.deployed.deployment import Stack

STACK = "released"


def live_version(stack: Stack) -> tuple[str, list[str]]:
    """The version that the alias points at, and the layers that this version has."""
    aws_lambda = stack.twin.client("lambda")
    name = stack.outputs["FunctionName"]
    version = aws_lambda.get_alias(FunctionName=name, Name="live")["FunctionVersion"]
    layers = aws_lambda.get_function_configuration(FunctionName=name, Qualifier=version)["Layers"]
    return version, [layer["Arn"] for layer in layers]


def test_a_changed_layer_is_what_the_alias_serves_and_an_unchanged_build_publishes_nothing(
    stack: Stack, build: Path, tmp_path: Path
) -> None:
    first = live_version(stack.copy(STACK))
    assert live_version(stack.twin.deploy(build, STACK)) == first

    changed = tmp_path / "build"
    shutil.copytree(build, changed, symlinks=True)
    title = changed / "BatonLayer" / "python" / "released.txt"
    title.write_text("a second release")
    released = stack.twin.deploy(changed, STACK)
    version, layers = live_version(released)

    assert int(version) == int(first[0]) + 1
    assert layers != first[1]
    anyio.run(whole_conversation, released.endpoint, released.caller(x_api_key=released.api_key), "2026")
