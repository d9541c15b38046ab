"""`baton_peer` with Baton's own client made by boto3: at the same moment, with the same settings."""

import gc
import importlib
from typing import TYPE_CHECKING

from mcp_baton import aws, clients

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


vars(aws)["dynamodb_client"] = dynamodb_client

handler = importlib.import_module("baton_peer").handler
