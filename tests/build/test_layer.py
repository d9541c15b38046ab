"""The layer: for either processor, from locked packages alone, identical in every build, and without unused files."""

import json
import os
import re
import shutil
import stat
import struct
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from zipfile import ZipFile

import botocore
import pytest

from tests.build.conftest import OTHER_PROCESSOR, PROCESSOR, ROOT, BuildFailed, BuildLayer
from tests.release import zipped

ELF_MACHINE = {"x86_64": 62, "arm64": 183}
UNCHECKED_HASH = 0b01
EXPECTED_SIZE = 30_000_000
FILE_TIME_S = 315_532_800
"""The time of all built files: 1 January 1980, the earliest time that a zip can represent."""
needs_313 = pytest.mark.skipif(sys.version_info[:2] != (3, 13), reason="byte code is compiled by a Python 3.13")


def files(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.rglob(pattern))


@pytest.mark.parametrize("architecture", [PROCESSOR, OTHER_PROCESSOR])
def test_compiled_libraries_are_for_the_chosen_processor(request: pytest.FixtureRequest, architecture: str) -> None:
    layer: Path = request.getfixturevalue("layer" if architecture == PROCESSOR else "other_layer")
    libraries = files(layer, "*.so")

    assert any("pydantic_core" in library.name for library in libraries)
    assert {struct.unpack_from("<H", library.read_bytes(), 18)[0] for library in libraries} == {
        ELF_MACHINE[architecture]
    }


def test_two_builds_are_identical(layer: Path, layer_zip: Path, tmp_path: Path) -> None:
    """Compare SAM's build with that of `make layer` in another folder. File times are not in the zip."""
    copy = shutil.copytree(layer, tmp_path / "layer", copy_function=shutil.copy)
    zipped.write(copy, tmp_path / "layer.zip")

    assert (tmp_path / "layer.zip").read_bytes() == layer_zip.read_bytes()
    paths = files(layer, "*")
    assert len(paths) > 500
    assert {path.stat().st_mtime for path in paths} == {FILE_TIME_S}
    assert {oct(path.stat().st_mode & 0o7777) for path in paths} == {"0o644", "0o755"}


@pytest.mark.nightly
def test_a_rebuild_gives_the_same_bytes(layer_zip: Path, build_layer: BuildLayer, tmp_path: Path) -> None:
    """Build sources with other times, permissions and leftover files, in another folder and environment."""
    source = tmp_path / "another machine" / "baton"
    shutil.copytree(ROOT / "layers" / "baton", source, copy_function=shutil.copy)
    for leftover in (".DS_Store", "aws.py~", "aws.py.orig", "notes.log", ".idea/workspace.xml", "__pycache__/old.pyc"):
        path = source / "mcp_baton" / leftover
        path.parent.mkdir(exist_ok=True)
        path.write_text("left over")
    for path in source.rglob("*"):
        path.chmod(0o700 if path.is_dir() or path.stat().st_mode & stat.S_IXUSR else 0o600)
        os.utime(path, (1_000_000_000, 1_000_000_000))

    rebuilt_layer = build_layer(
        PROCESSOR,
        source,
        umask="077",
        PYTHONHASHSEED="7",
        SOURCE_DATE_EPOCH="1700000000",
        TZ="Asia/Tokyo",
        LC_ALL="C",
    )
    zipped.write(rebuilt_layer, tmp_path / "layer.zip")

    assert names(tmp_path / "layer.zip") == names(layer_zip)
    assert hashes(tmp_path / "layer.zip") == hashes(layer_zip)
    assert (tmp_path / "layer.zip").read_bytes() == layer_zip.read_bytes()
    # SAM zips these files itself for a deployment.
    assert {path.stat().st_mtime for path in files(rebuilt_layer, "*")} == {FILE_TIME_S}
    assert {oct(path.stat().st_mode & 0o7777) for path in files(rebuilt_layer, "*")} == {"0o644", "0o755"}


def names(archive: Path) -> list[str]:
    return ZipFile(archive).namelist()


def hashes(archive: Path) -> dict[str, str]:
    """Return the hashes of a zip's files by name, so that a failure names the files that differ."""
    entries = ZipFile(archive)
    return {name: sha256(entries.read(name)).hexdigest() for name in entries.namelist()}


def test_a_package_with_another_hash_is_rejected(build_layer: BuildLayer, tmp_path: Path) -> None:
    source = tmp_path / "baton"
    shutil.copytree(ROOT / "layers" / "baton", source)
    requirements = source / "requirements.txt"
    lines = [line for line in requirements.read_text().splitlines() if "sha256" not in line]
    assert len(lines) > 10
    requirements.write_text("\n".join(line.replace(" \\", " --hash=sha256:" + "0" * 64) for line in lines))

    with pytest.raises(BuildFailed, match=r"(?i)hash"):
        build_layer(PROCESSOR, source)


def test_files_that_lambda_never_uses_are_left_out(layer: Path) -> None:
    packages = layer / "python"
    pages = [Path("mcp_baton", "console", name) for name in ("page.html", "page.css", "script/elements.js")]
    services = {path.name for path in (packages / "botocore" / "data").iterdir() if path.is_dir()}

    assert all((packages / page).read_bytes() == (ROOT / "layers" / "baton" / page).read_bytes() for page in pages)
    assert {"aws.py"} == {"aws.py", "local", "testing"} & {path.name for path in (packages / "mcp_baton").iterdir()}
    assert services >= {"dynamodb", "lambda", "s3", "secretsmanager", "sns"}
    assert "ec2" not in services
    assert sum(path.stat().st_size for path in files(layer, "*") if path.is_file()) < EXPECTED_SIZE
    # The certificate authorities that botocore trusts.
    assert (packages / "botocore" / "cacert.pem").is_file()
    unused = [
        path for path in packages.rglob("*") if path.name in {"tests", "moto", "bin"} or path.suffix in {".c", ".pyi"}
    ]
    assert unused == []


# Resolves every region of every partition with the endpoint rules and with the table that older code paths use.
RESOLVE = """
import json, sys
import botocore.session
session = botocore.session.Session()
session.set_credentials("nobody", "nobody")
regions = [
    region for partition in session.get_available_partitions()
    for region in session.get_available_regions("dynamodb", partition)
]
resolver = session.get_component("endpoint_resolver")
endpoints = {}
for service in sys.argv[1:]:
    for region in regions:
        client = session.create_client(service, region)
        prefix = client.meta.service_model.endpoint_prefix
        endpoint = resolver.construct_endpoint(prefix, region)
        endpoints[f"{service} {region}"] = [client.meta.endpoint_url, client.meta.partition, endpoint["hostname"]]
operations = {
    service: {name: str(sorted(session.get_service_model(service).operation_model(name).input_shape.members))
              for name in session.get_service_model(service).operation_names
              if session.get_service_model(service).operation_model(name).input_shape}
    for service in sys.argv[1:]
}
print(json.dumps([endpoints, operations]))
"""


def resolve(packages: Path, services: list[str]) -> str:
    """Return the endpoints and operations that a botocore finds."""
    environment = {"PATH": os.defpath, "PYTHONPATH": str(packages), "AWS_EC2_METADATA_DISABLED": "true"}
    command = [sys.executable, "-S", "-c", RESOLVE, *services]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300)
    return process.stdout


@needs_313
def test_slimmed_clients_find_the_same_endpoints_and_operations(layer: Path, tmp_path: Path) -> None:
    for package in (layer / "python").iterdir():
        (tmp_path / package.name).symlink_to(package)
    full_botocore = tmp_path / "botocore"
    full_botocore.unlink()
    full_botocore.symlink_to(Path(botocore.__file__).parent)

    services = sorted(path.name for path in (layer / "python" / "botocore" / "data").iterdir() if path.is_dir())
    slim, full = (resolve(packages, services) for packages in (layer / "python", tmp_path))

    assert len(json.loads(slim)[0]) > 30 * len(services)
    assert slim == full


@needs_313
def test_the_layer_has_no_service_documentation_and_only_endpoints_of_its_services(layer: Path) -> None:
    data = layer / "python" / "botocore" / "data"
    endpoints = json.loads((data / "endpoints.json").read_bytes())
    models = [path.read_text() for path in files(data, "service-2.json")]

    assert len(models) > 10
    assert [model for model in models if re.search(r'"documentation":"[^"]', model)] == []
    assert files(data, "*.gz") == []
    assert {name for partition in endpoints["partitions"] for name in partition["services"]} <= {
        json.loads(model)["metadata"]["endpointPrefix"] for model in models
    }


@needs_313
def test_every_module_is_compiled_for_its_path_on_lambda_without_checks(layer: Path) -> None:
    byte_code_files = files(layer, "*.pyc")

    assert len(byte_code_files) == len(files(layer, "*.py"))
    for path in byte_code_files:
        byte_code = path.read_bytes()
        assert struct.unpack_from("<I", byte_code, 4)[0] == UNCHECKED_HASH
        assert b"/opt/python/" in byte_code
        assert str(layer).encode() not in byte_code


def test_the_wrapper_reports_a_layer_for_another_processor(other_layer: Path) -> None:
    process = subprocess.run(
        [other_layer / "baton-runtime", sys.executable, "bootstrap.py"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert process.returncode == 1
    assert "build with ARCHITECTURE" in process.stderr
