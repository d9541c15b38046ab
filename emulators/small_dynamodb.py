"""The part of DynamoDB that one workflow run needs, over HTTP on loopback: real round trips at little cost."""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class SmallDynamoDB(ThreadingHTTPServer):
    """Accepts every write. Returns the last item that was put, with the attributes that were set since.

    Attributes:
        calls: The operations, in order.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Operation)
        self.calls: list[str] = []
        self.item: dict[str, Any] = {}
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


def _members(attribute: dict[str, Any]) -> Any:
    """Return what is in a map or a list."""
    [members] = attribute.values()
    return members


class _Operation(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: SmallDynamoDB

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        operation = self.headers["X-Amz-Target"].rpartition(".")[2]
        self.server.calls.append(operation)
        response: dict[str, Any] = {}
        if operation == "PutItem":
            self.server.item = request["Item"]
        elif operation == "UpdateItem":
            names, values = request["ExpressionAttributeNames"], request["ExpressionAttributeValues"]
            for path, value in re.findall(r"(?:^SET |,)([#\w.\[\]]+)=(:\w+)", request["UpdateExpression"]):
                *parents, last = re.findall(r"#\w+|\d+(?=\])", path)
                members: Any = self.server.item
                for parent in parents:
                    members = members[int(parent)]["M"] if parent.isdigit() else _members(members[names[parent]])
                members[names[last]] = values[value]
            response = {"Attributes": self.server.item}
        body = json.dumps(response).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing: the benchmark's own output is the log."""
