"""The layer: for either processor, from locked packages alone, the same bytes every time, and with nothing to spare."""

import json
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import botocore
import pytest

from tests.build.conftest import HERE, OTHER, ROOT, BuildFailed, BuildLayer

ELF_MACHINE = {"x86_64": 62, "arm64": 183}
UNCHECKED_HASH = 0b01
EXPECTED_SIZE_MB = 30
BUILT_AT_S = 315_532_800
"""What the files of a build say: 1 January 1980, the first time that a zip can have."""
CALL_EACH = """\
import sys
sys.path.insert(0, sys.argv[1])
import botocore.session
class Sent(Exception): pass
def send(request, **_): raise Sent(request.url)
session = botocore.session.Session()
session.set_credentials("key", "secret")
for service in sys.argv[2:]:
    client = session.create_client(service, "eu-central-1")
    client.meta.events.register("before-send", send)
    model = client.meta.service_model
    operations = map(model.operation_model, model.operation_names)
    call = next(found for found in operations if not found.input_shape or not found.input_shape.required_members)
    try:
        client._make_api_call(call.name, {})
    except Sent:
        print(service)
"""
"""Calls an operation of each service, from its model to the request that would be sent."""
INVOKE_THE_WORKER = """\
import sys
sys.path.insert(0, sys.argv[1])
from mcp_baton.clients import lambda_client
class Sent(Exception): pass
def send(request, **_): raise Sent(request.url)
client = lambda_client()
client.meta.events.register("before-send", send)
try:
    client.invoke(FunctionName="baton-worker:live", InvocationType="Event", Payload=b"{}")
except Sent as sent:
    print(sent)
"""
"""Invokes a worker, up to the request that would be sent."""
needs_313 = pytest.mark.skipif(sys.version_info[:2] != (3, 13), reason="byte code is compiled by a Python 3.13")


def files(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.rglob(pattern))


@pytest.mark.parametrize("architecture", [HERE, OTHER])
def test_everything_compiled_is_for_the_chosen_processor(request: pytest.FixtureRequest, architecture: str) -> None:
    layer: Path = request.getfixturevalue("layer" if architecture == HERE else "others_layer")
    libraries = files(layer, "*.so")

    assert any("pydantic_core" in library.name for library in libraries)
    assert {struct.unpack_from("<H", library.read_bytes(), 18)[0] for library in libraries} == {
        ELF_MACHINE[architecture]
    }


def test_two_builds_are_the_same_to_the_byte(layer: Path, layer_zip: Path) -> None:
    """SAM's, and that of `make layer` in another folder; permissions and times are the same whenever it is built."""
    with zipfile.ZipFile(layer_zip) as archive:
        again = {name: archive.read(name) for name in archive.namelist()}

    built = files(layer, "*")
    assert {path.relative_to(layer).as_posix(): path.read_bytes() for path in built if path.is_file()} == again
    assert len(again) > 500
    assert {path.stat().st_mtime for path in built} == {BUILT_AT_S}
    assert {oct(path.stat().st_mode & 0o7777) for path in built} == {"0o644", "0o755"}


def test_a_package_that_is_not_the_locked_one_is_refused(build_layer: BuildLayer, tmp_path: Path) -> None:
    source = tmp_path / "baton"
    shutil.copytree(ROOT / "layers" / "baton", source)
    requirements = source / "requirements.txt"
    lines = [line for line in requirements.read_text().splitlines() if "sha256" not in line]
    assert len(lines) > 10
    requirements.write_text("\n".join(line.replace(" \\", " --hash=sha256:" + "0" * 64) for line in lines))

    with pytest.raises(BuildFailed, match=r"(?i)hash"):
        build_layer(HERE, source)


def test_an_unknown_processor_is_refused(build_layer: BuildLayer) -> None:
    with pytest.raises(BuildFailed, match="it is arm64 or x86_64"):
        build_layer("sparc")


def test_the_builds_of_a_checkout_with_a_blank_in_its_path_find_the_uv_that_was_brought_there(tmp_path: Path) -> None:
    checkout = tmp_path / "my projects"
    checkout.mkdir()
    shutil.copy(ROOT / "Makefile", checkout)

    command = ["make", "--dry-run", "--no-print-directory", "--old-file=setup-sam", "build", "UV=.tools/uv/bin/uv"]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=True, timeout=60)

    *_, built = done.stdout.splitlines()
    words = shlex.split(built)
    assert f"PATH={checkout}/.tools/uv/bin:$PATH" in words
    assert words[words.index("build") - 1].endswith("/sam")


def test_a_build_installs_sam_and_no_other_requirement_of_the_tests(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)

    command = ["make", "--dry-run", "--no-print-directory", "build", "UV=uv"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)

    installed, built = done.stdout.splitlines()
    assert installed == "uv sync --frozen --quiet --project tests/sam"
    assert "tests/sam/.venv/bin/sam build" in built


def test_what_lambda_never_runs_is_left_out(layer: Path) -> None:
    packages = layer / "python"

    assert (packages / "mcp_baton" / "aws.py").exists()
    page = Path("mcp_baton", "console", "page.html")
    assert (packages / page).read_bytes() == (ROOT / "layers" / "baton" / page).read_bytes()
    assert not (packages / "mcp_baton" / "local").exists()
    assert not (packages / "mcp_baton" / "testing").exists()
    assert {path.name for path in (packages / "botocore" / "data").iterdir() if path.is_dir()} >= {
        "dynamodb",
        "lambda",
        "s3",
    }
    assert not (packages / "botocore" / "data" / "ec2").exists()
    # Baton's own connection to DynamoDB reads whom botocore trusts.
    assert (packages / "botocore" / "cacert.pem").is_file()
    assert [path for path in packages.rglob("*") if path.name in {"tests", "moto", "bin"}] == []


# Every region of every partition, through the endpoint rules and through the table that older code paths ask.
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
found = {}
for service in sys.argv[1:]:
    for region in regions:
        client = session.create_client(service, region)
        prefix = client.meta.service_model.endpoint_prefix
        known = resolver.construct_endpoint(prefix, region)
        found[f"{service} {region}"] = [client.meta.endpoint_url, client.meta.partition, known["hostname"]]
operations = {
    service: {name: str(sorted(session.get_service_model(service).operation_model(name).input_shape.members))
              for name in session.get_service_model(service).operation_names
              if session.get_service_model(service).operation_model(name).input_shape}
    for service in sys.argv[1:]
}
print(json.dumps([found, operations]))
"""
SERVICES = ("dynamodb", "lambda", "s3", "secretsmanager", "sns", "sqs", "stepfunctions", "sts")


def resolved(packages: Path) -> str:
    """Endpoints and operations, as a botocore sees them."""
    environment = {"PATH": os.defpath, "PYTHONPATH": str(packages), "AWS_EC2_METADATA_DISABLED": "true"}
    command = [sys.executable, "-S", "-c", RESOLVE, *SERVICES]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300)
    return done.stdout


@needs_313
def test_slimmed_clients_find_the_same_endpoints_and_operations(layer: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    shutil.copytree(layer / "python", whole)
    shutil.rmtree(whole / "botocore")
    shutil.copytree(Path(botocore.__file__).parent, whole / "botocore")

    slim, full = resolved(layer / "python"), resolved(whole)

    assert len(json.loads(slim)[0]) > 30 * len(SERVICES)
    assert slim == full


@needs_313
def test_the_layer_holds_no_documentation_of_services_and_no_endpoints_of_others(layer: Path) -> None:
    data = layer / "python" / "botocore" / "data"
    endpoints = json.loads((data / "endpoints.json").read_bytes())
    models = [path.read_text() for path in files(data, "service-2.json")]

    assert len(models) > 10
    assert [model for model in models if re.search(r'"documentation":"[^"]', model)] == []
    assert files(data, "*.gz") == []
    assert {name for partition in endpoints["partitions"] for name in partition["services"]} <= {
        json.loads(model)["metadata"]["endpointPrefix"] for model in models
    }


def test_every_service_that_is_left_can_be_called(layer: Path) -> None:
    services = sorted(folder.name for folder in (layer / "python" / "botocore" / "data").iterdir() if folder.is_dir())
    assert {"dynamodb", "s3"} <= set(services)

    done = subprocess.run(
        [sys.executable, "-I", "-c", CALL_EACH, layer / "python", *services],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout.split()) == (0, services), done.stderr


@needs_313
def test_the_worker_is_invoked_with_what_the_layer_has(layer: Path) -> None:
    credentials = {"AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "nobody", "AWS_DEFAULT_REGION": "eu-west-1"}
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", INVOKE_THE_WORKER, layer / "python"],
        env={"PATH": os.defpath, **credentials},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    url = "https://lambda.eu-west-1.amazonaws.com/2015-03-31/functions/baton-worker%3Alive/invocations"
    assert (done.returncode, done.stdout.split()) == (0, [url]), done.stderr


def test_the_layer_stays_small(layer: Path) -> None:
    megabytes = sum(path.stat().st_size for path in files(layer, "*") if path.is_file()) / 1e6

    assert megabytes < EXPECTED_SIZE_MB


@needs_313
def test_every_module_is_compiled_for_its_place_on_lambda_and_taken_as_it_is(layer: Path) -> None:
    compiled = files(layer, "*.pyc")

    assert len(compiled) == len(files(layer, "*.py"))
    for path in compiled:
        byte_code = path.read_bytes()
        assert struct.unpack_from("<I", byte_code, 4)[0] == UNCHECKED_HASH
        assert b"/opt/python/" in byte_code
        assert str(layer).encode() not in byte_code


def test_the_wrapper_can_be_started_and_says_when_the_layer_is_for_another_processor(others_layer: Path) -> None:
    done = subprocess.run(
        [others_layer / "baton-runtime", sys.executable, "bootstrap.py"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 1
    assert "build with ARCHITECTURE" in done.stderr
