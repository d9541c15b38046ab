"""Items in requests to DynamoDB and in answers: Baton's own client writes and gives out what botocore does."""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.compat import HTTPHeaders
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.session import get_session

from mcp_baton.clients import ATTEMPTS, dynamodb_client

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

KEY: Any = {"pk": {"S": "p"}, "sk": {"S": "s"}}
REQUESTS: dict[str, dict[str, Any]] = {
    "get_item": {"Key": KEY},
    "update_item": {"Key": KEY, "UpdateExpression": "REMOVE a", "ReturnValues": "ALL_NEW"},
    "query": {"KeyConditionExpression": "pk = :pk", "ExpressionAttributeValues": {":pk": {"S": "p"}}},
    "put_item": {"Item": KEY, "ReturnValues": "ALL_OLD"},
}


class Raw(BytesIO):
    """The body of an answer, as botocore reads it."""

    def stream(self) -> Iterator[bytes]:
        yield self.getvalue()


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


def item_with_everything() -> dict[str, Any]:
    zipped = base64_of(b"\x1f\x8b\x00\xff")
    return {
        **KEY,
        "text": {"S": "Grüße 🎉 \ud83d\ude00"},
        "like bytes": {"S": zipped},
        "number": {"N": "12345678901234567890123456789012345678"},
        "truth": {"BOOL": False},
        "nothing": {"NULL": True},
        "bytes": {"B": zipped},
        "no bytes": {"B": ""},
        "texts": {"SS": ["a", "b"]},
        "numbers": {"NS": ["1", "2.5"]},
        "tokens": {"BS": [zipped, base64_of(b"token")]},
        "list": {"L": [{"B": zipped}, {"L": []}, {"M": {}}, {"S": "x"}]},
        "map": {"M": {"B": {"S": zipped}}},
        "map of a map": {"M": {"BS": {"M": {"B": {"B": zipped}}}, "S": {"BS": [zipped]}}},
    }


@dataclass(frozen=True, slots=True)
class Clients:
    """Baton's own client and one as botocore makes it."""

    own: "DynamoDBClient"
    plain: "DynamoDBClient"


@pytest.fixture(scope="module")
def clients() -> Clients:
    """Both, made once: that takes long."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "made-up")
        patch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
        config = Config(retries={"mode": "standard", "total_max_attempts": ATTEMPTS})
        plain: Any = get_session().create_client("dynamodb", config=config)
        return Clients(dynamodb_client(), plain)


def exchanged(
    client: "DynamoDBClient", operation: str, body: bytes, status: int = 200, **params: Any
) -> tuple[AWSPreparedRequest, dict[str, Any]]:
    """What a client sends, and what it gives out when this is DynamoDB's answer."""
    requests: list[AWSPreparedRequest] = []

    def answer(request: AWSPreparedRequest, **_: object) -> AWSResponse:
        requests.append(request)
        return AWSResponse(request.url, status, HTTPHeaders(), Raw(body))

    given: Any = answer
    client.meta.events.register("before-send.dynamodb", given)
    try:
        result: dict[str, Any] = getattr(client, operation)(TableName="tasks", **params)
    finally:
        client.meta.events.unregister("before-send.dynamodb", given)
    [request] = requests
    return request, result


def answered(client: "DynamoDBClient", operation: str, body: bytes, status: int = 200) -> dict[str, Any]:
    """What the client gives out when this is DynamoDB's answer."""
    return exchanged(client, operation, body, status, **REQUESTS[operation])[1]


def sent(client: "DynamoDBClient", operation: str, **params: Any) -> AWSPreparedRequest:
    """What the client sends."""
    return exchanged(client, operation, b"{}", **params)[0]


def decoded(attribute: Any) -> Any:
    """An attribute value with bytes in the place of their base64, as it is given to a client."""
    [(kind, value)] = attribute.items()
    if kind == "B":
        return {"B": base64.b64decode(value)}
    if kind == "BS":
        return {"BS": [base64.b64decode(text) for text in value]}
    if kind == "M":
        return {"M": {name: decoded(each) for name, each in value.items()}}
    return {"L": [decoded(each) for each in value]} if kind == "L" else attribute


ANSWERS: list[tuple[str, Any]] = [
    ("get_item", {"Item": item_with_everything()}),
    ("get_item", {"Item": {}}),
    ("get_item", {}),
    ("get_item", {"Item": KEY, "ConsumedCapacity": {"TableName": "tasks", "CapacityUnits": 0.5}}),
    ("update_item", {"Attributes": item_with_everything()}),
    ("update_item", {}),
    ("query", {"Items": [item_with_everything(), KEY], "Count": 2, "ScannedCount": 3, "LastEvaluatedKey": KEY}),
    ("query", {"Items": [], "Count": 0, "ScannedCount": 0}),
    ("put_item", {"Attributes": item_with_everything()}),
]


@pytest.mark.parametrize(("operation", "answer"), ANSWERS)
def test_an_answer_is_given_out_as_botocore_parses_it(clients: Clients, operation: str, answer: Any) -> None:
    body = json.dumps(answer).encode()
    expected = answered(clients.plain, operation, body)
    assert answered(clients.own, operation, body) == expected


@pytest.mark.parametrize(
    "body", [b"", b"<html>a proxy's page</html>", b"[1]", b'"text"', b"\xff\xfe", b'{"Item": null}']
)
def test_an_answer_that_is_not_dynamodbs_is_left_to_botocore(clients: Clients, body: bytes) -> None:
    outcomes = []
    for client in (clients.plain, clients.own):
        try:
            outcomes.append(repr(answered(client, "get_item", body)))
        except (BotoCoreError, ClientError, ValueError, TypeError, AttributeError) as error:
            outcomes.append(repr(error))
    assert outcomes[0] == outcomes[1]


def test_the_item_that_a_condition_failed_on_has_bytes_too(clients: Clients) -> None:
    name = "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException"
    body = json.dumps({"__type": name, "message": "no", "Item": item_with_everything()}).encode()
    with pytest.raises(ClientError) as failed:
        answered(clients.own, "update_item", body, status=400)
    refused: Any = failed.value.response
    assert refused["Item"]["bytes"] == {"B": b"\x1f\x8b\x00\xff"}


def test_the_model_of_botocore_does_not_go_through_items(clients: Clients) -> None:
    # What is not in the model of an attribute value would not be given out by botocore's parser.
    body = json.dumps({"Item": {"new": {"TYPE": "value"}}}).encode()
    assert answered(clients.own, "get_item", body)["Item"] == {"new": {"TYPE": "value"}}


def test_a_request_is_written_as_botocore_writes_it(clients: Clients) -> None:
    item = {name: decoded(attribute) for name, attribute in item_with_everything().items()}
    requests: list[tuple[str, dict[str, Any]]] = [
        ("put_item", {"Item": item, "ConditionExpression": "attribute_not_exists(pk)", "ReturnValues": "ALL_OLD"}),
        (
            "update_item",
            {
                "Key": KEY,
                "UpdateExpression": "SET #0=:0",
                "ExpressionAttributeNames": {"#0": "a"},
                "ExpressionAttributeValues": {f":{place}": value for place, value in enumerate(item.values())},
            },
        ),
    ]
    for operation, params in requests:
        own, plain = (sent(client, operation, **params) for client in (clients.own, clients.plain))
        texts: list[Any] = [own.body, plain.body]
        assert json.loads(texts[0]) == json.loads(texts[1])
        assert own.url == plain.url
        assert own.headers["X-Amz-Target"] == plain.headers["X-Amz-Target"]
        # It was signed with what is sent.
        assert int(own.headers["Content-Length"]) == len(texts[0])


def test_the_model_of_botocore_does_not_go_through_items_that_are_written(clients: Clients) -> None:
    request: Any = sent(clients.own, "put_item", Item={"new": {"TYPE": "value"}})
    assert json.loads(request.body)["Item"] == {"new": {"TYPE": "value"}}


def test_what_no_request_can_hold_is_refused(clients: Clients) -> None:
    with pytest.raises(TypeError, match="set"):
        sent(clients.own, "put_item", Item={"a": {"SS": {"a", "b"}}})


def test_a_request_says_which_botocore_it_comes_from(clients: Clients) -> None:
    agents: list[Any] = [
        sent(client, "get_item", Key=KEY).headers["User-Agent"] for client in (clients.own, clients.plain)
    ]
    own, plain = (agent.decode().split() for agent in agents)
    assert plain[0] in own
