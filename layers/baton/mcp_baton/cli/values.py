"""Values of options: each function takes what was written for one and returns its value, or says what would be right.

Typer passes defaults through them, too, so each also takes what it returns.
"""

import math
import re

import typer

from mcp_baton.settings import ALIAS

LOG_LEVELS = ("debug", "info", "warning", "error")


def port(value: object) -> int:
    """A TCP port; 0 asks for a free one."""
    text = str(value)
    if not re.fullmatch(r"[0-9]{1,5}", text) or int(text) > 65535:
        raise typer.BadParameter(f"{text!r} is not a port: use a number from 0 to 65535")
    return int(text)


def database(text: str) -> str:
    """`embedded`, or the URL of a DynamoDB."""
    if text != "embedded" and not re.fullmatch(r"https?://[^\s/?#]+/?", text):
        raise typer.BadParameter(f"{text!r} is neither 'embedded' nor a URL such as http://127.0.0.1:8001")
    return text


def log_level(text: str) -> str:
    """From which level on is logged."""
    if text not in LOG_LEVELS:
        raise typer.BadParameter(f"{text!r} is not a level: use one of {', '.join(LOG_LEVELS)}")
    return text


def table(text: str) -> str:
    """A table's name, as DynamoDB allows it."""
    if not re.fullmatch(r"[A-Za-z0-9_.-]{3,255}", text):
        raise typer.BadParameter(f"{text!r} is not a table's name: use 3 to 255 of A-Z a-z 0-9 _ . -")
    return text


def queue(text: str) -> str:
    """The URL of an SQS queue."""
    if not re.fullmatch(r"https?://[^\s/?#]+/\S+", text):
        raise typer.BadParameter(f"{text!r} is not a queue's URL: https://sqs.<region>.amazonaws.com/<account>/<name>")
    return text


def alias(text: str) -> str:
    """A Lambda function's alias: its ARN, or `name:alias`."""
    if not re.fullmatch(ALIAS, text):
        raise typer.BadParameter(f"{text!r} is not a function's alias: use its ARN, or name:alias")
    return text


def count(value: object) -> int:
    """A number of things, at least one."""
    text = str(value)
    if not re.fullmatch(r"[1-9][0-9]{0,8}", text):
        raise typer.BadParameter(f"{text!r} is not a number from 1 on")
    return int(text)


def header(text: str) -> str:
    """The name of an HTTP header (RFC 9110, section 5.1)."""
    if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", text):
        raise typer.BadParameter(f"{text!r} is not the name of a header")
    return text


def seconds(value: object) -> float:
    """A time in seconds, above 0."""
    text = str(value)
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise typer.BadParameter(f"{text!r} is not a time in seconds: use a number above 0")
    return number


def delays(text: str) -> tuple[float, ...]:
    """Times in seconds with commas between them; `none` for no time at all."""
    return () if text == "none" else tuple(seconds(part) for part in text.split(","))


def delays_as_text(text: str) -> str:
    """The text of an option that `delays` can read: for Typer, whose options are no tuples of any length."""
    delays(text)
    return text
