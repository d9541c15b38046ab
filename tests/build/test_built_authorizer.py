"""The built authorizer answers with only the packages that were built for it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.build.conftest import ROOT

pytestmark = pytest.mark.skipif(
    sys.version_info[:2] != (3, 13) or sys.platform != "linux", reason="the artifact is for Linux and Python 3.13"
)

SCRIPT = """
import json, function
event = {"path": "/mcp", "methodArn": "arn", "requestContext": {"path": "/v1/mcp", "domainName": "a.example.com"}}
event["multiValueHeaders"] = {"Authorization": ["Bearer eyJhbGciOiJSUzI1NiJ9.e30.c2ln"]}
print(json.dumps(function.lambda_handler(event, None)))
"""


def test_the_built_authorizer_rejects_a_bad_token(artifacts: Path) -> None:
    python = Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    environment = {
        "PYTHONPATH": str(artifacts / "AuthorizerFunction"),
        "PATH": os.environ["PATH"],
        "JWT_ISSUER": "https://issuer.example.com/",
        "JWT_AUDIENCES": "https://a.example.com/v1/mcp",
        "JWT_ALGORITHMS": "RS256",
        "JWT_SCOPES": "",
        "JWT_JWKS_URL": "",
        "PUBLIC_URL": "",
    }

    process = subprocess.run(
        [python, "-S", "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False, timeout=60
    )

    assert process.returncode == 0, process.stderr
    policy = json.loads(process.stdout)
    assert policy["policyDocument"]["Statement"][0]["Effect"] == "Deny"
    assert 'error="invalid_token"' in policy["context"]["challenge"]


def test_the_folder_of_a_server_does_not_replace_the_authorizer() -> None:
    """`make build BATON_APP=…` passes the variable to each function's Makefile."""
    for folder in ("authorizer", "mcp"):
        command = ["make", "-n", "-C", f"{ROOT}/functions/{folder}", "BATON_APP=/other", "ARTIFACTS_DIR=/built"]
        for target, is_copied in (("build-AuthorizerFunction", False), ("build-McpFunction", True)):
            commands = subprocess.run([*command, target], capture_output=True, text=True, check=True).stdout
            assert ('cp -R -- "/other"' in commands) is is_copied
