"""A worker whose invocations connect to the test and follow its instructions. The connection ends with the process."""

import json
import os
import socket
import subprocess
import sys
from typing import Any

from mcp_baton.local.worker_process import Channel, Handler, work

CHILD = "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); s.send(b'{}\\n'); s.recv(1)"


def probe(channel: Channel) -> Handler:
    def handler(event: dict[str, Any], context: Any) -> dict[str, bool] | None:
        """Connect to the test and follow its instructions."""
        with socket.create_connection(("127.0.0.1", event["port"])) as control, control.makefile("rw") as lines:
            report = {
                "pid": os.getpid(),
                "event": event,
                "request_id": context.aws_request_id,
                "remaining_ms": context.get_remaining_time_in_millis(),
            }
            lines.write(json.dumps(report) + "\n")
            lines.flush()
            while instruction := lines.readline().split():
                match instruction:
                    case ["return"]:
                        return {"done": True}
                    case ["raise"]:
                        raise RuntimeError("the bank said no")
                    case ["exit", code]:
                        os._exit(int(code))
                    case ["read"]:
                        print("printed by a tool")  # noqa: T201 - the pool must not read it
                        lines.write(json.dumps(sys.stdin.read()) + "\n")
                        lines.flush()
                    case ["child"]:
                        subprocess.Popen([sys.executable, "-c", CHILD, str(event["port"])])
                    case ["send"]:
                        channel.dispatch({**event, "sent": True})
            return None

    return handler


if __name__ == "__main__":
    sys.exit(work(probe))
