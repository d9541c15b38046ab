"""Writing a host's configuration: whole or not at all."""

import os
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

from mcp_baton.cli.hosts.configuration import Entry
from mcp_baton.cli.hosts.merging import Taken, merged
from mcp_baton.exceptions import BatonError

_PRIVATE: Final = 0o600


def write(file: Path, entry: Entry, *, replace: bool = False) -> bool:
    """Put a server into a configuration; whether that changed anything.

    An existing file keeps its permissions, unless the entry has a secret: then only its user may read it. A link stays
    a link, and the file that it leads to is written.

    Raises:
        CannotMerge: something in the file would be lost.
        BatonError: the name is taken, or the file cannot be read or written.
    """
    try:
        target = file.resolve()
        old = target.read_bytes().decode() if target.exists() else ""
        new = merged(old, entry, replace=replace)
        if new == old and not (entry.private and target.stat().st_mode & 0o777 != _PRIVATE):
            return False
        target.parent.mkdir(parents=True, exist_ok=True)
        _replace(target, new, private=entry.private)
    except Taken as error:
        raise BatonError(f"{file}: {error}") from error
    except UnicodeDecodeError as error:
        raise BatonError(f"{file} is not UTF-8, so it was left as it is") from error
    except OSError as error:
        raise BatonError(f"{file} cannot be written: {error.strerror}") from error
    return True


def _replace(target: Path, text: str, *, private: bool) -> None:
    """Put a file in the place of another in one step: who reads it has either, whole."""
    mode = _PRIVATE if private else target.stat().st_mode & 0o777 if target.exists() else _usual()
    with NamedTemporaryFile("wb", dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
        part = Path(file.name)
        try:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    # Created with 0600, so that the secret is never readable for others.
    part.chmod(mode)
    part.replace(target)


def _usual() -> int:
    """The permissions that this process's files have."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
