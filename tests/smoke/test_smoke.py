"""`make smoke` without AWS: for `baton serve`, and for a gateway in front of it that is correct or has one fault."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from emulators.answering import Answer, Request, answering
from tests.serving import served

ROOT = Path(__file__).parents[2]
BATON = ROOT / ".venv" / "bin" / "baton"
WITHIN_S = 120
KEY, TOKEN = "the-key", "head.payload.signature"
ELSEWHERE = "0.0.0.0"  # noqa: S104 - on Linux only, for the time of a test
"""An address that reaches this machine and does not count as loopback."""

type Accepts = Callable[[Mapping[str, str]], bool]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The library of functions/mcp. Its streams are short, so a gateway that holds them back delays the tests only
    briefly.
    """
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("BATON_LISTEN_MS", "3000")
        command: list[str | Path] = [BATON, "serve", ROOT / "functions" / "mcp" / "app.py", "--port", "0"]
        with served(command, tmp_path_factory.mktemp("smoke") / "log") as url:
            yield url


def smoke(*arguments: str) -> tuple[int, dict[str, list[str]], str]:
    """Run the checks. Return the exit code, the outcomes and texts by check, and the output."""
    # Without uv, whose start takes longer than the checks.
    command = ["make", "--no-print-directory", "smoke", "UV=true", "RUN=", *arguments]
    # Without the variables of the `make` that runs these tests, such as ARGS.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "ARGS"))}
    environment["PATH"] = f"{BATON.parent}:{environment['PATH']}"
    process = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=WITHIN_S
    )
    reports: dict[str, list[str]] = {}
    for outcome, name, text in re.findall(r"^(held|failed|not checked) +(\w+): (.*)$", process.stdout, re.MULTILINE):
        reports.setdefault(name, []).append(f"{outcome}: {text}")
    return process.returncode, reports, process.stdout + process.stderr


def outcomes(reports: Mapping[str, list[str]], name: str) -> list[str]:
    return [text.partition(":")[0] for text in reports[name]]


def unfinished_tasks(url: str) -> list[str]:
    """Return the ids of the tasks that are not cancelled."""
    command: list[str | Path] = [BATON, "tasks", url, "--json"]
    process = subprocess.run(command, capture_output=True, text=True, check=True, timeout=WITHIN_S)
    return [task["taskId"] for task in json.loads(process.stdout)["tasks"] if task["status"] != "cancelled"]


def test_a_local_server_passes_and_aws_is_not_checked(url: str) -> None:
    code, reports, output = smoke(f"URL={url}")

    assert code == 0, output
    assert {name: outcomes(reports, name) for name in reports} == {
        "endpoint": ["held"],
        "sign_in": ["not checked"],
        "authorizer": ["not checked"],
        "tasks": ["held", "held"],
        "streaming": ["held"],
        **{name: ["not checked"] for name in ("DynamoDB", "encryption", "throttles", "index", "sweeps")},
        "end": ["held"],
    }
    assert all(" no stack" in reports[name][0] for name in ("DynamoDB", "sweeps"))
    assert output.rstrip().endswith("5 held, 7 not checked, 0 failed")
    assert unfinished_tasks(url) == []


def test_an_unreachable_server_or_a_missing_workflow_fails(url: str) -> None:
    code, reports, _ = smoke("URL=http://127.0.0.1:1/mcp")
    assert code != 0
    assert list(reports) == ["endpoint", "sign_in"]

    code, reports, _ = smoke(f"URL={url}", "ARGS=--workflow no_such_workflow")
    assert code != 0
    assert outcomes(reports, "tasks") == ["failed"]
    assert outcomes(reports, "streaming") == ["not checked"]


@contextmanager
def gateway(url: str, accepts: Accepts, *, streams: bool = True) -> Iterator[str]:
    """Run a gateway to a server. `accepts` decides about callers; without `streams`, it sends responses whole."""

    def answer(request: Request) -> Answer:
        if request.method != "POST":
            return Answer(501)
        if not accepts(request.headers):
            return Answer(403)
        excluded = ("host", "content-length", "connection")
        headers = {name: value for name, value in request.headers.items() if name not in excluded}
        response = client.send(client.build_request("POST", url, content=request.body, headers=headers), stream=True)
        headers = {"Content-Type": response.headers["content-type"]}
        if streams:
            return Answer(response.status_code, headers, pieces=response.iter_bytes())
        return Answer(response.status_code, headers, response.read())

    with httpx.Client(timeout=WITHIN_S) as client, answering(answer, host=ELSEWHERE) as address:
        yield f"{address}/mcp"


only_on_linux = pytest.mark.skipif(sys.platform != "linux", reason="not every system connects to 0.0.0.0")


@only_on_linux
@pytest.mark.parametrize(
    ("option", "accepts", "streams", "expected_failures"),
    [
        (f"KEY={KEY}", lambda headers: headers.get("x-api-key") == KEY, True, {}),
        (f"KEY={KEY}", lambda _: True, True, {"authorizer": ["failed", "failed"]}),
        (f"KEY={KEY}", lambda headers: "x-api-key" in headers, True, {"authorizer": ["held", "failed"]}),
        (f"KEY={KEY}", lambda headers: headers.get("x-api-key") == KEY, False, {"streaming": ["failed"]}),
        (
            f"KEY={KEY}",
            lambda headers: headers.get("x-api-key") == KEY and headers.get("mcp-method") != "subscriptions/listen",
            True,
            {"streaming": ["failed"]},
        ),
        (
            f"TOKEN={TOKEN}",
            lambda headers: headers.get("authorization", "").startswith("Bearer head.payload."),
            True,
            {"authorizer": ["held", "held", "failed"]},
        ),
    ],
)
def test_a_faulty_gateway_fails_the_check_of_its_fault(
    url: str, option: str, accepts: Accepts, streams: bool, expected_failures: Mapping[str, list[str]]
) -> None:
    with gateway(url, accepts, streams=streams) as gateway_url:
        code, reports, output = smoke(f"URL={gateway_url}", option, "ARGS=--insecure-http")

    healthy = {"authorizer": ["held", "held"], "tasks": ["held", "held"], "streaming": ["held"], "end": ["held"]}
    assert {name: outcomes(reports, name) for name in healthy} == {**healthy, **expected_failures}, output
    assert (code == 0) is (not expected_failures)
    assert unfinished_tasks(url) == []
    assert KEY not in output
    assert TOKEN not in output
