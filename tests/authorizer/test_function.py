"""The authorizer function, imported as Lambda imports it."""

import importlib
import sys
from typing import Any

import pytest

from tests.authorizer.conftest import Question

ENVIRONMENT = {
    "JWT_ISSUER": "https://issuer.example.com/",
    "JWT_AUDIENCES": "https://mcp.example.com/mcp other",
    "JWT_ALGORITHMS": "RS256 ES256",
    "JWT_SCOPES": "read write",
    "JWT_JWKS_URL": "",
    "PUBLIC_URL": "https://mcp.example.com",
}


def start(monkeypatch: pytest.MonkeyPatch, **changes: str) -> Any:
    for name, value in {**ENVIRONMENT, **changes}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delitem(sys.modules, "function", raising=False)
    return importlib.import_module("function")


def test_it_starts_with_the_templates_variables_and_answers(
    monkeypatch: pytest.MonkeyPatch, question: Question
) -> None:
    answer = start(monkeypatch).lambda_handler(question(), None)

    assert answer["context"]["challenge"] == (
        'Bearer scope="read write", resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource"'
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"JWT_AUDIENCES": ""},
        {"JWT_ALGORITHMS": "HS256"},
        {"JWT_ISSUER": "http://issuer.example.com/"},
        {"JWT_ISSUER": ""},
    ],
)
def test_it_does_not_start_with_unsafe_settings(monkeypatch: pytest.MonkeyPatch, changes: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"token|algorithms|https"):
        start(monkeypatch, **changes)
