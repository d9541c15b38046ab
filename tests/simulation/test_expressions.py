"""The simulated DynamoDB answers like DynamoDB Local: both get the same random items, conditions and updates."""

from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError

from mcp_baton.local.dynamodb import create_table, http_client
from tests.examples import examples
from tests.simulation.dynamodb.database import Database
from tests.simulation.dynamodb.refusals import Refusal
from tests.simulation.expressions import RandomRequest

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

TABLE = "expressions"
USUAL = 400


@pytest.fixture(scope="module")
def real(dynamodb_local_url: str) -> Iterator["DynamoDBClient"]:
    with closing(http_client(dynamodb_local_url)) as client:
        create_table(client, TABLE)
        yield client


def send(client: Any, operation: str, request: dict[str, Any]) -> Any:
    """Send a request. Return the answer, or the error code and the item of a rejection."""
    try:
        if isinstance(client, Database):
            answer = client.request(operation, request)
        else:
            method = {"UpdateItem": client.update_item, "PutItem": client.put_item, "GetItem": client.get_item}[
                operation
            ]
            answer = method(TableName=TABLE, **request)
    except Refusal as refusal:
        return refusal.code, comparable(refusal.item)
    except ClientError as error:
        return error.response["Error"]["Code"], comparable(error.response.get("Item"))
    return {name: comparable(answer[name]) for name in ("Attributes", "Item") if name in answer}


def comparable(attribute: Any) -> Any:
    """Return items in a comparable form: sets are sorted and numbers are decimals, so `61.0` equals `61`."""
    match attribute:
        case {"BS": texts}:
            return {"BS": sorted(texts)}
        case {"N": number}:
            return {"N": Decimal(number)}
        case dict():
            return {name: comparable(value) for name, value in attribute.items()}
        case list():
            return [comparable(value) for value in attribute]
        case _:
            return attribute


def test_the_simulated_dynamodb_answers_as_dynamodb_local_does(real: "DynamoDBClient") -> None:
    memory, number = Database(), examples(USUAL).max_examples
    for seed in range(number):
        random_request = RandomRequest(Random(seed))
        key = {"pk": {"S": f"p{seed}"}, "sk": {"S": "s"}}
        if random_request.rng.random() < 0.9:
            item = random_request.item(key)
            memory.request("PutItem", {"Item": item})
            real.put_item(TableName=TABLE, Item=item)
        request = random_request.request(key)
        assert send(memory, "UpdateItem", request) == send(real, "UpdateItem", request), (seed, request)
        get_request = {"Key": key, "ConsistentRead": True}
        assert send(memory, "GetItem", get_request) == send(real, "GetItem", get_request), (seed, request)
