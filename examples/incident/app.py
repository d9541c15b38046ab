"""An incident: the model names the cause of a service's errors, and a person approves a restart.

README.md says how to deploy it.
"""

import json
import logging
import os
import time
from collections import deque
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Literal

from mcp_baton import Approval, Context, Depends, Server, ToolError, ask_model, exists, is_in, or_default, step
from mcp_baton import wait_for_callback as wait
from mcp_baton.aws import handler

Kind = Literal["memory", "deadlock", "deployment", "dependency", "unknown"]
Service = Annotated[str, "The name of the ECS service"]

logger = logging.getLogger(__name__)

RESTART_HELPS = ["memory", "deadlock"]
# A client sees a larger result than 2 KB as a link only.
LINES, CHARACTERS = 10, 160


@dataclass(frozen=True)
class Cause:
    """The cause of the errors, and the log line that shows it."""

    kind: Kind
    evidence: str


@dataclass(frozen=True)
class Health:
    """The report of the health check."""

    healthy: bool


server = Server("incident", instructions="Handles incidents of ECS services.")


@dataclass(frozen=True)
class Clients:
    """The clients of AWS."""

    logs: Any
    ecs: Any
    sqs: Any
    sns: Any


def connect() -> Clients:
    """Make the clients, at the first call that needs one."""
    import boto3
    from botocore.config import Config

    session: Any = boto3.Session()
    config = Config(connect_timeout=2, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 3})
    return Clients(*(session.client(name, config=config) for name in ("logs", "ecs", "sqs", "sns")))


AWS: Clients = Depends(connect, scope="process")


@server.tool
def read_errors(service: Service, aws: Clients = AWS) -> list[str]:
    """Read the newest errors in the logs of a service, of the last 30 minutes."""
    group, start_ms = os.environ["LOG_GROUP_PREFIX"] + service, int((time.time() - 30 * 60) * 1000)
    pages = aws.logs.get_paginator("filter_log_events")
    events = pages.paginate(logGroupName=group, filterPattern="ERROR", startTime=start_ms).search("events[].message")
    try:
        return [line[:CHARACTERS] for line in deque(events, LINES)]
    except aws.logs.exceptions.ResourceNotFoundException as error:
        raise ToolError(f"there is no log group {group!r}") from error


@server.tool(approval=Approval("on-call", message="Restart {service}? Cause: {cause}", expires=timedelta(hours=4)))
def restart_service(service: Service, cause: Annotated[Kind, "The cause of its errors"], aws: Clients = AWS) -> str:
    """Restart all tasks of a service, one after the other. Returns the deployment's id."""
    logger.info("restart %s: %s", service, cause)
    try:
        answer = aws.ecs.update_service(cluster=os.environ["ECS_CLUSTER"], service=service, forceNewDeployment=True)
    except aws.ecs.exceptions.ServiceNotFoundException as error:
        raise ToolError(f"there is no service {service!r}") from error
    return str(answer["service"]["deployments"][0]["id"])


@server.tool(only_in=["handle_incident"])
def check_health(ctx: Context, service: Service, aws: Clients = AWS) -> None:
    """Ask for a health check."""
    aws.sqs.send_message(
        QueueUrl=os.environ["HEALTH_QUEUE_URL"],
        MessageBody=json.dumps({"service": service, "callback": ctx.callback_url("health")}),
        MessageGroupId=service,
        # SQS drops a repeated message. The first one keeps its address, which still works.
        MessageDeduplicationId=ctx.idempotency_key,
    )


@server.tool
def tell_team(
    service: Service,
    cause: Annotated[Cause, "The cause of its errors"],
    deployment: Annotated[str | None, "The restart's deployment"] = None,
    health: Annotated[Health | None, "The report of the health check"] = None,
    aws: Clients = AWS,
) -> str:
    """Tell the team how an incident was handled. Returns the message."""
    restart = "was restarted" if deployment else "was not restarted"
    state = ("is healthy" if health.healthy else "is still unhealthy") if health else "has no health report"
    text = f"{service} {restart} and {state}. Cause: {cause.kind}. Evidence: {cause.evidence}"
    aws.sns.publish(TopicArn=os.environ["TOPIC_ARN"], Subject="Incident", Message=text)
    return text


@server.workflow(background=True)
def handle_incident(service: Service) -> None:
    """Find the cause of a service's errors, and restart the service if that helps."""
    errors = step(read_errors, retryable=True)(service)
    question = "What causes these errors of {service}? {errors}"
    cause = ask_model("cause", question, Cause, errors=errors)
    deployment = step(restart_service, when=is_in(cause.kind, RESTART_HELPS), checkpoint=True)(service, cause.kind)
    step(check_health, when=exists(deployment))(service)
    health = wait("health", Health, within=timedelta(minutes=10), on_timeout="skip", when=exists(deployment))
    step(tell_team)(service, cause, or_default(deployment, None), or_default(health, None))


lambda_handler = handler(server)
