"""AWS's image of the Python 3.13 runtime, or a stand-in if the registry cannot be reached.

The stand-in has everything of AWS's image that a function can see: CPython 3.13 in `/var/lang`, AWS's own runtime
interface client and boto3 among its packages, AWS's runtime interface emulator, layers in `/opt`, and
`AWS_LAMBDA_EXEC_WRAPPER`. It is built from this machine's files, including shared libraries, so it needs neither a
registry nor root. It is not a byte-for-byte copy of AWS's image.
"""

import io
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import docker
from docker.errors import APIError, ImageNotFound

from tests.deployed.machine import architecture

NAME = "public.ecr.aws/lambda/python"
TAGS = ("3.13", f"3.13-{architecture()}")
TOOLS = ("bash", "sh", "env", "mv", "chmod", "mkdir", "cat", "ls", "rm")
"""The programs that the exec wrapper needs, and those that `sam local` calls when it adds the emulator to an image."""
LIBC_LIBRARIES = re.compile(r"lib(c|m|rt|dl|util|pthread|resolv|anl|nss_files|nss_dns|gcc_s|stdc\+\+|z)\.so\.[0-9]+")
"""The shared libraries of AWS's image that compiled packages of a function or a layer may link to."""
PACKAGES = (
    *("awslambdaric", "simplejson", "snapshot_restore_py.py"),
    *("boto3", "botocore", "s3transfer", "jmespath", "dateutil", "six.py", "urllib3"),
)
EXCLUDED_FILES = re.compile(r"(^|/)(test|tests|site-packages|idlelib|tkinter|ensurepip|lib2to3)(/|$)|\.a$")
SITE = Path(os.__file__).parent
STAND_IN = "baton.stand-in"
"""The label of the stand-in. Its value says what is in it: change it with the content."""
CONTENT = "2"
RUNTIME_PACKAGES = "var/lang/lib/python3.13/site-packages"
"""Where AWS's image has boto3, since Python 3.11: https://docs.aws.amazon.com/lambda/latest/dg/python-image.html"""

BOOTSTRAP = b"""\
import os
import sys

layers = ["/opt/python/lib/python3.13/site-packages", "/opt/python"]
packages = ["/var/lang/lib/python3.13/site-packages", "/var/runtime"]
sys.path[:0] = [os.environ["LAMBDA_TASK_ROOT"], *layers, *packages]

from awslambdaric import bootstrap
from awslambdaric.lambda_runtime_client import LambdaRuntimeClient

bootstrap.run(os.environ["_HANDLER"], LambdaRuntimeClient(os.environ["AWS_LAMBDA_RUNTIME_API"], True))
"""
START = b"""\
#!/bin/bash
export AWS_EXECUTION_ENV=AWS_Lambda_python3.13 TZ=:UTC
if [[ -n ${AWS_LAMBDA_EXEC_WRAPPER:-} ]]; then
  exec "$AWS_LAMBDA_EXEC_WRAPPER" /var/lang/bin/python3.13 /var/runtime/bootstrap.py
fi
exec /var/lang/bin/python3.13 /var/runtime/bootstrap.py
"""
ENTRYPOINT = b"""\
#!/bin/bash
export _HANDLER=$1
exec /usr/local/bin/aws-lambda-rie /var/runtime/bootstrap
"""
SETTINGS = [
    "ENV LAMBDA_TASK_ROOT=/var/task LAMBDA_RUNTIME_DIR=/var/runtime LANG=C.UTF-8",
    "ENV PATH=/var/lang/bin:/usr/local/bin:/usr/bin:/bin:/opt/bin",
    "ENV LD_LIBRARY_PATH=/var/lang/lib:/var/runtime/lib:/var/task/lib:/opt/lib",
    "WORKDIR /var/task",
    'ENTRYPOINT ["/lambda-entrypoint.sh"]',
    f"LABEL {STAND_IN}={CONTENT}",
]


def ensure_runtime_image(client: docker.DockerClient, emulator: Path) -> str:
    """Ensure that the runtime's image exists under AWS's name. Return where it comes from: `here`, `registry` or
    `stand-in`.
    """
    try:
        labels = [client.images.get(f"{NAME}:{tag}").labels for tag in TAGS]
    except ImageNotFound:
        labels = []
    if labels and all(image_labels.get(STAND_IN, CONTENT) == CONTENT for image_labels in labels):
        return "here"
    try:
        image = client.images.pull(NAME, tag=TAGS[-1])
        origin = "registry"
    except APIError:
        image, origin = _import(client, emulator), "stand-in"
    for tag in TAGS:
        image.tag(NAME, tag)
    return origin


def _import(client: docker.DockerClient, emulator: Path) -> docker.models.images.Image:
    with io.BytesIO() as file:
        with tarfile.open(fileobj=file, mode="w") as archive:
            _fill(archive, emulator)
        client.api.import_image_from_data(file.getvalue(), repository=NAME, tag=TAGS[0], changes=SETTINGS)
    return client.images.get(f"{NAME}:{TAGS[0]}")


def _fill(archive: tarfile.TarFile, emulator: Path) -> None:
    """Add all files of the stand-in. Symbolic links become regular files."""
    for name in ("var/task", "opt", "tmp", "proc", "sys", "dev", "etc", "root"):
        _folder(archive, name, 0o1777 if name == "tmp" else 0o755)
    binaries = [Path(sys.executable).resolve(), *(Path(path) for tool in TOOLS if (path := shutil.which(tool)))]
    site_packages = Path(docker.__file__).parents[1]
    natives = list(site_packages.glob("runtime_client*.so"))
    for library in sorted(_libraries([*binaries, *natives, *(SITE / "lib-dynload").glob("*.so")])):
        archive.add(library.resolve(), str(library).lstrip("/"))
    for tool in TOOLS:
        archive.add(Path(shutil.which(tool) or tool).resolve(), f"bin/{tool}")
    archive.add(binaries[0], "var/lang/bin/python3.13")
    archive.add(SITE, "var/lang/lib/python3.13", filter=_filter)
    for package in PACKAGES:
        archive.add(site_packages / package, f"{RUNTIME_PACKAGES}/{package}", filter=_filter)
    for native in natives:
        archive.add(native, f"{RUNTIME_PACKAGES}/{native.name}")
    archive.add(emulator, "usr/local/bin/aws-lambda-rie", filter=_executable)
    _file(archive, "var/runtime/bootstrap.py", BOOTSTRAP)
    _file(archive, "var/runtime/bootstrap", START)
    _file(archive, "lambda-entrypoint.sh", ENTRYPOINT)
    _file(archive, "etc/passwd", b"root:x:0:0:root:/root:/bin/bash\nsbx_user1051:x:993:990::/tmp:/bin/bash\n")


def _libraries(binaries: list[Path]) -> set[Path]:
    """Return the shared libraries of these binaries under the names that they are loaded by, with the loader and the
    libraries that belong to the C library.
    """
    libraries = {Path(name) for binary in binaries for name in _linked_libraries(binary)}
    folders = {library.parent for library in libraries if library.name == "libc.so.6"}
    return libraries | {file for folder in folders for file in folder.iterdir() if LIBC_LIBRARIES.fullmatch(file.name)}


def _linked_libraries(binary: Path) -> Iterator[str]:
    output = subprocess.run(["ldd", str(binary)], capture_output=True, text=True, check=False).stdout
    for match in re.finditer(r"(?:=>\s*|^\s*)(/\S+)", output, re.MULTILINE):
        yield match[1]


def _filter(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    name = member.name.removeprefix(f"{RUNTIME_PACKAGES}/").split("python3.13/", 1)[-1]
    return None if EXCLUDED_FILES.search(name) else member


def _executable(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mode |= stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH
    return member


def _folder(archive: tarfile.TarFile, name: str, mode: int) -> None:
    member = tarfile.TarInfo(name)
    member.type, member.mode = tarfile.DIRTYPE, mode
    archive.addfile(member)


def _file(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), 0o755
    archive.addfile(member, io.BytesIO(content))
