"""The streaming runtime alone: a fixed response, streamed."""

from mcp_baton.transport.exchange import stream_opener

_BODY = b'{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}'


def handler(_event: object, _context: object) -> None:
    opener = stream_opener.get()
    if opener is None:
        raise LookupError("the runtime offers no stream")
    opener(200, {"Content-Type": "application/json"}).write(_BODY)
