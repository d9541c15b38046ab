"""The layer as a zip: what `make layer` leaves in dist."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.build.conftest import HERE
from tests.release import zipped
from tests.release.changelog import project_version

IMPORT_ALL = """\
import importlib, pkgutil, sys
sys.path[:] = [sys.argv[1], *(path for path in sys.path if "site-packages" not in path)]
import mcp_baton
for found in pkgutil.walk_packages(mcp_baton.__path__, "mcp_baton."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
import boto3, pydantic
elsewhere = [
    name for name, module in sys.modules.items()
    if (getattr(module, "__file__", None) or "").find("site-packages") >= 0
]
print(sum(name.startswith("mcp_baton.") for name in sys.modules), elsewhere)
"""
EXECUTABLE, READABLE = 0o100755, 0o100644
SOME_MODULES = 100


def test_lambda_takes_the_zip_as_it_is_and_its_name_says_version_and_processor(layer_zip: Path) -> None:
    assert layer_zip.name == f"baton-layer-{project_version()}-{HERE}.zip"
    entries = zipfile.ZipFile(layer_zip).infolist()

    assert {entry.filename.split("/")[0] for entry in entries} == {"baton-machine", "baton-runtime", "python"}
    assert {entry.external_attr >> 16 for entry in entries} == {EXECUTABLE, READABLE}
    assert next(entry for entry in entries if entry.filename == "baton-runtime").external_attr >> 16 == EXECUTABLE
    assert layer_zip.stat().st_size <= zipped.MOST_ZIPPED
    assert sum(entry.file_size for entry in entries) <= zipped.MOST_UNZIPPED


def test_every_module_is_imported_from_the_zip_alone(layer_zip: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(layer_zip).extractall(tmp_path)

    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", IMPORT_ALL, tmp_path / "python"],
        env={"PATH": os.defpath},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 0, done.stderr
    count, elsewhere = done.stdout.split(maxsplit=1)
    assert (int(count) > SOME_MODULES, elsewhere.strip()) == (True, "[]")


def test_a_layer_that_lambda_would_refuse_is_no_zip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "layer").mkdir()
    (tmp_path / "layer" / "noise").write_bytes(os.urandom(1000))

    for limit, kind in (("MOST_ZIPPED", "zipped"), ("MOST_UNZIPPED", "unzipped")):
        monkeypatch.setattr(zipped, limit, 999)
        with pytest.raises(zipped.TooLarge, match=f"bytes {kind}, and Lambda takes 999"):
            zipped.write(tmp_path / "layer", tmp_path / "layer.zip")

    assert [path.name for path in tmp_path.iterdir()] == ["layer"]
