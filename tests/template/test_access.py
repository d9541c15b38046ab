"""The authentication of callers, for each value of the parameter Auth."""

import json
import re
from collections.abc import Mapping
from typing import Any

import airspeed
import pytest

from tests.template.cloudformation import Stack
from tests.template.conftest import METADATA, METADATA_PATHS, MODES, MakeStack, body, function, variables
from tokens import ALGORITHMS

SCHEME = {"NONE": None, "API_KEY": "apiKey", "IAM": "iam", "COGNITO": "cognito", "NEW_POOL": "cognito", "JWT": "jwt"}
SCOPES = {"COGNITO": ["openid"], "NEW_POOL": ["baton/use"]}


def scheme(stack: Stack, name: str) -> Any:
    return body(stack)["components"]["securitySchemes"][name]


def gateway_response(stack: Stack, kind: str) -> Any:
    return body(stack)["x-amazon-apigateway-gateway-responses"][kind]


@pytest.mark.parametrize("mode", MODES)
def test_every_method_of_the_endpoint_requires_the_modes_credentials(modes: Mapping[str, Stack], mode: str) -> None:
    security = {name: method.get("security") for name, method in body(modes[mode])["paths"]["/mcp"].items()}

    expected = None if SCHEME[mode] is None else [{SCHEME[mode]: SCOPES.get(mode, [])}]
    # A browser's preflight request has no credentials.
    assert security == {"post": expected, "get": expected, "delete": expected, "options": []}
    if mode != "NONE":
        assert set(body(modes[mode])["components"]["securitySchemes"]) == {SCHEME[mode]}


def test_callers_are_anonymous_only_with_auth_none_which_is_not_the_default(
    modes: Mapping[str, Stack], default: Stack
) -> None:
    settings = {mode: variables(stack)["BATON_ALLOW_ANONYMOUS"] for mode, stack in modes.items()}

    assert settings == {**dict.fromkeys(MODES, ""), "NONE": "on"}
    assert default.parameters["Auth"] != "NONE"


@pytest.mark.parametrize(
    ("mode", "parameter"),
    [("COGNITO", "RequiredScopes"), ("JWT", "JwtIssuer"), ("JWT", "JwtAudiences")],
)
def test_a_missing_parameter_of_a_mode_is_rejected_before_anything_is_created(
    stack: MakeStack, modes: Mapping[str, Stack], mode: str, parameter: str
) -> None:
    assert stack(**{**MODES[mode], parameter: ""}).violations == [f"Auth={mode} needs {parameter}."]
    assert modes[mode].violations == []


@pytest.mark.parametrize(
    ("parameter", "accepted", "rejected"),
    [
        ("JwtAudiences", "https://a.example.com/mcp,b:read", ["a, b", "a,,b", ",", " "]),
        ("RequiredScopes", "https://a.example.com/mcp,b:read", ["a, b", "a,,b", ",", " "]),
        ("JwtAlgorithms", ",".join(sorted(ALGORITHMS)), ["HS256", "none", "RS256,HS512", "", "RS256, ES256"]),
    ],
)
def test_a_list_with_an_empty_element_or_an_unsupported_algorithm_is_rejected(
    translation: Any, parameter: str, accepted: str, rejected: list[str]
) -> None:
    pattern = translation["Parameters"][parameter]["AllowedPattern"]

    assert re.fullmatch(pattern, accepted)
    assert [value for value in rejected if re.fullmatch(pattern, value)] == []


def test_a_key_belongs_to_a_plan_for_the_stage(modes: Mapping[str, Stack]) -> None:
    stack = modes["API_KEY"]

    assert scheme(stack, "apiKey") == {"type": "apiKey", "name": "x-api-key", "in": "header"}
    assert stack.single("AWS::ApiGateway::UsagePlan")["ApiStages"] == [
        {"ApiId": {"Ref": "Api"}, "Stage": {"Ref": "Apiv1Stage"}}
    ]
    assert stack.single("AWS::ApiGateway::UsagePlanKey")["KeyId"] == {"Ref": "ApiKey"}
    assert stack.single("AWS::ApiGateway::ApiKey")["Enabled"] is True
    assert [mode for mode, mode_stack in modes.items() if mode_stack.of_type("AWS::ApiGateway::ApiKey")] == ["API_KEY"]


def test_cognito_uses_the_user_pool_and_accepts_access_tokens(modes: Mapping[str, Stack]) -> None:
    authorizer = scheme(modes["COGNITO"], "cognito")["x-amazon-apigateway-authorizer"]

    assert authorizer == {"type": "cognito_user_pools", "providerARNs": [MODES["COGNITO"]["CognitoUserPoolArn"]]}


def test_jwt_calls_the_authorizer_for_every_request_even_without_a_token(modes: Mapping[str, Stack]) -> None:
    authorizer = scheme(modes["JWT"], "jwt")["x-amazon-apigateway-authorizer"]

    assert authorizer["type"] == "request"
    assert authorizer["authorizerResultTtlInSeconds"] == 0
    assert "identitySource" not in authorizer
    assert authorizer["authorizerUri"].endswith("/functions/${AuthorizerFunction}/invocations")
    source_arn = function(modes["JWT"], "AuthorizerPermission")["SourceArn"]
    assert source_arn == "arn:aws:execute-api:eu-central-1:123456789012:${Api}/authorizers/*"


def test_a_rejected_token_gets_the_authorizers_challenge(modes: Mapping[str, Stack]) -> None:
    response = gateway_response(modes["JWT"], "ACCESS_DENIED")

    assert response["statusCode"] == "401"
    assert response["responseParameters"] == {"gatewayresponse.header.WWW-Authenticate": "context.authorizer.challenge"}


FRONT = "https://${SignInApi}.execute-api.eu-central-1.amazonaws.com"
"""The host of the metadata if there is no PublicUrl."""


@pytest.mark.parametrize(
    ("kind", "status", "error"),
    [("ACCESS_DENIED", "403", 'error="insufficient_scope", '), ("UNAUTHORIZED", "401", "")],
)
@pytest.mark.parametrize(
    ("parameters", "host", "scope"),
    [
        ({**MODES["COGNITO"], "PublicUrl": "https://mcp.example.com/team"}, "https://mcp.example.com/team", "openid"),
        ({**MODES["COGNITO"], "RequiredScopes": "read,write"}, FRONT, "read write"),
        (MODES["NEW_POOL"], FRONT, "baton/use"),
    ],
)
def test_cognitos_rejection_names_the_scopes_and_the_metadata(
    stack: MakeStack, parameters: dict[str, str], host: str, scope: str, kind: str, status: str, error: str
) -> None:
    response = gateway_response(stack(**parameters), kind)

    assert response["statusCode"] == status
    assert response["responseParameters"]["gatewayresponse.header.WWW-Authenticate"] == (
        f'\'Bearer {error}resource_metadata="{host}{METADATA}", scope="{scope}"\''
    )


@pytest.mark.parametrize("mode", MODES)
def test_unknown_paths_are_404_except_with_iam_where_they_look_like_unsigned_calls(
    modes: Mapping[str, Stack], mode: str
) -> None:
    expected = "403" if mode == "IAM" else "404"

    assert gateway_response(modes[mode], "MISSING_AUTHENTICATION_TOKEN")["statusCode"] == expected


@pytest.mark.parametrize("mode", MODES)
def test_the_metadata_is_public_and_needs_an_authorization_server(modes: Mapping[str, Stack], mode: str) -> None:
    for path in METADATA_PATHS:
        method = body(modes[mode])["paths"][path]["get"]
        [template] = method["x-amazon-apigateway-integration"]["requestTemplates"].values()

        assert method["security"] == []
        assert json.loads(template) == {"statusCode": 200 if mode in {"COGNITO", "NEW_POOL", "JWT"} else 404}


@pytest.mark.parametrize("path", METADATA_PATHS)
@pytest.mark.parametrize("prefix", ["", "/v1", "/team", "/team/tools"])
def test_the_metadata_names_the_endpoint_at_the_called_address(
    modes: Mapping[str, Stack], prefix: str, path: str
) -> None:
    document = metadata(modes["JWT"], f"{prefix}{path}", path, domain="a1b2.execute-api.eu-central-1.amazonaws.com")

    assert document["resource"] == f"https://a1b2.execute-api.eu-central-1.amazonaws.com{prefix}/mcp"


@pytest.mark.parametrize("path", METADATA_PATHS)
@pytest.mark.parametrize(
    ("mode", "issuer"),
    [("JWT", "https://issuer.example.com/"), ("COGNITO", "https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_Ab1")],
)
def test_the_metadata_has_issuer_scopes_and_public_url(stack: MakeStack, mode: str, issuer: str, path: str) -> None:
    variant = stack(**MODES[mode], RequiredScopes="read,write", PublicUrl="https://mcp.example.com/team")

    assert metadata(variant, f"/v1{path}", path) == {
        "resource": "https://mcp.example.com/team/mcp",
        "authorization_servers": [issuer],
        "scopes_supported": ["read", "write"],
        "bearer_methods_supported": ["header"],
    }
    assert "scopes_supported" not in metadata(stack(**MODES["JWT"], RequiredScopes=""), path, path)


def metadata(stack: Stack, called_path: str, path: str, *, domain: str = "mcp.example.com") -> Any:
    """Render the response's template, which is in Velocity, as API Gateway does."""
    responses = body(stack)["paths"][path]["get"]["x-amazon-apigateway-integration"]["responses"]
    template = airspeed.Template(responses["200"]["responseTemplates"]["application/json"])
    return json.loads(template.merge({"context": {"domainName": domain, "path": called_path}}))


def test_the_authorizer_gets_the_operators_settings(stack: MakeStack) -> None:
    variant = stack(**MODES["JWT"], RequiredScopes="read,write", PublicUrl="https://mcp.example.com")

    assert variables(variant, "AuthorizerFunction") == {
        "JWT_ISSUER": "https://issuer.example.com/",
        "JWT_AUDIENCES": "https://mcp.example.com/mcp other",
        "JWT_ALGORITHMS": "RS256 ES256",
        "JWT_JWKS_URL": "",
        "JWT_SCOPES": "read write",
        "PUBLIC_URL": "https://mcp.example.com",
    }
