"""The `baton` command (README.md, Test locally). Exit codes: 2 for what cannot begin; `run` tells the others."""

import argparse
import logging
import math
import re
import sys
from collections.abc import Callable, Sequence

from mcp_baton.exceptions import BatonError
from mcp_baton.settings import ALIAS

DEFAULT_PORT = 8000
DATABASE_PORT = 8001
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, the process's own by default; the exit code."""
    parsed = _parser().parse_args(arguments)
    log_to_stderr()
    try:
        run: Callable[[argparse.Namespace], int] = parsed.run
        return run(parsed)
    except BatonError as error:
        sys.stderr.write(f"baton: {error}\n")
        return 2
    except KeyboardInterrupt:
        return INTERRUPTED


def _serve(parsed: argparse.Namespace) -> int:
    from mcp_baton.local.run import end_by_force
    from mcp_baton.local.serve import Options, serve

    code = serve(
        Options(
            target=parsed.target,
            host=parsed.host,
            port=parsed.port,
            dynamodb=parsed.dynamodb,
            table=parsed.table,
            owner_header=parsed.owner_header,
            timeout_s=parsed.timeout,
            worker_timeout_s=parsed.worker_timeout,
            retry_after_s=parsed.worker_retries,
        )
    )
    end_by_force(code)
    return code


def _dynamodb(parsed: argparse.Namespace) -> int:
    from mcp_baton.local.database import serve_database

    return serve_database(parsed.host, parsed.port, parsed.table)


def _redrive(parsed: argparse.Namespace) -> int:
    from mcp_baton.local.redrive import redrive

    return redrive(parsed.queue, parsed.function, parsed.max, parsed.dry_run)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="baton", description="MCP servers with durable workflow prompts.")
    commands = parser.add_subparsers(title="commands", required=True)
    serve = commands.add_parser(
        "serve",
        help="serve a Python file's server over HTTP",
        description="Serve the Server object in a Python file through its Lambda handler, over HTTP at /mcp.",
    )
    serve.add_argument(
        "target", metavar="PATH[:ATTR]", help="the Python file, and the object's name if it holds several"
    )
    serve.add_argument("--port", type=_port, default=DEFAULT_PORT, help="0 for a free one (default: %(default)s)")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    serve.add_argument(
        "--dynamodb",
        type=_database,
        default="embedded",
        metavar="embedded|URL",
        help="where the tasks are kept: in this process, gone when it ends, or a DynamoDB's URL (default: %(default)s)",
    )
    serve.add_argument(
        "--table", type=_table, default="baton", help="the table, created if missing (default: %(default)s)"
    )
    serve.add_argument(
        "--owner-header",
        type=_header,
        metavar="NAME",
        help="the header whose value is a request's owner; without the option every caller is anonymous",
    )
    serve.add_argument(
        "--timeout",
        type=_seconds,
        default=300.0,
        metavar="SECONDS",
        help="time for each request (default: %(default)g)",
    )
    serve.add_argument(
        "--worker-timeout",
        type=_seconds,
        default=900.0,
        metavar="SECONDS",
        help="time for each invocation of a worker (default: %(default)g)",
    )
    serve.add_argument(
        "--worker-retries",
        type=_delays,
        default=(60.0, 120.0),
        metavar="SECONDS,SECONDS",
        help="how long after a failed invocation of a worker the next one is made; 'none' for no retries (default: as "
        "Lambda does it, 60,120)",
    )
    serve.set_defaults(run=_serve)
    dynamodb = commands.add_parser(
        "dynamodb",
        help="serve a DynamoDB for what runs outside this process, such as `sam local`",
        description="Serve the embedded DynamoDB over HTTP, with the table of the tasks in it. Gone when it ends.",
    )
    dynamodb.add_argument("--port", type=_port, default=DATABASE_PORT, help="0 for a free one (default: %(default)s)")
    dynamodb.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    dynamodb.add_argument("--table", type=_table, default="baton", help="the table (default: %(default)s)")
    dynamodb.set_defaults(run=_dynamodb)
    _add_redrive(commands)
    return parser


def _add_redrive(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    redrive = commands.add_parser(
        "redrive",
        help="put the events of background tasks that failed for good back",
        description="Invoke the worker again with each event in the dead-letter queue, and delete what was accepted.",
    )
    redrive.add_argument("--queue", type=_queue, required=True, metavar="URL", help="output DeadLetterQueueUrl")
    redrive.add_argument(
        "--function", type=_alias, required=True, metavar="NAME", help="output Worker: an alias's ARN, or name:alias"
    )
    redrive.add_argument("--max", type=_count, metavar="N", help="look at so many messages at most (default: all)")
    redrive.add_argument("--dry-run", action="store_true", help="tell what would be sent, and send nothing")
    redrive.set_defaults(run=_redrive)


def _port(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", text) or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: use a number from 0 to 65535")
    return int(text)


def _database(text: str) -> str:
    if text != "embedded" and not re.fullmatch(r"https?://[^\s/?#]+/?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is neither 'embedded' nor a URL such as http://127.0.0.1:8001")
    return text


def _table(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_.-]{3,255}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a table's name: use 3 to 255 of A-Z a-z 0-9 _ . -")
    return text


def _queue(text: str) -> str:
    if not re.fullmatch(r"https?://[^\s/?#]+/\S+", text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a queue's URL: https://sqs.<region>.amazonaws.com/<account>/<name>"
        )
    return text


def _alias(text: str) -> str:
    if not re.fullmatch(ALIAS, text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a function's alias: use its ARN, or name:alias")
    return text


def _count(text: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,8}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def _header(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not the name of a header")
    return text


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time in seconds: use a number above 0")
    return seconds


def _delays(text: str) -> tuple[float, ...]:
    return () if text == "none" else tuple(_seconds(part) for part in text.split(","))


def log_to_stderr() -> None:
    """Log as the command does, in this process or in one that it has started."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for chatty in ("botocore", "boto3", "moto", "urllib3", "werkzeug"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
