"""`Auth=COGNITO` without a pool: the stack's own user pool, the documents that lead clients to it, and the official
client, which signs a user in (docs/sign-in.md).

The emulator has no clients whose id is a URL, so the client uses the app client of the stack. It does not rotate
refresh tokens, and has no endpoint that revokes them. tests/clients/test_sign_in.py tests these.
"""

import base64
import hashlib
import html
import re
import shlex
from collections.abc import Iterator
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import anyio
import httpx2
import jwt
import pytest
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata

from tests.clients.python_sign_in import HOURS_S, Memory
from tests.deployed.conversation import ABOVE_TOTAL, JSON, TIMEOUT_S, TOOLS_LIST
from tests.deployed.deployment import Emulator, Stack
from tests.deployed.issuer import Issuer
from tests.deployed.machine import REGION
from tests.deployed.test_background import wait_until

POLICY = re.compile(r"\n  SignInPolicy:\n(?:    .*\n)+")
SCOPE = "baton/use"
REDIRECT = "http://localhost:3334/oauth/callback"
FIRST_PASSWORD, PASSWORD = "Correct-horse-9-battery", "Correct-horse-9-staple"
PUBLIC_URL = "https://mcp.example.com/team"


def copy_with_pool(stack: Stack, name: str, public_url: str = "") -> Stack:
    """Copy the stack, with a pool of its own. The emulator does not know the policy for clients whose id is a URL."""

    def without_policy(template: str) -> str:
        template, count = POLICY.subn("\n", template)
        assert count == 1
        return template

    return stack.copy(name, change=without_policy, Auth="COGNITO", PublicUrl=public_url)


@pytest.fixture(scope="module")
def pool_stack(stack: Stack) -> Stack:
    return copy_with_pool(stack, "sign-in")


def lead_to(emulator: Emulator, request: httpx2.Request) -> None:
    """Send a request for AWS to the emulator. The `Host` header identifies an API."""
    here = urlsplit(emulator.url)
    api, is_api, _ = request.url.host.partition(".execute-api.")
    if is_api:
        request.headers["Host"] = f"{api}.execute-api.localhost:{here.port}"
    request.url = request.url.copy_with(scheme=here.scheme, host=here.hostname, port=here.port)


@pytest.fixture
def http(emulator: Emulator) -> Iterator[httpx2.Client]:
    """A client for which the emulator is AWS."""
    with httpx2.Client(event_hooks={"request": [partial(lead_to, emulator)]}, timeout=TIMEOUT_S) as client:
        yield client


def create_user(stack: Stack, mail: str) -> str:
    """Create a user with the command in the stack's output. Return its `sub`."""
    words = shlex.split(stack.outputs["CreateUserCommand"].replace("EMAIL", mail))
    assert words[:3] == ["aws", "cognito-idp", "admin-create-user"]
    options = dict(zip(words[3::2], words[4::2], strict=False))
    attributes = [dict(part.split("=", 1) for part in word.split(",")) for word in words[8:]]
    user = stack.emulator.client("cognito-idp").admin_create_user(
        UserPoolId=options["--user-pool-id"],
        Username=options["--username"],
        UserAttributes=attributes,
        # Cognito mails it.
        TemporaryPassword=FIRST_PASSWORD,
    )["User"]
    return next(str(attribute["Value"]) for attribute in user["Attributes"] if attribute["Name"] == "sub")


def submit(http: httpx2.Client, page: httpx2.Response, **fields: str) -> httpx2.Response:
    """Fill in and send the form of a page."""
    hidden = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page.text)
    form = {name: html.unescape(value) for name, value in hidden} | fields
    return http.post(str(page.url.copy_with(path="/login", query=None)), data=form)


def code_of(http: httpx2.Client, address: str, mail: str, password: str) -> dict[str, str]:
    """Sign in at a page, and choose a password if the page asks for one. Return the query of the redirect."""
    page = submit(http, http.get(address), username=mail, password=password)
    if "new_password" in page.text:
        page = submit(http, page, new_password=PASSWORD, confirm_password=PASSWORD)
    assert page.status_code == 302, page.text
    assert page.headers["Location"].startswith(f"{REDIRECT}?")
    return {name: value for name, [value] in parse_qs(urlsplit(page.headers["Location"]).query).items()}


def metadata(http: httpx2.Client, challenge: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Follow a challenge, as a client does. Return the documents of the resource and of its authorization server."""
    match = re.search(r'resource_metadata="([^"]+)"', challenge)
    assert match, challenge
    resource = http.get(match[1]).json()
    [issuer] = resource["authorization_servers"]
    return resource, http.get(f"{issuer}/.well-known/oauth-authorization-server").json()


def post(http: httpx2.Client, stack: Stack, token: str | None) -> httpx2.Response:
    headers = JSON if token is None else {**JSON, "Authorization": f"Bearer {token}"}
    return http.post(stack.outputs["Url"], content=TOOLS_LIST, headers=headers)


def test_the_pool_has_no_sign_up_and_its_client_has_no_secret(pool_stack: Stack) -> None:
    cognito = pool_stack.emulator.client("cognito-idp")
    [pool] = pool_stack.resources("AWS::Cognito::UserPool").values()
    [domain] = pool_stack.resources("AWS::Cognito::UserPoolDomain").values()
    client_id = pool_stack.outputs["SignInClientId"]
    client = cognito.describe_user_pool_client(UserPoolId=pool, ClientId=client_id)["UserPoolClient"]
    server = cognito.describe_resource_server(UserPoolId=pool, Identifier="baton")["ResourceServer"]

    settings = cognito.describe_user_pool(UserPoolId=pool)["UserPool"]["AdminCreateUserConfig"]
    assert settings["AllowAdminCreateUserOnly"] is True
    assert cognito.describe_user_pool_domain(Domain=domain)["DomainDescription"]["UserPoolId"] == pool
    assert [scope["ScopeName"] for scope in server["Scopes"]] == ["use"]
    assert ("ClientSecret" in client, client["AllowedOAuthFlows"]) == (False, ["code"])
    assert client["AllowedOAuthScopes"] == [SCOPE]


def test_a_rejected_call_leads_to_the_documents_of_the_stage_url(pool_stack: Stack, http: httpx2.Client) -> None:
    rejection = post(http, pool_stack, None)
    resource, server = metadata(http, rejection.headers["WWW-Authenticate"])
    [front] = pool_stack.resources("AWS::ApiGatewayV2::Api").values()
    issuer = f"https://{front}.execute-api.{REGION}.amazonaws.com"
    [domain] = pool_stack.resources("AWS::Cognito::UserPoolDomain").values()

    assert (rejection.status_code, f'scope="{SCOPE}"' in rejection.headers["WWW-Authenticate"]) == (401, True)
    assert resource["resource"] == pool_stack.outputs["Url"]
    assert resource["authorization_servers"] == [issuer]
    assert (server["issuer"], server["client_id_metadata_document_supported"]) == (issuer, True)
    assert server["token_endpoint"] == f"https://{domain}.auth.{REGION}.amazoncognito.com/oauth2/token"
    assert resource["scopes_supported"] == server["scopes_supported"] == [SCOPE]
    assert http.get(server["jwks_uri"]).json()["keys"]
    same = ("oauth-authorization-server/mcp", "openid-configuration")
    assert [http.get(f"{issuer}/.well-known/{name}").json() for name in same] == [server] * 2


@pytest.mark.parametrize("name", ["oauth-protected-resource", "oauth-authorization-server"])
def test_the_api_serves_the_documents_under_its_own_path_to_every_page(
    pool_stack: Stack, http: httpx2.Client, name: str
) -> None:
    base = f"{pool_stack.outputs['BaseUrl']}/.well-known"
    replies = [http.get(f"{base}/{name}{suffix}") for suffix in ("", "/mcp")]

    assert [reply.status_code for reply in replies] == [200, 200]
    assert replies[0].json() == replies[1].json()
    assert {reply.headers["Access-Control-Allow-Origin"] for reply in replies} == {"*"}


def test_a_public_url_with_a_path_is_the_issuer_and_the_resource(stack: Stack, http: httpx2.Client) -> None:
    copy = copy_with_pool(stack, "sign-in-path", PUBLIC_URL)
    [api] = copy.resources("AWS::ApiGateway::RestApi").values()
    base = f"https://{api}.execute-api.{REGION}.amazonaws.com/v1"
    rejection = http.post(f"{base}/mcp", content=TOOLS_LIST, headers=JSON)

    named = f'resource_metadata="{PUBLIC_URL}/.well-known/oauth-protected-resource"'
    assert named in rejection.headers["WWW-Authenticate"]
    resource = http.get(f"{base}/.well-known/oauth-protected-resource").json()
    assert (resource["resource"], resource["authorization_servers"]) == (f"{PUBLIC_URL}/mcp", [PUBLIC_URL])
    assert http.get(f"{base}/.well-known/openid-configuration").json()["issuer"] == PUBLIC_URL
    assert copy.resources("AWS::ApiGatewayV2::Api") == {}


def create_client(stack: Stack, **settings: Any) -> str:
    """Add an app client to the stack's pool. Return its id."""
    [pool] = stack.resources("AWS::Cognito::UserPool").values()
    cognito = stack.emulator.client("cognito-idp")
    client = cognito.create_user_pool_client(UserPoolId=pool, ClientName="test", **settings)["UserPoolClient"]
    client_id: str = client["ClientId"]
    return client_id


def token_of_code(http: httpx2.Client, server: dict[str, Any], client_id: str, mail: str, password: str) -> str:
    """Sign a user in at the pool's page, and exchange the code. Return the access token."""
    verifier = "v" * 43
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
    client = {"client_id": client_id, "redirect_uri": REDIRECT}
    pkce = {"code_challenge": challenge, "code_challenge_method": "S256"}
    query = urlencode({"response_type": "code", "scope": SCOPE, **client, **pkce})
    code = code_of(http, f"{server['authorization_endpoint']}?{query}", mail, password)["code"]
    form = {"grant_type": "authorization_code", "code": code, "code_verifier": verifier, **client}
    token: str = http.post(server["token_endpoint"], data=form).json()["access_token"]
    return token


def token_of_password(stack: Stack, client_id: str, mail: str) -> str:
    """Sign a user in with a password. Return the access token, which has no scope of the resource server."""
    response = stack.emulator.client("cognito-idp").initiate_auth(
        ClientId=client_id, AuthFlow="USER_PASSWORD_AUTH", AuthParameters={"USERNAME": mail, "PASSWORD": PASSWORD}
    )
    token: str = response["AuthenticationResult"]["AccessToken"]
    return token


def is_expired(token: str) -> bool:
    try:
        jwt.decode(token, options={"verify_signature": False, "verify_exp": True})
    except jwt.ExpiredSignatureError:
        return True
    return False


def test_each_bad_token_gets_a_challenge_that_leads_to_the_documents(
    pool_stack: Stack, http: httpx2.Client, issuer: Issuer
) -> None:
    challenge = post(http, pool_stack, None).headers["WWW-Authenticate"]
    documents = metadata(http, challenge)
    mail, stack_client = "ada@example.com", pool_stack.outputs["SignInClientId"]
    create_user(pool_stack, mail)
    code_flow = {
        "AllowedOAuthFlowsUserPoolClient": True,
        "AllowedOAuthFlows": ["code"],
        "AllowedOAuthScopes": [SCOPE],
        "CallbackURLs": [REDIRECT],
    }
    # AWS allows no less than five minutes.
    brief = create_client(pool_stack, AccessTokenValidity=1, TokenValidityUnits={"AccessToken": "seconds"}, **code_flow)
    expired = token_of_code(http, documents[1], brief, mail, FIRST_PASSWORD)
    [pool] = pool_stack.resources("AWS::Cognito::UserPool").values()
    by_password = create_client(pool_stack, ExplicitAuthFlows=["ALLOW_USER_PASSWORD_AUTH"])
    bad_tokens = {
        "no token": "x",
        "another issuer's": issuer.sign("ada", scope=SCOPE),
        "another issuer's that claims to be the pool's": issuer.sign(
            "ada", scope=SCOPE, iss=f"https://cognito-idp.{REGION}.amazonaws.com/{pool}"
        ),
        "an expired one": expired,
        # The emulator answers 401. tests/smoke/README.md asks what API Gateway answers.
        "one without the scope": token_of_password(pool_stack, by_password, mail),
    }
    wait_until(lambda: is_expired(expired))

    for kind, token in bad_tokens.items():
        rejection = post(http, pool_stack, token)
        assert rejection.status_code == 401, kind
        assert rejection.headers["WWW-Authenticate"] == challenge, kind
    good = token_of_code(http, documents[1], stack_client, mail, PASSWORD)
    assert post(http, pool_stack, good).status_code == 200


def test_the_official_client_signs_a_new_user_in_calls_and_refreshes(pool_stack: Stack, http: httpx2.Client) -> None:
    mail, url = "kim@example.com", pool_stack.outputs["Url"]
    owner = create_user(pool_stack, mail)
    redirects: list[dict[str, str]] = []
    memory = Memory()
    memory.client = OAuthClientInformationFull(
        client_id=pool_stack.outputs["SignInClientId"], redirect_uris=[REDIRECT], token_endpoint_auth_method="none"
    )

    async def visit(address: str) -> None:
        redirects.append(code_of(http, address, mail, FIRST_PASSWORD))

    async def callback() -> AuthorizationCodeResult:
        return AuthorizationCodeResult(code=redirects[-1]["code"], state=redirects[-1]["state"])

    async def lead(request: httpx2.Request) -> None:
        lead_to(pool_stack.emulator, request)

    async def session() -> list[Any]:
        wanted = OAuthClientMetadata(redirect_uris=[REDIRECT], token_endpoint_auth_method="none")
        provider = OAuthClientProvider(url, wanted, memory, visit, callback)
        async with (
            httpx2.AsyncClient(auth=provider, event_hooks={"request": [lead]}, timeout=TIMEOUT_S) as client,
            Client(streamable_http_client(url, http_client=client)) as mcp,
        ):
            await mcp.get_prompt("refund_order", ABOVE_TOTAL)
            first = memory.tokens
            # The SDK refreshes by its own clock.
            provider.context.token_expiry_time -= HOURS_S
            await mcp.list_tools()
            return [first, memory.tokens]

    first, second = anyio.run(session)
    claims = jwt.decode(first.access_token, options={"verify_signature": False})
    assert (claims["sub"], claims["scope"], "aud" in claims) == (owner, SCOPE, False)
    assert first.access_token != second.access_token
    assert len(redirects) == 1
    stored = pool_stack.emulator.client("dynamodb").scan(TableName=pool_stack.outputs["TaskTableName"])["Items"]
    owners = {item["pk"]["S"].split("#")[1] for item in stored if item["sk"]["S"].startswith("TASK#")}
    assert owners == {owner}
