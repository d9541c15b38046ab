"""`baton_peer` with a client made by boto3: at the moment at which Baton connects, with the same settings."""

import gc
import importlib
from typing import TYPE_CHECKING

from mcp_baton import clients

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


def dynamodb_client() -> "DynamoDBClient":
    """What `mcp_baton.clients.dynamodb_client` does, through boto3."""
    gc.disable()
    import boto3
    from botocore.config import Config

    config = Config(
        connect_timeout=clients.CONNECT_TIMEOUT_S,
        read_timeout=clients.READ_TIMEOUT_S,
        retries={"mode": "standard", "total_max_attempts": clients.ATTEMPTS},
        tcp_keepalive=True,
    )
    client = boto3.client("dynamodb", config=config)
    gc.enable()
    return client


vars(clients).update(own_dynamodb=lambda _environment: None, dynamodb_client=dynamodb_client)

handler = importlib.import_module("baton_peer").handler
