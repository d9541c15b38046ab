"""DynamoDB for local use: an engine in this process, or any URL (docs/local.md)."""

import os
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any

from mcp_baton.clients import DYNAMODB_ATTEMPTS
from mcp_baton.exceptions import SettingsError

if TYPE_CHECKING:
    from boto3 import Session
    from botocore.config import Config
    from mypy_boto3_dynamodb import DynamoDBClient

    from mcp_baton.local.embedded import EmbeddedEngine

LOCAL_REGION = "us-east-1"
LOCAL_CREDENTIAL = "local"
MAX_CONNECTIONS = 64
CLIENT_LOCK = Lock()
"""Held while an embedded client is made: they share a session, which is not thread-safe."""


def embedded_engine() -> "EmbeddedEngine":
    """Return a DynamoDB in this process. Its items are lost with it."""
    try:
        from mcp_baton.local.embedded import EmbeddedEngine
    except ModuleNotFoundError as error:
        remedy = "install mcp-baton[local], or name an endpoint with --dynamodb URL"
        raise SettingsError(f"the embedded DynamoDB needs the package {error.name!r}: {remedy}") from error
    return EmbeddedEngine()


def embedded_client(engine: "EmbeddedEngine | None" = None) -> "DynamoDBClient":
    """Return a client whose requests are answered by an engine in this process, by default a new one.

    It needs no network, no credentials and no AWS configuration, and does not affect other clients.
    """
    from botocore import UNSIGNED
    from botocore.config import Config

    engine = embedded_engine() if engine is None else engine
    # Signing and the user agent take half of a request's time. The embedded engine checks neither.
    config = Config(signature_version=UNSIGNED, user_agent="embedded")
    with CLIENT_LOCK:
        client = _client(_session(), f"https://dynamodb.{LOCAL_REGION}.amazonaws.com", LOCAL_REGION, config)
    # botocore uses the result of a `before-send` handler as the response; its stubs do not know this.
    answer: Any = engine.answer
    client.meta.events.register("before-send.dynamodb", answer)
    return client


@cache
def _session() -> "Session":
    """Return the session of all embedded clients, which takes longer to make than a client."""
    import boto3
    import botocore.session

    # A missing profile or an unreadable configuration file must not matter here.
    # Without the handlers of all services and of `moto.mock_aws`, which would repeat each request in a table of moto.
    session = botocore.session.Session(
        {"profile": (None, None, None, None), "config_file": (None, None, os.devnull, None)},
        include_builtin_handlers=False,
    )
    return boto3.Session(botocore_session=session)


def http_client(url: str, config: "Config | None" = None) -> "DynamoDBClient":
    """Return a client for a DynamoDB endpoint; timeouts and retries are in its config.

    It uses the user's credentials and region. For an endpoint other than AWS's, missing credentials become placeholders
    instead of being requested from a metadata service.
    """
    import boto3
    import botocore.session

    session = botocore.session.get_session()
    if "amazonaws.com" not in url:
        resolver = session.get_component("credential_provider")
        for provider in ("container-role", "iam-role"):
            resolver.remove(provider)
        if session.get_credentials() is None:
            session.set_credentials(LOCAL_CREDENTIAL, LOCAL_CREDENTIAL)
    region = os.environ.get("AWS_REGION") or session.get_config_variable("region") or LOCAL_REGION
    return _client(boto3.Session(botocore_session=session), url, region, config)


def _client(session: "Session", url: str, region: str, config: "Config | None" = None) -> "DynamoDBClient":
    from botocore.config import Config

    # The store retries by itself (docs/storage.md); the config has the timeouts.
    defaults = Config(
        max_pool_connections=MAX_CONNECTIONS,
        retries={"mode": "standard", "total_max_attempts": DYNAMODB_ATTEMPTS},
        parameter_validation=False,
    )
    merged = defaults if config is None else defaults.merge(config)
    return session.client("dynamodb", endpoint_url=url, region_name=region, config=merged)


def create_table(client: "DynamoDBClient", name: str) -> None:
    """Create the task table if it is missing, and wait until it is active.

    It is on-demand, with the TTL attribute `expires_at` if the engine supports TTL. An existing table is not changed.
    """
    from botocore.exceptions import ClientError

    def keys(partition: str, sort: str) -> Any:
        return [{"AttributeName": partition, "KeyType": "HASH"}, {"AttributeName": sort, "KeyType": "RANGE"}]

    keys_only = {"ProjectionType": "KEYS_ONLY"}
    lists: Any = {"IndexName": "lists", "KeySchema": keys("listed_in", "listed_at"), "Projection": keys_only}
    names, is_new = ("pk", "sk", "listed_in", "listed_at"), True
    try:
        client.create_table(
            TableName=name,
            AttributeDefinitions=[{"AttributeName": attribute, "AttributeType": "S"} for attribute in names],
            KeySchema=keys("pk", "sk"),
            GlobalSecondaryIndexes=[lists],
            BillingMode="PAY_PER_REQUEST",
        )
    except client.exceptions.ResourceInUseException:
        is_new = False
    client.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 60})
    if not is_new:
        return
    try:
        ttl: Any = {"Enabled": True, "AttributeName": "expires_at"}
        client.update_time_to_live(TableName=name, TimeToLiveSpecification=ttl)
    except ClientError as error:
        # Some local engines have no TTL. Reads ignore expired items in any case.
        if error.response["Error"]["Code"] != "UnknownOperationException":
            raise
