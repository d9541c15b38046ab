"""The layer: for either processor, from locked packages alone, the same bytes every time, and with nothing to spare."""

import shlex
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.build.conftest import HERE, ROOT, BuildFailed, BuildLayer

ELF_MACHINE = {"x86_64": 62, "arm64": 183}
UNCHECKED_HASH = 0b01
EXPECTED_SIZE_MB = 30
needs_313 = pytest.mark.skipif(sys.version_info[:2] != (3, 13), reason="byte code is compiled by a Python 3.13")


def files(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.rglob(pattern))


@pytest.mark.parametrize("architecture", ["arm64", "x86_64"])
def test_everything_compiled_is_for_the_chosen_processor(request: pytest.FixtureRequest, architecture: str) -> None:
    layer: Path = request.getfixturevalue(architecture)
    libraries = files(layer, "*.so")

    assert any("pydantic_core" in library.name for library in libraries)
    assert {struct.unpack_from("<H", library.read_bytes(), 18)[0] for library in libraries} == {
        ELF_MACHINE[architecture]
    }


def test_two_builds_are_the_same_to_the_byte(arm64: Path, build_layer: BuildLayer) -> None:
    again = build_layer("arm64")

    contents = [
        [
            (path.relative_to(layer), path.stat().st_mode, path.stat().st_mtime, path.is_file() and path.read_bytes())
            for path in files(layer, "*")
        ]
        for layer in (arm64, again)
    ]
    assert len(contents[0]) > 500
    assert contents[0] == contents[1]


def test_a_package_that_is_not_the_locked_one_is_refused(build_layer: BuildLayer, tmp_path: Path) -> None:
    source = tmp_path / "baton"
    shutil.copytree(ROOT / "layers" / "baton", source)
    requirements = source / "requirements.txt"
    lines = [line for line in requirements.read_text().splitlines() if "sha256" not in line]
    assert len(lines) > 10
    requirements.write_text("\n".join(line.replace(" \\", " --hash=sha256:" + "0" * 64) for line in lines))

    with pytest.raises(BuildFailed, match=r"(?i)hash"):
        build_layer("arm64", source)


def test_an_unknown_processor_is_refused(build_layer: BuildLayer) -> None:
    with pytest.raises(BuildFailed, match="it is arm64 or x86_64"):
        build_layer("sparc")


def test_the_builds_of_a_checkout_with_a_blank_in_its_path_find_the_uv_that_was_brought_there(tmp_path: Path) -> None:
    checkout = tmp_path / "my projects"
    checkout.mkdir()
    shutil.copy(ROOT / "Makefile", checkout)

    command = ["make", "--dry-run", "--no-print-directory", "--old-file=setup-tests", "build", "UV=.tools/uv/bin/uv"]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=True, timeout=60)

    *_, built = done.stdout.splitlines()
    words = shlex.split(built)
    assert f"PATH={checkout}/.tools/uv/bin:$PATH" in words
    assert words[words.index("build") - 1].endswith("/sam")


def test_what_lambda_never_runs_is_left_out(arm64: Path) -> None:
    packages = arm64 / "python"

    assert (packages / "mcp_baton" / "aws.py").exists()
    assert not (packages / "mcp_baton" / "local").exists()
    assert {path.name for path in (packages / "botocore" / "data").iterdir() if path.is_dir()} >= {
        "dynamodb",
        "lambda",
        "s3",
    }
    assert not (packages / "botocore" / "data" / "ec2").exists()
    assert [path for path in packages.rglob("*") if path.name in {"tests", "moto", "bin"}] == []


def test_the_layer_stays_small(arm64: Path) -> None:
    megabytes = sum(path.stat().st_size for path in files(arm64, "*") if path.is_file()) / 1e6

    assert megabytes < EXPECTED_SIZE_MB


@needs_313
def test_every_module_is_compiled_for_its_place_on_lambda_and_taken_as_it_is(arm64: Path) -> None:
    compiled = files(arm64, "*.pyc")

    assert len(compiled) == len(files(arm64, "*.py"))
    for path in compiled:
        byte_code = path.read_bytes()
        assert struct.unpack_from("<I", byte_code, 4)[0] == UNCHECKED_HASH
        assert b"/opt/python/" in byte_code
        assert str(arm64).encode() not in byte_code


def test_the_wrapper_can_be_started_and_says_when_the_layer_is_for_another_processor(
    request: pytest.FixtureRequest,
) -> None:
    other: Path = request.getfixturevalue("arm64" if HERE == "x86_64" else "x86_64")

    done = subprocess.run(
        [other / "baton-runtime", sys.executable, "bootstrap.py"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 1
    assert "build with ARCHITECTURE" in done.stderr
