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
    PAUSED_STATUSES,
    Era,
    Session,
    ask,
    connect,
    first_sdk,
    paused_refund,
    statuses,
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
        owner: The authorizer's identifier of kim, and so the owner of kim's tasks.
        kim: One owner, in the group `refunds`.
        mallory: Another owner, in no group.
        ada: A third owner, in the group `refunds`.
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
    keys = [gateway.create_api_key(name=name, enabled=True) for name in ("kim", "mallory", "ada")]
    kim, mallory, ada = (key["id"] for key in keys)
    stack = original.copy("keys", Approvers=refunds(kim, ada))
    [plan] = stack.resources("AWS::ApiGateway::UsagePlan").values()
    for key in (kim, mallory, ada):
        gateway.create_usage_plan_key(usagePlanId=plan, keyId=key, keyType="API_KEY")
    strangers = stack.caller(x_api_key="forged"), stack.caller()
    kim_caller, mallory_caller, ada_caller = (stack.caller(x_api_key=key["value"]) for key in keys)
    return Access(stack, kim, kim_caller, mallory_caller, ada_caller, strangers, 403)


def by_jwt(original: Stack, request: pytest.FixtureRequest) -> Access:
    issuer: Issuer = request.getfixturevalue("issuer")
    audience = f"{PUBLIC_URL}/mcp"
    stack = original.copy("jwt", Auth="JWT", JwtIssuer=issuer.url, JwtAudiences=audience, PublicUrl=PUBLIC_URL)
    scopes = {"kim": "openid refunds", "mallory": "openid", "ada": "openid refunds"}
    valid_tokens = [issuer.sign(subject, aud=audience, scope=scope) for subject, scope in scopes.items()]
    claims = {"scope": "openid refunds", "aud": audience}
    other_audience = claims | {"aud": "https://other.example.com"}
    invalid_tokens = [issuer.sign("ada", **other_audience), issuer.sign("ada", **claims, exp=1)]
    kim, mallory, ada, *strangers = (bearer(stack, token) for token in valid_tokens + invalid_tokens)
    return Access(stack, "kim", kim, mallory, ada, (*strangers, stack.caller()), 401)


def by_cognito(original: Stack, request: pytest.FixtureRequest) -> Access:
    cognito = original.emulator.client("cognito-idp")
    pool = cognito.create_user_pool(PoolName="people")["UserPool"]
    flows = ["ALLOW_USER_PASSWORD_AUTH", "ALLOW_REFRESH_TOKEN_AUTH"]
    app_client = cognito.create_user_pool_client(UserPoolId=pool["Id"], ClientName="host", ExplicitAuthFlows=flows)
    client_id = app_client["UserPoolClient"]["ClientId"]

    def token(user: str) -> str:
        cognito.admin_create_user(UserPoolId=pool["Id"], Username=user)
        cognito.admin_set_user_password(UserPoolId=pool["Id"], Username=user, Password=PASSWORD, Permanent=True)
        response = cognito.initiate_auth(
            ClientId=client_id,
            AuthFlow="USER_PASSWORD_AUTH",
            AuthParameters={"USERNAME": user, "PASSWORD": PASSWORD},
        )
        value: str = response["AuthenticationResult"]["AccessToken"]
        return value

    def owner(token: str) -> str:
        attributes = cognito.get_user(AccessToken=token)["UserAttributes"]
        return next(str(attribute["Value"]) for attribute in attributes if attribute["Name"] == "sub")

    kim, mallory, ada = token("kim"), token("mallory"), token("ada")
    stack = original.copy(
        "cognito",
        Auth="COGNITO",
        CognitoUserPoolArn=pool["Arn"],
        RequiredScopes=SCOPE,
        PublicUrl=PUBLIC_URL,
        Approvers=refunds(owner(kim), owner(ada)),
    )
    tokens = (kim, mallory, ada, ada[:-8] + "AAAAAAAA")
    kim_caller, mallory_caller, ada_caller, forged = (bearer(stack, access_token) for access_token in tokens)
    return Access(stack, owner(kim), kim_caller, mallory_caller, ada_caller, (forged, stack.caller()), 401)


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

    def caller_with(key: str, secret: str) -> Caller:
        return signing_caller(stack.host, key, secret)

    strangers = caller_with(ada[0], mallory[1]), caller_with(*denied), stack.caller()
    return Access(stack, owner("kim"), caller_with(*kim), caller_with(*mallory), caller_with(*ada), strangers, 403)


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


DEPLOYMENTS = (by_api_key, by_jwt, by_cognito, by_iam)


@pytest.fixture(scope="module", params=DEPLOYMENTS, ids=lambda deploy: deploy.__name__)
def access(request: pytest.FixtureRequest, stack: Stack) -> Access:
    deploy: Callable[[Stack, pytest.FixtureRequest], Access] = request.param
    return deploy(stack, request)


@pytest.mark.parametrize("era", ["2025", "2026"])
def test_the_whole_conversation_works_and_another_owners_task_looks_missing(access: Access, era: Era) -> None:
    async def converse() -> list[tuple[int, str]]:
        task_id = await whole_conversation(access.stack.endpoint, access.kim, era)
        refusals = []
        async with connect(access.stack.endpoint, access.mallory, era) as session:
            for requested_id in (task_id, task_id[:-1] + ("0" if task_id[-1] != "0" else "1")):
                with pytest.raises(MCPError) as error_info:
                    await session.task("get", requested_id)
                refusals.append((error_info.value.error.code, error_info.value.error.message))
        return refusals

    foreign_error, missing_error = anyio.run(converse)
    assert foreign_error == missing_error
    assert foreign_error[0] == INVALID_PARAMS


def test_a_task_belongs_to_the_authorizers_caller_and_other_owners_do_not_list_it(access: Access) -> None:
    async def list_tasks() -> tuple[str, list[str], list[str]]:
        async with connect(access.stack.endpoint, access.kim) as session:
            task_id = await paused_refund(session)
            own_tasks = await task_ids(session)
        async with connect(access.stack.endpoint, access.mallory) as session:
            return task_id, own_tasks, await task_ids(session)

    async def task_ids(session: Session) -> list[str]:
        return [task["taskId"] for task in (await session.task("list", ""))["tasks"]]

    task_id, own_tasks, foreign_tasks = anyio.run(list_tasks)
    key = {"pk": {"S": f"OWNER#{access.owner}"}, "sk": {"S": f"TASK#{task_id}"}}
    table = access.stack.outputs["TaskTableName"]
    assert "Item" in access.stack.emulator.client("dynamodb").get_item(TableName=table, Key=key)
    assert task_id in own_tasks
    assert foreign_tasks == []


def test_only_another_member_of_the_group_can_decide_a_refund(access: Access) -> None:
    approval = requested_approval(access.stack, access.kim)
    url = access.stack.endpoint.replace("/mcp", f"/approvals/{approval['approvalId']}")
    record = json.loads(ask(url, access.ada, None, method="GET").body)
    decision = json.dumps({"decision": "approve", "digest": record["digest"]}).encode()

    assert [ask(url, caller, decision).status for caller in (access.mallory, access.kim)] == [404, 403]
    refusals = [ask(url, caller, decision).status for caller in access.strangers]
    assert refusals == [access.refusal] * len(refusals)
    assert json.loads(ask(url, access.ada, None, method="GET").body)["state"] == "waiting"
    assert json.loads(ask(url, access.ada, decision).body)["state"] == "approved"

    async def resume() -> str:
        async with connect(access.stack.endpoint, access.kim) as session:
            _, meta = await session.prompt("refund_order", _task_id=approval["taskId"])
            status: str = meta["task_status"]
            return status

    assert anyio.run(resume) == "completed"


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
        async with connect(stack.endpoint, caller) as session:
            _, meta = await session.prompt("refund_order", {"order_id": "A-17"})
            assert meta["pause_reason"]["type"] == "approvalRequired"
            return {**meta["pause_reason"], "taskId": meta["task_id"]}

    return anyio.run(refund)


def test_unauthorised_callers_are_rejected(access: Access) -> None:
    answers = [ask(access.stack.endpoint, stranger) for stranger in access.strangers]
    assert [answer.status for answer in answers] == [access.refusal] * len(answers)
    assert [answer.body for answer in answers if "tools" in answer.body] == []


def test_the_first_release_of_the_official_sdk_completes_the_conversation(stack: Stack, keys: tuple[str, str]) -> None:
    report = first_sdk(stack.endpoint, stack.caller(x_api_key=keys[0]))

    assert report["revision"] == "2025-11-25"
    assert {"fetch_order", "issue_refund", "send_message"} <= set(report["tools"])
    assert {"refund_order", "monthly_report"} <= set(report["prompts"])
    pause, continuation, resume = report["paused"], report["continued"], report["resumed"]
    assert pause["progress"] == ["Step 1/4: fetch", "Step 2/4: policy", "Step 3/4: refund"]
    assert statuses(pause["meta"]) == PAUSED_STATUSES
    assert "<field 'refund_id' from issue_refund>" in pause["handoff"]
    assert (continuation["value"]["refund_id"], continuation["meta"]["recorded"]) == ("R-A-17", True)
    assert (resume["meta"]["task_status"], resume["progress"]) == ("completed", ["Step 4/4: notify"])
    assert (report["task"], report["tasks"]) == ("completed", True)
