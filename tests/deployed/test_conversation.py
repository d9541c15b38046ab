"""The sample's whole conversation with the deployed function, through the API's URL, each way of saying who calls."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest
from mcp import MCPError

from tests.deployed.conversation import ask, talking, whole_conversation
from tests.deployed.deployment import Stack, Twin
from tests.deployed.issuer import Issuer

INVALID_PARAMS = -32602
PUBLIC_URL = "https://mcp.example.com"
PASSWORD = "Correct-horse-9"
SCOPE = "aws.cognito.signin.user.admin"
"""The one scope of the access tokens that Cognito gives for a password."""


@dataclass(frozen=True, slots=True)
class Access:
    """A deployed endpoint, and two of its owners.

    Attributes:
        url: The endpoint.
        kim: The headers of one owner's requests.
        mallory: Another's.
        nobody: Headers that nobody may call with.
    """

    url: str
    kim: dict[str, str]
    mallory: dict[str, str]
    nobody: dict[str, str]


def by_api_key(twin: Twin, build: Path, request: pytest.FixtureRequest) -> Access:
    stack: Stack = request.getfixturevalue("stack")
    kim, mallory = request.getfixturevalue("keys")
    return access(stack, "x-api-key", kim, mallory, "forged")


def by_jwt(twin: Twin, build: Path, request: pytest.FixtureRequest) -> Access:
    issuer: Issuer = request.getfixturevalue("issuer")
    audience = f"{PUBLIC_URL}/mcp"
    stack = twin.deploy(build, "jwt", Auth="JWT", JwtIssuer=issuer.url, JwtAudiences=audience, PublicUrl=PUBLIC_URL)
    kim, mallory = (f"Bearer {issuer.sign(subject, aud=audience)}" for subject in ("kim", "mallory"))
    return access(stack, "Authorization", kim, mallory, f"Bearer {issuer.sign('kim', aud='https://other.example.com')}")


def by_cognito(twin: Twin, build: Path, request: pytest.FixtureRequest) -> Access:
    cognito = twin.client("cognito-idp")
    pool = cognito.create_user_pool(PoolName="people")["UserPool"]
    flows = ["ALLOW_USER_PASSWORD_AUTH", "ALLOW_REFRESH_TOKEN_AUTH"]
    registered = cognito.create_user_pool_client(UserPoolId=pool["Id"], ClientName="host", ExplicitAuthFlows=flows)
    client_id = registered["UserPoolClient"]["ClientId"]

    def token(user: str) -> str:
        cognito.admin_create_user(UserPoolId=pool["Id"], Username=user)
        cognito.admin_set_user_password(UserPoolId=pool["Id"], Username=user, Password=PASSWORD, Permanent=True)
        answer = cognito.initiate_auth(
            ClientId=client_id,
            AuthFlow="USER_PASSWORD_AUTH",
            AuthParameters={"USERNAME": user, "PASSWORD": PASSWORD},
        )
        return f"Bearer {answer['AuthenticationResult']['AccessToken']}"

    stack = twin.deploy(
        build, "cognito", Auth="COGNITO", CognitoUserPoolArn=pool["Arn"], RequiredScopes=SCOPE, PublicUrl=PUBLIC_URL
    )
    kim = token("kim")
    return access(stack, "Authorization", kim, token("mallory"), kim[:-8] + "AAAAAAAA")


def access(stack: Stack, header: str, kim: str, mallory: str, nobody: str) -> Access:
    return Access(stack.endpoint, *({**stack.headers, header: value} for value in (kim, mallory, nobody)))


@pytest.fixture(scope="module", params=[by_api_key, by_jwt, by_cognito])
def deployed(request: pytest.FixtureRequest, twin: Twin, build: Path) -> Access:
    deploy: Callable[[Twin, Path, pytest.FixtureRequest], Access] = request.param
    return deploy(twin, build, request)


def test_an_owner_holds_the_whole_conversation_and_another_cannot_tell_its_task_from_none(deployed: Access) -> None:
    async def ask() -> list[tuple[int, str]]:
        task_id = await whole_conversation(deployed.url, deployed.kim)
        refusals = []
        async with talking(deployed.url, deployed.mallory) as talk:
            for asked in (task_id, task_id[:-1] + ("0" if task_id[-1] != "0" else "1")):
                with pytest.raises(MCPError) as caught:
                    await talk.task("get", asked)
                refusals.append((caught.value.error.code, caught.value.error.message))
            assert (await talk.task("list", ""))["tasks"] == []
        return refusals

    foreign, missing = anyio.run(ask)
    assert foreign == missing
    assert foreign[0] == INVALID_PARAMS


def test_a_forged_identity_gets_nowhere(deployed: Access) -> None:
    answer = ask(deployed.url, deployed.nobody)
    assert answer.status == (403 if "x-api-key" in deployed.nobody else 401)
    assert "tools" not in answer.body
