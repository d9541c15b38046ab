"""The layer's zip and the list of its packages, which `make layer` and `make sbom` write into dist."""

import json
import os
import re
import subprocess
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path

import jsonschema_rs
import pytest

from tests.build.conftest import PROCESSOR, ROOT
from tests.release import zipped
from tests.release.changelog import project_version
from tests.release.conftest import run

IMPORT_ALL = """\
import importlib, pkgutil, sys
sys.path[:] = [sys.argv[1], *(path for path in sys.path if "site-packages" not in path)]
import mcp_baton
for info in pkgutil.walk_packages(mcp_baton.__path__, "mcp_baton."):
    if not info.name.endswith("__main__"):
        importlib.import_module(info.name)
import boto3, pydantic
foreign_modules = [
    name for name, module in sys.modules.items()
    if (getattr(module, "__file__", None) or "").find("site-packages") >= 0
]
print(sum(name.startswith("mcp_baton.") for name in sys.modules), foreign_modules)
"""
EXECUTABLE, READABLE = 0o100755, 0o100644
SOME_MODULES = 100


def test_the_zip_fits_lambda_and_its_name_has_version_and_processor(layer_zip: Path) -> None:
    assert layer_zip.name == f"baton-layer-{project_version()}-{PROCESSOR}.zip"
    entries = zipfile.ZipFile(layer_zip).infolist()

    assert {entry.filename.split("/")[0] for entry in entries} == {"baton-machine", "baton-runtime", "python"}
    assert {entry.external_attr >> 16 for entry in entries} == {EXECUTABLE, READABLE}
    assert next(entry for entry in entries if entry.filename == "baton-runtime").external_attr >> 16 == EXECUTABLE
    assert layer_zip.stat().st_size <= zipped.MAX_ZIPPED_BYTES
    assert sum(entry.file_size for entry in entries) <= zipped.MAX_UNZIPPED_BYTES


def test_every_module_can_be_imported_from_the_zip_alone(layer_zip: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(layer_zip).extractall(tmp_path)

    process = subprocess.run(
        [sys.executable, "-I", "-S", "-c", IMPORT_ALL, tmp_path / "python"],
        env={"PATH": os.defpath},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert process.returncode == 0, process.stderr
    count, foreign_modules = process.stdout.split(maxsplit=1)
    assert (int(count) > SOME_MODULES, foreign_modules.strip()) == (True, "[]")


@pytest.fixture(scope="session")
def sbom(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sbom")
    run(["make", "--no-print-directory", "sbom", f"DIST={folder}"])
    [document] = folder.iterdir()
    return document


def test_the_bill_of_materials_lists_exactly_the_packages_of_the_layer(sbom: Path, layer_zip: Path) -> None:
    document = json.loads(sbom.read_text())
    components = [(component["name"], component["version"]) for component in document["components"]]
    metadata = re.compile(r"python/[^/]+\.dist-info/METADATA")
    archive = zipfile.ZipFile(layer_zip)
    files = [message_from_bytes(archive.read(name)) for name in archive.namelist() if metadata.fullmatch(name)]
    packages = [(re.sub(r"[-_.]+", "-", file["Name"]).lower(), file["Version"]) for file in files]

    assert sorted(components) == sorted(packages)
    assert document["metadata"]["component"].items() >= {"name": "mcp-baton", "version": project_version()}.items()
    assert [component["purl"] for component in document["components"]] == [
        f"pkg:pypi/{name}@{version}" for name, version in components
    ]


def test_the_bill_of_materials_is_valid_cyclonedx_and_the_same_each_time(sbom: Path, tmp_path: Path) -> None:
    schemas = next(ROOT.glob("tests/audit/.venv/lib/python*/site-packages/cyclonedx/schema/_res"))
    parts = {name: json.loads((schemas / f"{name}.SNAPSHOT.schema.json").read_text()) for name in ("spdx", "jsf-0.82")}
    base = "http://cyclonedx.org/schema"
    registry = jsonschema_rs.Registry([(f"{base}/{name}.SNAPSHOT.schema.json", part) for name, part in parts.items()])
    schema = json.loads((schemas / "bom-1.5.SNAPSHOT.schema.json").read_text())

    jsonschema_rs.validator_for(schema, registry=registry).validate(json.loads(sbom.read_text()))
    run(["make", "--no-print-directory", "sbom", f"DIST={tmp_path}"])

    assert sbom.name == f"baton-layer-{project_version()}.cdx.json"
    assert (tmp_path / sbom.name).read_bytes() == sbom.read_bytes()


def test_a_layer_that_is_too_large_for_lambda_is_not_zipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "layer").mkdir()
    (tmp_path / "layer" / "noise").write_bytes(os.urandom(1000))

    for limit, kind in (("MAX_ZIPPED_BYTES", "zipped"), ("MAX_UNZIPPED_BYTES", "unzipped")):
        monkeypatch.setattr(zipped, limit, 999)
        with pytest.raises(zipped.TooLarge, match=f"bytes {kind}, and Lambda takes 999"):
            zipped.write(tmp_path / "layer", tmp_path / "layer.zip")

    assert [path.name for path in tmp_path.iterdir()] == ["layer"]
