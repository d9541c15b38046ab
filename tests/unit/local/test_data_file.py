"""The file that stores the embedded DynamoDB's items."""

import os
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from mcp_baton.exceptions import BatonError, SettingsError
from mcp_baton.local.data_file import VERSION, DataFile
from mcp_baton.local.serve import Database, open_database

KEY: dict[str, Any] = {"pk": {"S": "OWNER#a"}, "sk": {"S": "TASK#1"}}
VALUES: dict[str, Any] = {
    "expires_at": {"N": "99999999999"},
    "plain": {"B": b"\x00\xff"},
    "several": {"BS": [b"\x01"]},
    "nested": {"M": {"bytes": {"B": b"\x02"}, "list": {"L": [{"NULL": True}, {"BOOL": False}, {"BS": [b"\x03"]}]}}},
}


def open_file(path: Path) -> Database:
    return open_database("embedded", "baton", path)


def item(database: Database) -> dict[str, Any] | None:
    """Query the item with a projection, as lists do. moto then reads every value."""
    names = {f"#{number}": name for number, name in enumerate((*KEY, *VALUES, "added"))}
    items = database.client.query(
        TableName="baton",
        KeyConditionExpression="pk = :pk",
        ProjectionExpression=", ".join(names),
        ExpressionAttributeNames=names,
        ExpressionAttributeValues={":pk": KEY["pk"]},
    )["Items"]
    return dict(items[0]) if items else None


def tasks_in(path: Path) -> list[str]:
    """Return the sort keys of the items in a file."""
    with closing(DataFile(path)) as file:
        return [stored_item["sk"]["S"] for _, stored_item in file.items()]


def test_items_of_every_kind_survive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    first_database = open_file(path)
    first_database.client.put_item(TableName="baton", Item={**KEY, **VALUES})
    first_database.client.update_item(
        TableName="baton",
        Key=KEY,
        UpdateExpression="ADD added :bytes",
        ExpressionAttributeValues={":bytes": {"BS": [b"\x04"]}},
    )
    item_before, key = item(first_database), first_database.state_key
    first_database.close()

    second_database = open_file(path)
    assert item(second_database) == item_before
    assert item_before is not None
    assert item_before["added"] == {"BS": [b"\x04"]}
    assert (second_database.state_key, len(key or b"")) == (key, 64)
    second_database.client.delete_item(TableName="baton", Key=KEY)
    second_database.close()
    third_database = open_file(path)
    assert item(third_database) is None
    third_database.close()


def test_an_expired_item_is_removed_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    first_database = open_file(path)
    first_database.client.put_item(TableName="baton", Item={**KEY, "expires_at": {"N": "1"}})
    first_database.close()
    second_database = open_file(path)
    assert item(second_database) is None
    second_database.close()
    assert tasks_in(path) == []


KILLED = """
import os, signal, sys
from pathlib import Path
from mcp_baton.local.serve import open_database
client = open_database("embedded", "baton", Path(sys.argv[1])).client
for number in range(20):
    client.put_item(TableName="baton", Item={"pk": {"S": "OWNER#a"}, "sk": {"S": f"TASK#{number:02}"}})
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_loses_no_answered_write(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    process = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False, timeout=60)
    assert process.returncode == -9
    assert tasks_in(path) == [f"TASK#{number:02}" for number in range(20)]


def test_a_second_process_is_refused_until_the_first_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    with closing(DataFile(path)), pytest.raises(BatonError, match="another process uses the file: end it"):
        DataFile(path)
    assert tasks_in(path) == []


def write_one_item(path: Path) -> None:
    with closing(DataFile(path)) as file:
        file.write({("baton", "OWNER#a", "TASK#1"): {**KEY, "text": {"S": "unmistakable"}}})


def execute(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


def write_newer_version(path: Path) -> None:
    write_one_item(path)
    execute(path, f"PRAGMA user_version = {VERSION + 1}")


def change_text(path: Path) -> None:
    write_one_item(path)
    path.write_bytes(path.read_bytes().replace(b"unmistakable", b"unmistakeble"))


def truncate(path: Path) -> None:
    write_one_item(path)
    path.write_bytes(path.read_bytes()[:5000])


@pytest.mark.parametrize(
    ("write_file", "reason"),
    [
        (lambda path: path.write_text('{"tasks": []}' * 100), "is damaged, or not a data file of Baton"),
        (truncate, "is damaged"),
        (change_text, "an item differs from the one that was written"),
        (lambda path: execute(path, "CREATE TABLE other (value)"), "a database of another program"),
        (write_newer_version, f"version {VERSION + 1}, and this Baton supports version {VERSION}"),
    ],
)
def test_an_unusable_file_is_refused_and_not_changed(tmp_path: Path, write_file: Any, reason: str) -> None:
    path = tmp_path / "tasks.db"
    write_file(path)
    content_before = path.read_bytes()
    with pytest.raises(BatonError, match=reason):
        open_file(path)
    assert path.read_bytes() == content_before


def test_only_this_user_can_read_the_file_and_its_journals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes_at_connect: list[int] = []
    connect = sqlite3.connect

    def recording_connect(path: Path, **options: Any) -> sqlite3.Connection:
        modes_at_connect.append(path.stat().st_mode & 0o777)
        connection: sqlite3.Connection = connect(path, **options)
        return connection

    monkeypatch.setattr(sqlite3, "connect", recording_connect)
    umask_before = os.umask(0)
    try:
        with closing(DataFile(tmp_path / "tasks.db")) as file:
            file.write({("baton", "OWNER#a", "TASK#1"): KEY})
            modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    finally:
        os.umask(umask_before)
    assert modes_at_connect == [0o600]
    assert modes == {"tasks.db": 0o600, "tasks.db-wal": 0o600}


def test_a_path_that_cannot_be_a_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BatonError, match="it is a folder"):
        DataFile(tmp_path)
    with pytest.raises(BatonError, match="no folder"):
        DataFile(tmp_path / "absent" / "tasks.db")


def test_a_file_for_a_database_at_a_url_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--data is for the embedded DynamoDB"):
        open_database("http://127.0.0.1:1", "baton", tmp_path / "tasks.db")


@contextmanager
def limited_file_size(max_bytes: int) -> Iterator[None]:
    """Limit the size of the files that this process writes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (max_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


LARGE = {"S": "x" * 300_000}


LARGE_UPDATE = {"UpdateExpression": "SET added=:a", "ExpressionAttributeValues": {":a": LARGE}}
OTHER = {**KEY, "sk": {"S": "TASK#0"}}


@pytest.mark.parametrize(
    ("operation", "parameters"),
    [
        ("put_item", {"Item": {**KEY, "added": LARGE}}),
        ("put_item", {"Item": {**OTHER, "added": LARGE}}),
        ("update_item", {"Key": KEY, **LARGE_UPDATE}),
        ("delete_item", {"Key": KEY}),
    ],
)
def test_on_a_full_disk_writes_fail_without_changes_and_reads_work(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, operation: str, parameters: dict[str, Any]
) -> None:
    path = tmp_path / "tasks.db"
    database = open_file(path)
    client: Any = database.client
    client.put_item(TableName="baton", Item={**KEY, **VALUES})
    item_before = item(database)

    with limited_file_size(4096):
        for _ in range(2):
            with pytest.raises(client.exceptions.InternalServerError, match="the data file cannot be written"):
                getattr(client, operation)(TableName="baton", **parameters)
            assert item(database) == item_before
            assert client.get_item(TableName="baton", Key=KEY)["Item"] == {**KEY, **VALUES}
            assert "Item" not in client.get_item(TableName="baton", Key=OTHER)
    assert "cannot save its changes" in caplog.text

    client.put_item(TableName="baton", Item={**KEY, "sk": {"S": "TASK#2"}})
    database.close()
    assert tasks_in(path) == ["TASK#1", "TASK#2"]


def test_a_file_on_a_full_disk_can_be_opened_and_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "tasks.db"
    first_database = open_file(path)
    first_database.client.put_item(TableName="baton", Item={**KEY, **VALUES})
    first_database.client.put_item(TableName="baton", Item={**KEY, "sk": {"S": "TASK#9"}, "expires_at": {"N": "1"}})
    item_before = item(first_database)
    first_database.close()

    with limited_file_size(4096):
        second_database = open_file(path)
        assert item(second_database) == item_before
        assert second_database.state_key == first_database.state_key
        assert "expired tasks stay in the data file" in caplog.text
    second_database.close()
