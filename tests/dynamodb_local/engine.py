"""DynamoDB Local, AWS's own engine for local use, as a Java process.

`tests/dynamodb_local/install.py` installs it. Its native SQLite exists for x86-64 only.
"""

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.processes import becomes_ready, free_port

HERE = Path(__file__).parent
LIBRARY = HERE / "lib"
OLDEST_JAVA = 17
PROCESSORS = ("x86_64", "AMD64")
MAIN = "com.amazonaws.services.dynamodbv2.local.main.ServerRunner"
# The engine serves small tables for minutes. It starts sooner with only the first compiler and a single-threaded
# garbage collector.
JAVA = ("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m")
SQLITE = {"Linux": "libsqlite4java-linux-amd64-1.0.392.so", "Darwin": "libsqlite4java-osx-1.0.392.dylib"}


class EngineFailed(Exception):
    """DynamoDB Local did not start."""


def unavailable_reason() -> str | None:
    """Return why this machine cannot run DynamoDB Local, or None if it can."""
    if platform.machine() not in PROCESSORS or platform.system() not in SQLITE:
        return f"DynamoDB Local has no SQLite for {platform.system()} on {platform.machine()}"
    java = _java()
    if java < OLDEST_JAVA:
        java_state = f"is {java}" if java else "is missing"
        return f"DynamoDB Local needs Java {OLDEST_JAVA} or newer, which {java_state}"
    return None if shutil.which("mvn") else "DynamoDB Local comes through Maven (mvn), which is missing"


def _java() -> int:
    """Return the version of the Java on the path, 0 for none."""
    try:
        output = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True, timeout=60).stderr
    except (OSError, subprocess.SubprocessError):
        return 0
    version = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(version[1]) if version else 0


@contextmanager
def running(directory: Path, port: int | None = None, *, durable: bool = False) -> Iterator[str]:
    """Run an engine. Yield its URL, and end it with the context.

    Args:
        durable: Whether a later engine in the same folder has the same tables, for all credentials. By default, an
            engine starts empty and keeps everything in memory.
    """
    port = free_port() if port is None else port
    log = directory / "dynamodb-local.log"
    library = str(LIBRARY)
    tables = ["-dbPath", str(directory), "-sharedDb"] if durable else ["-inMemory"]
    engine = [*tables, "-disableTelemetry", "-port", str(port)]
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [*JAVA, f"-Djava.library.path={library}", "-cp", f"{library}/*", MAIN, *engine],
            # The engine must not read the user's AWS configuration.
            env={"PATH": os.environ["PATH"], "HOME": str(directory)},
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        ) as process,
    ):
        try:
            # A server that is ready rejects a request without a signature.
            if not becomes_ready(process, port, "/", 400):
                raise EngineFailed(f"DynamoDB Local did not become ready:\n{log.read_text(errors='replace')}")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
