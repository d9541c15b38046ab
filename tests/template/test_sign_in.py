"""Signing in by URL: the user pool that the stack creates, the metadata that leads clients to it, and the console."""

import json
from collections.abc import Mapping
from typing import Any

import airspeed
import pytest

from tests.template.cloudformation import Stack
from tests.template.conftest import METADATA, METADATA_PATHS, MODES, SERVER_METADATA_PATHS, MakeStack, body, variables

FRONT = "https://${SignInApi}.execute-api.eu-central-1.amazonaws.com"
DOMAIN = "https://shop.auth.eu-west-1.amazoncognito.com"
INTEGRATION = "x-amazon-apigateway-integration"


def document(stack: Stack, path: str, called_path: str) -> Any:
    """Render the document that API Gateway returns for a path."""
    text = body(stack)["paths"][path]["get"][INTEGRATION]["responses"]["200"]["responseTemplates"]["application/json"]
    return json.loads(airspeed.Template(text).merge({"context": {"domainName": "a1.example.com", "path": called_path}}))


def sign_in_resources(stack: Stack) -> set[str]:
    """Return the resources that only signing in needs."""
    return {name for name, entry in stack.resources.items() if "Cognito" in entry["Type"] or "V2" in entry["Type"]}


def test_auth_cognito_without_a_pool_creates_everything_that_a_client_needs(modes: Mapping[str, Stack]) -> None:
    stack = modes["NEW_POOL"]

    pool = stack.single("AWS::Cognito::UserPool")
    assert pool["AdminCreateUserConfig"] == {"AllowAdminCreateUserOnly": True}
    assert stack.single("AWS::Cognito::UserPoolDomain")["Domain"] == "baton-51af3dc0-da77-11e4-872e-1234567db123"
    server = stack.single("AWS::Cognito::UserPoolResourceServer")
    assert (server["Identifier"], [scope["ScopeName"] for scope in server["Scopes"]]) == ("baton", ["use"])
    authorizer = body(stack)["components"]["securitySchemes"]["cognito"]["x-amazon-apigateway-authorizer"]
    assert authorizer["providerARNs"] == [{"Fn::GetAtt": ["UserPool", "Arn"]}]
    assert stack.outputs["CreateUserCommand"].startswith(
        "aws cognito-idp admin-create-user --user-pool-id ${UserPool} "
    )


def test_the_app_client_is_public_and_only_takes_codes_for_its_own_scope(modes: Mapping[str, Stack]) -> None:
    client = modes["NEW_POOL"].single("AWS::Cognito::UserPoolClient")

    assert client["GenerateSecret"] is False
    assert client["AllowedOAuthFlows"] == ["code"]
    assert client["AllowedOAuthScopes"] == ["baton/use"]
    assert client["RefreshTokenRotation"]["Feature"] == "ENABLED"
    # Cognito refuses a client with both.
    assert "ALLOW_REFRESH_TOKEN_AUTH" not in client["ExplicitAuthFlows"]
    order = modes["NEW_POOL"].order()
    assert order.index("ResourceServer") < order.index("SignInClient")


def test_the_operator_chooses_which_clients_may_sign_users_in(stack: MakeStack) -> None:
    policy = stack(**MODES["NEW_POOL"]).single("AWS::Cognito::CIMDPolicy")
    own = stack(**MODES["NEW_POOL"], SignInClients="https://a.example.com/*", PublicUrl="https://mcp.example.com/team")

    hosts = {pattern.split("/")[2] for pattern in policy["URLPatterns"]}
    assert hosts >= {"claude.ai", "chatgpt.com", "vscode.dev", "cursor.com"}
    assert policy["ClientId"] == {"Ref": "SignInClient"}
    assert own.single("AWS::Cognito::CIMDPolicy")["URLPatterns"] == [
        "https://a.example.com/*",
        "https://mcp.example.com/team/console/client.json",
    ]


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode not in {"COGNITO", "NEW_POOL"}])
def test_other_modes_have_nothing_of_it(modes: Mapping[str, Stack], mode: str) -> None:
    assert sign_in_resources(modes[mode]) == set()
    for path in SERVER_METADATA_PATHS:
        [template] = body(modes[mode])["paths"][path]["get"][INTEGRATION]["requestTemplates"].values()
        assert json.loads(template) == {"statusCode": 404}


def test_a_pool_of_ones_own_is_not_changed(modes: Mapping[str, Stack]) -> None:
    assert {name for name in sign_in_resources(modes["COGNITO"]) if not name.startswith("SignIn")} == set()
    assert modes["COGNITO"].of_type("AWS::Cognito::UserPoolClient") == []
    assert modes["COGNITO"].of_type("AWS::Cognito::CIMDPolicy") == []


def test_a_domain_without_its_pool_is_rejected(stack: MakeStack) -> None:
    assert stack(Auth="COGNITO", CognitoDomain=DOMAIN).violations == ["CognitoDomain needs CognitoUserPoolArn."]
    assert stack(**MODES["COGNITO"], CognitoDomain=DOMAIN).violations == []


@pytest.mark.parametrize("path", SERVER_METADATA_PATHS)
def test_the_server_metadata_names_the_endpoints_of_the_new_pool(modes: Mapping[str, Stack], path: str) -> None:
    pool = "https://cognito-idp.eu-central-1.amazonaws.com/${UserPool}"
    domain = "https://${UserPoolDomain}.auth.eu-central-1.amazoncognito.com"

    assert document(modes["NEW_POOL"], path, f"/v1{path}") == {
        "issuer": FRONT,
        "authorization_endpoint": f"{domain}/oauth2/authorize",
        "token_endpoint": f"{domain}/oauth2/token",
        "revocation_endpoint": f"{domain}/oauth2/revoke",
        "jwks_uri": f"{pool}/.well-known/jwks.json",
        # Cognito has no offline_access, and clients request every scope that is listed.
        "scopes_supported": ["baton/use"],
        "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "code_challenge_methods_supported": ["S256"],
        "client_id_metadata_document_supported": True,
        "token_endpoint_auth_methods_supported": ["none"],
        "revocation_endpoint_auth_methods_supported": ["none"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
    }


@pytest.mark.parametrize("url", ["https://mcp.example.com", "https://mcp.example.com/team"])
def test_a_pool_of_ones_own_with_its_domain_has_the_same_metadata(stack: MakeStack, url: str) -> None:
    variant = stack(**MODES["COGNITO"], CognitoDomain=DOMAIN, RequiredScopes="read,write", PublicUrl=url)

    server = document(variant, SERVER_METADATA_PATHS[0], SERVER_METADATA_PATHS[0])
    assert server["issuer"] == url
    assert server["token_endpoint"] == f"{DOMAIN}/oauth2/token"
    assert server["jwks_uri"] == "https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_Ab1/.well-known/jwks.json"
    assert server["scopes_supported"] == ["read", "write"]
    for path in METADATA_PATHS:
        resource = document(variant, path, path)
        assert (resource["authorization_servers"], resource["resource"]) == ([url], f"{url}/mcp")


def test_the_issuer_is_the_host_that_forwards_to_the_metadata(modes: Mapping[str, Stack]) -> None:
    stack = modes["NEW_POOL"]
    resource = document(stack, METADATA, f"/v1{METADATA}")

    assert resource["authorization_servers"] == [FRONT]
    assert resource["resource"] == "https://a1.example.com/v1/mcp"
    assert stack.single("AWS::ApiGatewayV2::Integration")["IntegrationUri"] == (
        "https://${Api}.execute-api.eu-central-1.amazonaws.com/v1/.well-known/{proxy}"
    )
    assert stack.single("AWS::ApiGatewayV2::Route")["RouteKey"] == "ANY /.well-known/{proxy+}"
    # The API names it in its 401 responses, so it exists before.
    assert stack.order().index("SignInApi") < stack.order().index("Api") < stack.order().index("SignInIntegration")


def test_behind_a_public_url_nothing_forwards(stack: MakeStack) -> None:
    assert stack(**MODES["NEW_POOL"], PublicUrl="https://mcp.example.com").of_type("AWS::ApiGatewayV2::Api") == []


def test_the_consoles_client_is_served_by_the_function_without_credentials(stack: MakeStack) -> None:
    paths = body(stack(**MODES["NEW_POOL"], Console="on"))["paths"]

    assert paths["/console/client.json"] == {"get": paths["/console"]["get"]}
    assert body(stack(**MODES["NEW_POOL"]))["paths"]["/console/client.json"] == {}


def test_the_console_signs_in_at_the_pools_domain_if_it_is_known(stack: MakeStack, modes: Mapping[str, Stack]) -> None:
    expected = {**dict.fromkeys(MODES, ""), "NEW_POOL": "https://${UserPoolDomain}.auth.eu-central-1.amazoncognito.com"}

    assert {mode: variables(variant)["BATON_SIGN_IN_URL"] for mode, variant in modes.items()} == expected
    assert variables(stack(**MODES["COGNITO"], CognitoDomain=DOMAIN))["BATON_SIGN_IN_URL"] == DOMAIN
    assert variables(stack(Auth="JWT", CognitoDomain=DOMAIN))["BATON_SIGN_IN_URL"] == ""
