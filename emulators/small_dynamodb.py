"""The part of DynamoDB that one workflow run needs, over HTTP on loopback: real round trips at little cost."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from emulators.answering import Answer, Request, answering


@dataclass
class SmallDynamoDB:
    """Accepts every write. Returns the last item that was put, with the attributes that were set since.

    Attributes:
        calls: The operations, in order.
    """

    url: str = ""
    calls: list[str] = field(default_factory=list)
    item: dict[str, Any] = field(default_factory=dict)

    def answer(self, request: Request) -> Answer:
        operation, parameters = request.headers["x-amz-target"].rpartition(".")[2], json.loads(request.body)
        self.calls.append(operation)
        response: dict[str, Any] = {}
        if operation == "PutItem":
            self.item = parameters["Item"]
        elif operation == "UpdateItem":
            names, values = parameters["ExpressionAttributeNames"], parameters["ExpressionAttributeValues"]
            for path, value in re.findall(r"(?:^SET |,)([#\w.\[\]]+)=(:\w+)", parameters["UpdateExpression"]):
                *parents, last = re.findall(r"#\w+|\d+(?=\])", path)
                members: Any = self.item
                for parent in parents:
                    members = members[int(parent)]["M"] if parent.isdigit() else _members(members[names[parent]])
                members[names[last]] = values[value]
            response = {"Attributes": self.item}
        return Answer(200, {"Content-Type": "application/x-amz-json-1.0"}, json.dumps(response).encode())


@contextmanager
def running_dynamodb() -> Iterator[SmallDynamoDB]:
    dynamodb = SmallDynamoDB()
    with answering(dynamodb.answer) as dynamodb.url:
        yield dynamodb


def _members(attribute: dict[str, Any]) -> Any:
    """Return what is in a map or a list."""
    [members] = attribute.values()
    return members
