"""Zips a built layer for Lambda: python -m tests.release.zipped FOLDER ZIP

The bytes depend only on the folder's contents. Files are sorted by name and have no times. They keep their permissions,
because Lambda needs read and execute permissions.
"""

import sys
from pathlib import Path
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

MAX_ZIPPED_BYTES: Final = 50 * 1024 * 1024
"""The maximum size of a zip in the request that publishes it, bytes
(https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html).
"""
MAX_UNZIPPED_BYTES: Final = 250 * 1024 * 1024
"""The maximum size of a function with all its layers, bytes; same page."""


class TooLarge(Exception):
    """Lambda would reject the layer. The message has its size and the limit."""


def write(folder: Path, target: Path) -> None:
    """Write everything in a folder into a zip.

    Raises:
        TooLarge: Lambda would reject it. No zip is written then.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    _check_size("unzipped", sum(path.stat().st_size for path in files), MAX_UNZIPPED_BYTES)
    partial_file = target.with_name(f"{target.name}.part")
    try:
        with ZipFile(partial_file, "w", ZIP_DEFLATED, compresslevel=9) as archive:
            for path in files:
                archive.writestr(_entry(path, folder), path.read_bytes())
        _check_size("zipped", partial_file.stat().st_size, MAX_ZIPPED_BYTES)
        partial_file.replace(target)
    finally:
        partial_file.unlink(missing_ok=True)


def _entry(path: Path, folder: Path) -> ZipInfo:
    entry = ZipInfo(path.relative_to(folder).as_posix())
    entry.compress_type = ZIP_DEFLATED
    entry.create_system = 3  # Unix: Lambda reads its permissions
    executable = path.stat().st_mode & 0o100
    entry.external_attr = (0o100755 if executable else 0o100644) << 16
    return entry


def _check_size(kind: str, size: int, limit: int) -> None:
    if size > limit:
        raise TooLarge(f"the layer has {size:,} bytes {kind}, and Lambda takes {limit:,} at most")


def main(folder: Path, target: Path) -> int:
    """Write the zip, and print its size. Return the exit code."""
    write(folder, target)
    sys.stdout.write(f"{target}: {target.stat().st_size / 1e6:.1f} MB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
