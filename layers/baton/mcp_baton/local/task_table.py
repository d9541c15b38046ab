"""Where the tasks of `baton serve` are kept: in this process, with or without a file, or in a DynamoDB at a URL."""

import logging
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_baton.exceptions import BatonError, SettingsError

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from mcp_baton.local.data_file import DataFile
    from mcp_baton.local.embedded import EmbeddedEngine

logger = logging.getLogger(__name__)

EMBEDDED = "embedded"


class ServeError(BatonError):
    """Serving cannot begin; says why, and what to do about it."""


@dataclass(frozen=True, slots=True)
class Database:
    """Where the tasks are kept.

    Attributes:
        client: A client for this process.
        url: Where other processes reach it. Called when it is first needed.
        state_key: A key that is kept with the tasks; `None` where there is no file.
        close: Ends it.
    """

    client: "DynamoDBClient"
    url: Callable[[], str]
    state_key: bytes | None = None
    close: Callable[[], None] = lambda: None


def open_database(where: str, table: str, data: Path | None) -> Database:
    """The DynamoDB with the task table, which is created where it is missing.

    Args:
        where: `embedded`, or a URL.
        table: The table's name.
        data: The file that keeps the embedded one's items; `None` for none.

    Raises:
        SettingsError: there is a file for a DynamoDB at a URL, or moto is not installed.
        ServeError: the table cannot be had.
        DataFileError: the file cannot be used.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    from mcp_baton.local.dynamodb import create_table, http_client

    if data is not None and where != EMBEDDED:
        raise SettingsError("--data is for the embedded DynamoDB: leave out --data, or --dynamodb")
    try:
        if where == EMBEDDED:
            return _embedded(table, data)
        database = Database(http_client(where), lambda: where)
        create_table(database.client, table)
    except (BotoCoreError, ClientError, ValueError) as error:
        raise ServeError(f"the table {table!r} cannot be had from DynamoDB at {where}: {error}") from error
    return database


def _embedded(table: str, data: Path | None) -> Database:
    from mcp_baton.local.dynamodb import create_table, embedded_client, embedded_engine

    if data is None:
        engine = embedded_engine()
        client = embedded_client(engine)
        create_table(client, table)
        return Database(client, lambda: _on_loopback(engine))
    from mcp_baton.local.data_file import DataFile

    file = DataFile(data)
    try:
        engine = embedded_engine(file.write)
        client = embedded_client(engine)
        create_table(client, table)
        _fill(engine, client, file, {table})
    except BaseException:
        file.close()
        raise
    return Database(client, lambda: _on_loopback(engine), file.state_key(), file.close)


def _fill(engine: "EmbeddedEngine", client: "DynamoDBClient", file: "DataFile", tables: set[str]) -> None:
    """Put the file's items into the engine, but for those whose time is over: DynamoDB would have deleted them."""
    import time

    from mcp_baton.local.dynamodb import create_table

    expired: dict[tuple[str, str, str], None] = {}
    for table, item in file.items():
        if _expires_at(item) <= time.time():
            expired[table, item["pk"]["S"], item["sk"]["S"]] = None
            continue
        if table not in tables:
            create_table(client, table)
            tables.add(table)
        engine.put(table, item)
    try:
        file.write(expired)
    except sqlite3.Error as error:
        logger.warning("tasks whose time is over stay in the data file, which cannot be written: %s", error)


def _expires_at(item: dict[str, Any]) -> float:
    return float(item.get("expires_at", {}).get("N", "inf"))


def _on_loopback(engine: "EmbeddedEngine") -> str:
    """The URL of the DynamoDB in this process, for its workers."""
    from mcp_baton.local.engine_http import loopback_answer
    from mcp_baton.local.loopback import LoopbackServer

    return f"http://{LoopbackServer(loopback_answer(engine)).address}"
