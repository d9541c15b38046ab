"""Prints the environment that `sam local` gives the function, and the exit statuses of its commands. It runs in the SAM
CLI's interpreter.

`python sam_local.py TEMPLATE VARIABLES` prints JSON. VARIABLES is a file for `--env-vars`. The commands log the
configuration that they read to standard error.
"""

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any


def module(name: str) -> Any:
    """Import a module of the SAM CLI. Only this script's interpreter has it."""
    return importlib.import_module(name)


def environment(template: str, variables: dict[str, dict[str, str]]) -> dict[str, str]:
    """Return the environment of a container, without the variables that the emulator adds."""
    stacks, _ = module("samcli.lib.providers.sam_stack_provider").SamLocalStackProvider.get_stacks(template)
    function = module("samcli.lib.providers.sam_function_provider").SamFunctionProvider(stacks).get("McpFunction")
    values: dict[str, str] = (
        module("samcli.local.lambdafn.env_vars")
        .EnvironmentVariables(
            function.name,
            function.memory,
            function.timeout,
            function.handler,
            variables=function.environment["Variables"],
            override_values=variables["McpFunction"],
        )
        .resolve()
    )
    return values


def exit_status(*command: str) -> object:
    try:
        module("samcli.cli.main").cli(command)
    except SystemExit as error:
        return error.code
    return None


if __name__ == "__main__":
    os.environ.setdefault("AWS_DEFAULT_REGION", "eu-central-1")
    report = {
        "environment": environment(sys.argv[1], json.loads(Path(sys.argv[2]).read_text())),
        "exit_statuses": [exit_status("local", command, "--debug") for command in ("start-api", "invoke")],
    }
    sys.stdout.write(json.dumps(report))
