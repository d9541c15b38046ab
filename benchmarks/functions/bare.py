"""The bare floor: the runtime interface client with a fixed response."""

_ANSWER = {
    "statusCode": 200,
    "headers": {"Content-Type": "application/json"},
    "body": '{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}',
}


def handler(_event: object, _context: object) -> object:
    return _ANSWER
