"""The SQLite file that keeps the embedded DynamoDB's items after a restart (docs/commands.md, Serve).

Each write is a transaction, which is in the file before the request is answered: a killed process loses no answered
write. A power failure may lose the last writes but does not damage the file
(https://www.sqlite.org/pragma.html#pragma_synchronous, NORMAL with a write-ahead log).
"""

import json
import os
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from mcp_baton.exceptions import BatonError

APPLICATION: Final = 0x4261746F
"""Marks an SQLite database as Baton's: `Bato` in ASCII."""

VERSION: Final = 1
TABLES: Final = (
    """CREATE TABLE items ("table" TEXT, pk TEXT, sk TEXT, item TEXT NOT NULL, crc32 INTEGER NOT NULL,
    PRIMARY KEY ("table", pk, sk)) WITHOUT ROWID""",
    "CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
)
STATE_KEY: Final = "state_key"

type Key = tuple[str, str, str]
"""An item's table and the two values of its key."""


class DataFile:
    """An open data file, locked against other processes. Used under the engine's lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.is_dir() or not path.parent.is_dir():
            raise BatonError(f"--data {path}: {'it is a folder' if path.is_dir() else f'no folder {path.parent}'}")
        self._create()
        with self._translate_errors():
            self._connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            with self._translate_errors():
                self._open()
        except BaseException:
            self._connection.close()
            raise

    def items(self) -> Iterator[tuple[str, dict[str, Any]]]:
        with self._translate_errors():
            rows = self._connection.execute('SELECT "table", item, crc32 FROM items').fetchall()
        for table, text, crc32 in rows:
            if zlib.crc32(text.encode()) != crc32:
                raise self._damage_error("an item differs from the one that was written")
            yield table, json.loads(text)

    def item(self, key: Key) -> dict[str, Any] | None:
        row = self._execute('SELECT item FROM items WHERE "table" = ? AND pk = ? AND sk = ?', *key).fetchone()
        item: dict[str, Any] | None = json.loads(row[0]) if row else None
        return item

    def write(self, items: Mapping[Key, Mapping[str, Any] | None]) -> None:
        """Write all items or none. `None` deletes an item."""
        with self._transaction():
            for key, item in items.items():
                if item is None:
                    self._execute('DELETE FROM items WHERE "table" = ? AND pk = ? AND sk = ?', *key)
                    continue
                text = json.dumps(item)
                self._execute("REPLACE INTO items VALUES (?, ?, ?, ?, ?)", *key, text, zlib.crc32(text.encode()))

    def state_key(self) -> bytes:
        """Return the key that signs states which clients hold, the same for each process that opens the file."""
        with self._transaction():
            self._execute("INSERT OR IGNORE INTO settings VALUES (?, ?)", STATE_KEY, os.urandom(32).hex())
            row = self._execute("SELECT value FROM settings WHERE name = ?", STATE_KEY).fetchone()
        return str(row[0]).encode()

    def close(self) -> None:
        self._connection.close()

    def _create(self) -> None:
        """Create the file if it is missing, readable only for this user. SQLite gives its journals the same mode."""
        try:
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            pass
        except OSError as error:
            raise BatonError(f"--data {self.path}: it cannot be created: {error.strerror}") from error

    def _open(self) -> None:
        self._execute("PRAGMA locking_mode = EXCLUSIVE")
        with self._transaction():
            application = self._execute("PRAGMA application_id").fetchone()[0]
            version = self._execute("PRAGMA user_version").fetchone()[0]
            if not self._execute("SELECT 1 FROM sqlite_master").fetchone() and not application:
                self._create_tables()
            elif application != APPLICATION:
                raise BatonError(f"--data {self.path}: it is a database of another program; name another file")
            elif version != VERSION:
                versions = f"version {version}, and this Baton supports version {VERSION}"
                raise BatonError(f"--data {self.path}: the file has {versions}; name another file, or update Baton")
            check_result = self._execute("PRAGMA quick_check").fetchone()[0]
            if check_result != "ok":
                raise self._damage_error(str(check_result).splitlines()[-1])
        self._execute("PRAGMA journal_mode = WAL")
        self._execute("PRAGMA synchronous = NORMAL")

    def _create_tables(self) -> None:
        for statement in TABLES:
            self._execute(statement)
        self._execute(f"PRAGMA application_id = {APPLICATION}")
        self._execute(f"PRAGMA user_version = {VERSION}")

    def _execute(self, statement: str, *values: str | int) -> sqlite3.Cursor:
        return self._connection.execute(statement, values)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._execute("BEGIN EXCLUSIVE")
        try:
            yield
            self._execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:  # SQLite ends it after some errors, such as a full disk
                self._execute("ROLLBACK")
            raise

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise BatonError(
                    f"--data {self.path}: another process uses the file: end it, or name another file"
                ) from error
            raise BatonError(f"--data {self.path}: it cannot be opened: {error}") from error
        except sqlite3.DatabaseError as error:
            raise self._damage_error(str(error)) from error

    def _damage_error(self, reason: str) -> BatonError:
        remedy = "it was not changed. Move it away, or name another file"
        return BatonError(f"--data {self.path}: the file is damaged, or not a data file of Baton ({reason}); {remedy}")
