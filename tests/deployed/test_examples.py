"""The examples of real jobs, with the changes in their READMEs, and with the services that they call."""

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import httpx2
import pytest

from tests.deployed.callers import Caller
from tests.deployed.conversation import ask, result_of, tasks_of
from tests.deployed.deployment import Emulator, Stack
from tests.deployed.machine import REGION
from tests.deployed.test_background import item_of, start_task_as, wait_until
from tests.deployed.test_waits import message, status
from tests.example_readmes import ExampleReadme

ACCOUNT = "000000000000"
"""The account of the emulator."""
GROUP = "/ecs/checkout"
TEAM_ARN = f"arn:aws:sqs:{REGION}:{ACCOUNT}:team"
CAUSE = {"kind": "memory", "evidence": "ERROR OutOfMemoryError"}
FILES = {
    "berlin": "product,revenue\ndesk,189.10\nlamp,40.20\n",
    "lyon": "product,revenue\nlamp,40.20\n",
    "porto": "product,revenue\n",
}
SUMMARY = {"subject": "Sales of November", "text": "November was good. Berlin led. Porto sold nothing."}


def deploy(
    stack: Stack,
    name: str,
    change: Callable[[ExampleReadme], ExampleReadme] = lambda readme: readme,
    **parameters: str,
) -> Stack:
    """Deploy an example with the changes in its README. It has the layer and the authorizer of `stack`, because a new
    build would take long and change nothing in them.
    """
    readme = change(ExampleReadme.read(name))

    def with_locations(packaged: str) -> str:
        [code, authorizer] = dict.fromkeys(re.findall(r"CodeUri: (s3://\S+)", packaged))
        [layer] = re.findall(r"ContentUri: (s3://\S+)", packaged)
        template = readme.template()
        for folder, location in {
            "functions/mcp/": code,
            "functions/authorizer/": authorizer,
            "layers/baton/": layer,
        }.items():
            template = template.replace(f"Uri: {folder}\n", f"Uri: {location}\n")
        return template

    return stack.copy(name, readme.app, with_locations, **parameters)


def paused_for_answers(stack: Stack, caller: Caller, workflow: str, **arguments: Any) -> tuple[str, str]:
    """Start a workflow that asks the model. Return the task's id, and the text that the model reads."""
    result = result_of(stack, caller, workflow, **arguments)
    assert result["_meta"]["pause_reason"]["type"] == "answersRequired", result
    text = "\n".join(part["text"] for part in result["content"])
    return result["_meta"]["task_id"], text


class Shop:
    """The account of the incident: a service with logs, a queue for the health check, and the team's queue."""

    def __init__(self, emulator: Emulator) -> None:
        self.logs, self.ecs, self.sqs, self.sns = (emulator.client(name) for name in ("logs", "ecs", "sqs", "sns"))
        self.ecs.create_cluster(clusterName="shop")
        container = {"name": "app", "image": "app", "memory": 128}
        self.ecs.register_task_definition(family="checkout", containerDefinitions=[container])
        # The emulator would start a container for each task.
        self.ecs.create_service(cluster="shop", serviceName="checkout", taskDefinition="checkout", desiredCount=0)
        self.health = self.sqs.create_queue(QueueName="health.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
        send = {"Effect": "Allow", "Principal": {"Service": "sns.amazonaws.com"}, "Action": "sqs:SendMessage"}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [{**send, "Resource": TEAM_ARN}]})
        self.team = self.sqs.create_queue(QueueName="team", Attributes={"Policy": policy})["QueueUrl"]
        self.logs.create_log_group(logGroupName=GROUP)
        self.logs.create_log_stream(logGroupName=GROUP, logStreamName="app")
        lines = ("INFO started", CAUSE["evidence"])
        events = [{"timestamp": int(time.time() * 1000), "message": line} for line in lines]
        self.logs.put_log_events(logGroupName=GROUP, logStreamName="app", logEvents=events)

    def subscribe(self, topic: str) -> None:
        """Send the messages of the stack's topic to the team's queue."""
        raw = {"RawMessageDelivery": "true"}
        self.sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=TEAM_ARN, Attributes=raw)

    @property
    def deployment(self) -> str:
        """The id of the service's newest deployment."""
        [service] = self.ecs.describe_services(cluster="shop", services=["checkout"])["services"]
        return str(service["deployments"][0]["id"])

    def messages(self, queue: str) -> list[str]:
        """Take the messages from a queue, or wait for some for a second."""
        response = self.sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=1)
        return [entry["Body"] for entry in response.get("Messages", [])]


@dataclass(frozen=True, slots=True)
class Incident:
    """The deployed incident, its shop, and the API keys of two people and of the team's client."""

    stack: Stack
    shop: Shop
    kim: Caller
    ada: Caller
    team: Caller


@pytest.fixture(scope="module")
def incident(stack: Stack) -> Incident:
    """Deploy the incident once: the names in its README exist once in an account."""
    gateway = stack.emulator.client("apigateway")
    keys = [gateway.create_api_key(name=f"incident-{name}", enabled=True) for name in ("kim", "ada", "team")]
    ada_id, team_id = (key["id"] for key in keys[1:])
    shop = Shop(stack.emulator)
    copy = deploy(
        stack,
        "incident",
        # The emulator takes no events of AWS's own sources.
        lambda readme: replace(
            readme,
            resources=readme.resources.replace("aws.cloudwatch", "shop.cloudwatch").replace("ON-CALL", team_id),
        ),
        MessageTopic="on",
        Approvers=json.dumps({"on-call": [ada_id]}),
        # An event does not have the API's address. The stack's own URL is known only after the deployment.
        PublicUrl="https://shop.example.com",
    )
    [plan] = copy.resources("AWS::ApiGateway::UsagePlan").values()
    for key in keys:
        gateway.create_usage_plan_key(usagePlanId=plan, keyId=key["id"], keyType="API_KEY")
    shop.subscribe(copy.outputs["MessageTopicArn"])
    return Incident(copy, shop, *(copy.caller(x_api_key=key["value"]) for key in keys))


def test_an_approved_restart_is_checked_and_reported_to_the_team(incident: Incident) -> None:
    stack, shop, kim, ada = incident.stack, incident.shop, incident.kim, incident.ada
    first_deployment = shop.deployment

    first_task, text = paused_for_answers(stack, kim, "handle_incident", service="checkout")
    assert "OutOfMemoryError" in text
    assert "INFO started" not in text
    task = start_task_as(stack, kim, "handle_incident", task_id=first_task, answers={"cause": CAUSE})

    approvals = stack.endpoint.replace("/mcp", "/approvals")
    wait_until(lambda: len(json.loads(ask(approvals, ada, None, method="GET").body)["approvals"]) == 1)
    [approval] = json.loads(ask(approvals, ada, None, method="GET").body)["approvals"]
    assert approval["message"] == "Restart checkout? Cause: memory"
    url = f"{approvals}/{approval['approvalId']}"
    decision = json.dumps({"decision": "approve", "digest": approval["digest"]}).encode()
    assert ask(url, kim, decision).status in {403, 404}
    assert shop.deployment == first_deployment
    assert json.loads(ask(url, ada, decision).body)["state"] == "approved"

    wait_until(lambda: message(stack, task).startswith("waits for a callback until"))
    assert shop.deployment != first_deployment
    [request] = map(json.loads, shop.messages(shop.health))
    assert request["service"] == "checkout"
    assert shop.messages(shop.team) == []
    callback = stack.endpoint.replace("/mcp", f"/callbacks/{request['callback'].rpartition('/')[2]}")
    assert ask(callback, stack.caller(), b'{"healthy": true}').status == 200

    wait_until(lambda: status(stack, task) == "completed")
    assert status(stack, first_task) == "completed"
    report = "checkout was restarted and is healthy. Cause: memory. Evidence: ERROR OutOfMemoryError"
    assert shop.messages(shop.team) == [report]


def test_an_alarm_starts_the_workflow_for_its_owner(incident: Incident) -> None:
    stack = incident.stack
    detail = json.dumps({"alarmName": "checkout", "state": {"value": "ALARM"}})
    alarm = {"Source": "shop.cloudwatch", "DetailType": "CloudWatch Alarm State Change", "Detail": detail}
    [entry] = stack.emulator.client("events").put_events(Entries=[alarm])["Entries"]
    assert "ErrorCode" not in entry

    def pauses() -> list[str]:
        """The pauses of the owner's tasks. The list also contains the background call that started the workflow."""
        reasons = [task["_meta"].get("pause_reason") for task in tasks_of(stack, incident.team)]
        return [reason["type"] for reason in reasons if reason]

    wait_until(lambda: pauses() == ["answersRequired"])


def test_the_sales_of_a_month_are_summed_and_the_summary_is_sent(stack: Stack) -> None:
    emulator, stack = stack.emulator, deploy(stack, "report")
    kim = stack.caller(x_api_key=stack.api_key)
    s3 = emulator.client("s3")
    s3.create_bucket(Bucket="shop-sales", CreateBucketConfiguration={"LocationConstraint": REGION})
    for name, text in FILES.items():
        s3.put_object(Bucket="shop-sales", Key=f"sales/2026-11/{name}.csv", Body=text.encode())
    emulator.client("sesv2").create_email_identity(EmailIdentity="reports@example.com")

    first_task, text = paused_for_answers(stack, kim, "report_sales", month="2026-11")
    assert "269.5" in text
    assert mails(emulator) == []
    task = start_task_as(stack, kim, "report_sales", task_id=first_task, answers={"summary": SUMMARY})
    wait_until(lambda: status(stack, task) != "working")
    assert (status(stack, task), status(stack, first_task)) == ("completed", "completed"), item_of(stack, task)

    [mail] = mails(emulator)
    assert (mail["Source"], mail["To"], mail["Subject"]) == (
        "reports@example.com",
        ["board@example.com"],
        "Sales of November",
    )
    assert mail["BodyText"] == (
        "November was good. Berlin led. Porto sold nothing.\n\nRevenue: 269.50 EUR\nSales: 3\n\n"
        "sales/2026-11/berlin.csv: 229.30 EUR\nsales/2026-11/lyon.csv: 40.20 EUR\nsales/2026-11/porto.csv: 0.00 EUR\n"
    )


def mails(emulator: Emulator) -> list[dict[str, Any]]:
    """Return the mails that the SES of the emulator has sent."""
    messages: dict[str, list[dict[str, Any]]] = httpx2.get(f"{emulator.url}/_ministack/ses/messages").json()["messages"]
    return [mail for account in messages.values() for mail in account]
