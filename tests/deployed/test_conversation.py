"""The sample's whole conversation with the deployed function through the API's URL, with each kind of
authentication.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from uuid import uuid4

import anyio
import pytest
from mcp import MCPError

from tests.deployed.callers import Caller, signing_caller
from tests.deployed.conversation import (
    PAUSED_AT,
    Era,
    Talk,
    ask,
    first_sdk,
    paused_refund,
    statuses,
    talking,
    whole_conversation,
)
from tests.deployed.deployment import Stack
from tests.deployed.issuer import Issuer

INVALID_PARAMS = -32602
PUBLIC_URL = "https://mcp.example.com"
PASSWORD = "Correct-horse-9"
SCOPE = "aws.cognito.signin.user.admin"
"""The only scope in the access tokens that Cognito issues for a password."""


@dataclass(frozen=True, slots=True)
class Access:
    """A deployed endpoint and its callers.

    Attributes:
        stack: The stack of the endpoint.
        owner: The authorizer's identifier of kim, and so the owner of kim's tasks.
        kim: One owner, in the group `refunds`.
        mallory: Another owner, in no group.
        ada: A third owner, in the group `refunds`.
        strangers: Callers without valid credentials.
        refusal: The HTTP status that strangers get.
    """

    stack: Stack
    owner: str
    kim: Caller
    mallory: Caller
    ada: Caller
    strangers: tuple[Caller, ...]
    refusal: int


def by_api_key(original: Stack, request: pytest.FixtureRequest) -> Access:
    gateway = original.emulator.client("apigateway")
    made = [gateway.create_api_key(name=name, enabled=True) for name in ("kim", "mallory", "ada")]
    kim, mallory, ada = (key["id"] for key in made)
    stack = original.copy("keys", Approvers=refunds(kim, ada))
    [plan] = stack.resources("AWS::ApiGateway::UsagePlan").values()
    for key in (kim, mallory, ada):
        gateway.create_usage_plan_key(usagePlanId=plan, keyId=key, keyType="API_KEY")
    strangers = stack.caller(x_api_key="forged"), stack.caller()
    kims, mallorys, adas = (stack.caller(x_api_key=key["value"]) for key in made)
    return Access(stack, kim, kims, mallorys, adas, strangers, 403)


def by_jwt(original: Stack, request: pytest.FixtureRequest) -> Access:
    issuer: Issuer = request.getfixturevalue("issuer")
    audience = f"{PUBLIC_URL}/mcp"
    stack = original.copy("jwt", Auth="JWT", JwtIssuer=issuer.url, JwtAudiences=audience, PublicUrl=PUBLIC_URL)
    scopes = {"kim": "openid refunds", "mallory": "openid", "ada": "openid refunds"}
    good = [issuer.sign(subject, aud=audience, scope=scope) for subject, scope in scopes.items()]
    claims = {"scope": "openid refunds", "aud": audience}
    bad = [issuer.sign("ada", **claims | {"aud": "https://other.example.com"}), issuer.sign("ada", **claims, exp=1)]
    kim, mallory, ada, *strangers = (bearer(stack, token) for token in good + bad)
    return Access(stack, "kim", kim, mallory, ada, (*strangers, stack.caller()), 401)


def by_cognito(original: Stack, request: pytest.FixtureRequest) -> Access:
    cognito = original.emulator.client("cognito-idp")
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
        issued: str = answer["AuthenticationResult"]["AccessToken"]
        return issued

    def owner(token: str) -> str:
        attributes = cognito.get_user(AccessToken=token)["UserAttributes"]
        return next(str(one["Value"]) for one in attributes if one["Name"] == "sub")

    kim, mallory, ada = token("kim"), token("mallory"), token("ada")
    stack = original.copy(
        "cognito",
        Auth="COGNITO",
        CognitoUserPoolArn=pool["Arn"],
        RequiredScopes=SCOPE,
        PublicUrl=PUBLIC_URL,
        Approvers=refunds(owner(kim), owner(ada)),
    )
    kims, mallorys, adas, forged = (bearer(stack, it) for it in (kim, mallory, ada, ada[:-8] + "AAAAAAAA"))
    return Access(stack, owner(kim), kims, mallorys, adas, (forged, stack.caller()), 401)


def by_iam(original: Stack, request: pytest.FixtureRequest) -> Access:
    iam = original.emulator.client("iam")
    # The emulator's account may already have users with these names.
    names = {name: f"{name}-{uuid4().hex}" for name in ("kim", "mallory", "ada", "denied")}

    def user(name: str, effect: str = "Allow") -> tuple[str, str]:
        name = names[name]
        iam.create_user(UserName=name)
        invoke = {"Effect": effect, "Action": "execute-api:Invoke", "Resource": "*"}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [invoke]})
        iam.put_user_policy(UserName=name, PolicyName="call", PolicyDocument=policy)
        key = iam.create_access_key(UserName=name)["AccessKey"]
        return key["AccessKeyId"], key["SecretAccessKey"]

    def owner(name: str) -> str:
        user_id: str = iam.get_user(UserName=names[name])["User"]["UserId"]
        return user_id

    kim, mallory, ada, denied = user("kim"), user("mallory"), user("ada"), user("denied", "Deny")
    stack = original.copy("iam", Auth="IAM", Approvers=refunds(owner("kim"), owner("ada"), owner("denied")))

    def signing(key: str, secret: str) -> Caller:
        return signing_caller(stack.host, key, secret)

    strangers = signing(ada[0], mallory[1]), signing(*denied), stack.caller()
    return Access(stack, owner("kim"), signing(*kim), signing(*mallory), signing(*ada), strangers, 403)


def by_nothing(original: Stack, request: pytest.FixtureRequest) -> Access:
    """Deploy without authentication: all callers are one owner."""
    stack = original.copy("none", Auth="NONE", Approvers=refunds("anonymous"))
    everyone = stack.caller()
    return Access(stack, "anonymous", everyone, everyone, everyone, (), 200)


def refunds(*owners: str) -> str:
    """Return the parameter `Approvers` with these owners in the group `refunds`."""
    return json.dumps({"refunds": owners})


def bearer(stack: Stack, token: str) -> Caller:
    return stack.caller(Authorization=f"Bearer {token}")


WAYS = (by_api_key, by_jwt, by_cognito, by_iam)


@pytest.fixture(scope="module", params=WAYS, ids=lambda way: way.__name__)
def deployed(request: pytest.FixtureRequest, stack: Stack) -> Access:
    deploy: Callable[[Stack, pytest.FixtureRequest], Access] = request.param
    return deploy(stack, request)


@pytest.mark.parametrize("era", ["2025", "2026"])
def test_the_whole_conversation_works_and_another_owners_task_looks_missing(deployed: Access, era: Era) -> None:
    async def converse() -> list[tuple[int, str]]:
        task_id = await whole_conversation(deployed.stack.endpoint, deployed.kim, era)
        refusals = []
        async with talking(deployed.stack.endpoint, deployed.mallory, era) as talk:
            for asked in (task_id, task_id[:-1] + ("0" if task_id[-1] != "0" else "1")):
                with pytest.raises(MCPError) as caught:
                    await talk.task("get", asked)
                refusals.append((caught.value.error.code, caught.value.error.message))
        return refusals

    foreign, missing = anyio.run(converse)
    assert foreign == missing
    assert foreign[0] == INVALID_PARAMS


def test_a_task_belongs_to_the_authorizers_caller_and_other_owners_do_not_list_it(deployed: Access) -> None:
    async def paused() -> tuple[str, list[str], list[str]]:
        async with talking(deployed.stack.endpoint, deployed.kim) as talk:
            task_id = await paused_refund(talk)
            own = await listed(talk)
        async with talking(deployed.stack.endpoint, deployed.mallory) as talk:
            return task_id, own, await listed(talk)

    async def listed(talk: Talk) -> list[str]:
        return [task["taskId"] for task in (await talk.task("list", ""))["tasks"]]

    task_id, own, foreign = anyio.run(paused)
    key = {"pk": {"S": f"OWNER#{deployed.owner}#00"}, "sk": {"S": f"TASK#{task_id}"}}
    table = deployed.stack.outputs["TaskTableName"]
    assert "Item" in deployed.stack.emulator.client("dynamodb").get_item(TableName=table, Key=key)
    assert task_id in own
    assert foreign == []


def test_only_another_member_of_the_group_can_decide_a_refund(deployed: Access) -> None:
    approval = requested_approval(deployed.stack, deployed.kim)
    url = deployed.stack.endpoint.replace("/mcp", f"/approvals/{approval['approvalId']}")
    record = json.loads(ask(url, deployed.ada, None, method="GET").body)
    decision = json.dumps({"decision": "approve", "digest": record["digest"]}).encode()

    assert [ask(url, caller, decision).status for caller in (deployed.mallory, deployed.kim)] == [404, 403]
    refusals = [ask(url, caller, decision).status for caller in deployed.strangers]
    assert refusals == [deployed.refusal] * len(refusals)
    assert json.loads(ask(url, deployed.ada, None, method="GET").body)["state"] == "waiting"
    assert json.loads(ask(url, deployed.ada, decision).body)["state"] == "approved"

    async def resumed() -> str:
        async with talking(deployed.stack.endpoint, deployed.kim) as talk:
            _, meta = await talk.prompt("refund_order", _task_id=approval["taskId"])
            status: str = meta["task_status"]
            return status

    assert anyio.run(resumed) == "completed"


def test_without_authentication_no_caller_can_decide_a_refund(stack: Stack, request: pytest.FixtureRequest) -> None:
    everyone = by_nothing(stack, request).stack
    approval = requested_approval(everyone, everyone.caller())
    url = everyone.endpoint.replace("/mcp", f"/approvals/{approval['approvalId']}")
    record = json.loads(ask(url, everyone.caller(), None, method="GET").body)
    decision = json.dumps({"decision": "approve", "digest": record["digest"]}).encode()
    assert ask(url, everyone.caller(), decision).status == 403


def requested_approval(stack: Stack, caller: Caller) -> dict[str, str]:
    """Start a refund that waits for an approval. Return its pause reason, with the task's id as `taskId`."""

    async def refund() -> dict[str, str]:
        async with talking(stack.endpoint, caller) as talk:
            _, meta = await talk.prompt("refund_order", {"order_id": "A-17"})
            assert meta["pause_reason"]["type"] == "approvalRequired"
            return {**meta["pause_reason"], "taskId": meta["task_id"]}

    return anyio.run(refund)


def test_unauthorised_callers_are_rejected(deployed: Access) -> None:
    answers = [ask(deployed.stack.endpoint, stranger) for stranger in deployed.strangers]
    assert [answer.status for answer in answers] == [deployed.refusal] * len(answers)
    assert [answer.body for answer in answers if "tools" in answer.body] == []


def test_the_first_release_of_the_official_sdk_completes_the_conversation(stack: Stack, keys: tuple[str, str]) -> None:
    seen = first_sdk(stack.endpoint, stack.caller(x_api_key=keys[0]))

    assert seen["revision"] == "2025-11-25"
    assert {"fetch_order", "issue_refund", "send_message"} <= set(seen["tools"])
    assert {"refund_order", "monthly_report"} <= set(seen["prompts"])
    paused, continued, resumed = seen["paused"], seen["continued"], seen["resumed"]
    assert paused["progress"] == ["Step 1/4: fetch", "Step 2/4: policy", "Step 3/4: refund"]
    assert statuses(paused["meta"]) == PAUSED_AT
    assert "<field 'refund_id' from issue_refund>" in paused["handoff"]
    assert (continued["value"]["refund_id"], continued["meta"]["recorded"]) == ("R-A-17", True)
    assert (resumed["meta"]["task_status"], resumed["progress"]) == ("completed", ["Step 4/4: notify"])
    assert (seen["task"], seen["tasks"]) == ("completed", True)
