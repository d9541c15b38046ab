"""The template as it is written, and as CloudFormation sees it."""

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.template.cloudformation import Stack

ROOT = Path(__file__).parents[2]
SAM = ROOT / "tests" / "sam" / ".venv" / "bin"

METADATA = "/.well-known/oauth-protected-resource"
METADATA_PATHS = (METADATA, f"{METADATA}/mcp")
"""The paths at which clients look for the metadata: the one that a 401 response names, and the one that they derive
from the endpoint's URL.
"""

SERVER_METADATA_PATHS = (
    "/.well-known/oauth-authorization-server",
    "/.well-known/oauth-authorization-server/mcp",
    "/.well-known/openid-configuration",
)
"""The paths at which clients look for the metadata of the authorization server."""

SERVING = ("McpFunction", "WorkerFunction")
"""The functions that run the server's code."""


def body(stack: Stack) -> Any:
    return stack.single("AWS::ApiGateway::RestApi")["Body"]


def function(stack: Stack, name: str = "McpFunction") -> Any:
    return stack.resources[name]["Properties"]


def variables(stack: Stack, name: str = "McpFunction") -> Any:
    return function(stack, name)["Environment"]["Variables"]


type Translate = Callable[..., Any]
"""`translate(text=…, content=…, Auth="IAM", …)` translates the template as CloudFormation would."""

type MakeStack = Callable[..., Stack]
"""`stack(Auth="IAM", …)` returns the template's resources with these parameters, and defaults for the others."""

MODES: Mapping[str, Mapping[str, str]] = {
    "NONE": {"Auth": "NONE"},
    "API_KEY": {"Auth": "API_KEY"},
    "IAM": {"Auth": "IAM"},
    "COGNITO": {
        "Auth": "COGNITO",
        "CognitoUserPoolArn": "arn:aws:cognito-idp:eu-west-1:123456789012:userpool/eu-west-1_Ab1",
    },
    "NEW_POOL": {"Auth": "COGNITO"},
    "JWT": {
        "Auth": "JWT",
        "JwtIssuer": "https://issuer.example.com/",
        "JwtAudiences": "https://mcp.example.com/mcp,other",
    },
}
"""The parameters that each authentication mode needs."""


@pytest.fixture(scope="session")
def source() -> str:
    return (ROOT / "template.yaml").read_text()


@pytest.fixture(scope="session")
def translate(source: str) -> Iterator[Translate]:
    if not (SAM / "python").exists():
        pytest.exit(
            f"{SAM} is missing, with which these tests translate the template: run make setup-tests", returncode=1
        )
    command: list[str | Path] = [SAM / "python", "-W", "ignore", Path(__file__).with_name("translate.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as translator:
        assert translator.stdin
        assert translator.stdout
        stdin, stdout = translator.stdin, translator.stdout

        def translate_template(text: str = source, content: Mapping[str, str] | None = None, **parameters: str) -> Any:
            request = {"template": text, "content": content or {}, "parameters": parameters}
            stdin.write(json.dumps(request) + "\n")
            stdin.flush()
            line = stdout.readline()
            assert line, "the translator ended; its error output is above"
            return json.loads(line)

        yield translate_template


@pytest.fixture(scope="session")
def translation(translate: Translate) -> Any:
    """The translation. It is the same for all parameters, because it keeps conditions."""
    return translate()


@pytest.fixture(scope="session")
def stack(translation: Any) -> MakeStack:
    return lambda **parameters: Stack(translation, parameters)


@pytest.fixture(scope="session")
def default(stack: MakeStack) -> Stack:
    return stack()


@pytest.fixture(scope="session")
def modes(stack: MakeStack) -> Mapping[str, Stack]:
    return {name: stack(**parameters) for name, parameters in MODES.items()}
