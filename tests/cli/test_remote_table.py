"""The commands that operators run directly on the table (docs/commands.md, Where: URLs and files)."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from mcp_baton.aws import dynamodb_store
from mcp_baton.cli.app import main
from mcp_baton.local.dynamodb import create_table, embedded_client, embedded_engine
from mcp_baton.local.http_server import LOOPBACK, LocalServer, dynamodb_app
from mcp_baton.protocol.json import Json
from mcp_baton.settings import Settings
from mcp_baton.tasks.record import PROGRESS, NewTask, StepStatus
from mcp_baton.tasks.store import Batch, StepWrite, TaskStore, Timing

TABLE, OWNER = "tasks", "alice"
UNREACHABLE = "http://127.0.0.1:9"
PAUSE: dict[str, Json] = {"type": "toolError", "failedStep": "refund", "error": "no", "retryable": False}


@pytest.fixture(scope="module")
def database() -> Iterator[tuple[TaskStore, str]]:
    """A store over a DynamoDB, and the URL of the DynamoDB."""
    engine = embedded_engine()
    client = embedded_client(engine)
    create_table(client, TABLE)
    server = LocalServer(LOOPBACK, 0, dynamodb_app(engine)).start()
    yield dynamodb_store(TABLE, Settings(), connect=lambda: client), f"http://{server.address}"
    server.close()
    client.close()


@pytest.fixture
def task(database: tuple[TaskStore, str]) -> str:
    """A paused task with one completed step."""
    store = database[0]
    steps: list[Json] = [{"name": name, "tool": name, "status": "pending"} for name in ("fetch", "refund")]
    progress: Json = {"goal": "flow: work", "steps": steps, "schemaVersion": 1}
    new_task = store.create(NewTask(OWNER, {PROGRESS: progress, "note": "x" * 40}, workflow="flow"))
    write = StepWrite(
        0, "fetch", StepStatus.PENDING, StepStatus.COMPLETED, {"total": 1.5}, timing=Timing(store.now_ms(), 7)
    )
    store.write(new_task, Batch(steps=(write,), pauses=(PAUSE,)))
    return new_task.task_id


@pytest.fixture
def baton(
    database: tuple[TaskStore, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, Any]]:
    """Runs a command against the table. Returns the exit code and the JSON output."""

    def run(*words: str, owner: str = OWNER) -> tuple[int, Any]:
        code = main([*words, "--table", TABLE, "--owner", owner, "--dynamodb", database[1], "--json"])
        return code, json.loads(capsys.readouterr().out)

    return run


def test_a_task_is_shown_from_its_item(baton: Callable[..., tuple[int, Any]], task: str) -> None:
    code, output = baton("show", task)
    assert (code, output["workflow"], output["status"], output["pause"]) == (0, "flow", "working", PAUSE)
    fetch, refund = output["steps"]
    assert (fetch["status"], fetch["ms"], fetch["bytes"]) == ("completed", 7, len('{"total":1.5}'))
    assert refund == {"name": "refund", "tool": "refund", "status": "pending"}


def test_an_owners_tasks_are_listed_and_found_by_prefix(baton: Callable[..., tuple[int, Any]], task: str) -> None:
    code, output = baton("tasks")
    [record] = [entry for entry in output["tasks"] if entry["taskId"] == task]
    assert (code, record["_meta"]["step"]) == (0, "refund")
    assert baton("show", task[:30])[1]["taskId"] == task
    assert baton("tasks", owner="bob") == (0, {"tasks": []})
    assert baton("show", task, owner="bob")[0] == 2


@pytest.mark.parametrize(
    ("words", "status"), [(("cancel",), "cancelled"), (("complete", "--result", '{"by": "hand"}'), "completed")]
)
def test_a_task_ends_once(
    baton: Callable[..., tuple[int, Any]], task: str, words: tuple[str, ...], status: str
) -> None:
    code, output = baton(words[0], task, *words[1:])
    assert (code, output["status"]) == (0, status)
    assert output.get("result") == ({"by": "hand"} if status == "completed" else None)
    assert output.get("resultBy") == ("client" if status == "completed" else None)
    code, output = baton(words[0], task, *words[1:])
    assert (code, output) == (1, {"error": {"message": f"the task {task} is {status} and cannot be changed"}})


@pytest.mark.parametrize("command", ["tasks", "show T", "cancel T", "complete T --result {}"])
@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("--owner kim", "--owner and --dynamodb are for --table"),
        ("--dynamodb http://127.0.0.1:1", "--owner and --dynamodb are for --table"),
        (f"--table {TABLE} --owner kim --token x", "--table uses AWS credentials"),
    ],
)
def test_no_option_is_ignored(capsys: pytest.CaptureFixture[str], command: str, options: str, problem: str) -> None:
    name, *arguments = command.split()
    where = [] if "--table" in options else ["http://127.0.0.1:1/mcp"]
    assert main([name, *where, *arguments, *options.split()]) == 2
    assert problem in capsys.readouterr().err


def test_a_table_needs_an_owner_and_an_available_dynamodb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "--table", TABLE]) == 2
    assert "--table needs --owner" in capsys.readouterr().err
    assert main(["tasks"]) == 2
    assert "name either WHERE or --table" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "region", "text"),
    [
        ("AWS_REGION", "mars-1", "'mars-1' is not the name of an AWS region. Set AWS_REGION"),
        ("AWS_DEFAULT_REGION", "mars-1", "'mars-1' is not the name of an AWS region. Set AWS_REGION"),
        ("AWS_REGION", "eu-central-1", "DynamoDB in the region eu-central-1 cannot be reached: "),
        ("", "", "DynamoDB cannot be reached: You must specify a region. Set AWS_REGION"),
        ("AWS_PROFILE", "gone", "DynamoDB cannot be reached: The config profile (gone) could not be found\n"),
    ],
)
def test_a_wrong_region_is_named_after_one_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, region: str, text: str
) -> None:
    for variable in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    # No request leaves this machine: nobody listens here.
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", UNREACHABLE)
    if name:
        monkeypatch.setenv(name, region)
    requests: list[str] = []

    def send(_: Any, request: Any) -> Any:
        requests.append(request.url)
        raise EndpointConnectionError(endpoint_url=request.url)

    monkeypatch.setattr("botocore.httpsession.URLLib3Session.send", send)

    code = main(["tasks", "--table", TABLE, "--owner", OWNER])

    error = capsys.readouterr().err
    assert (code, text in error) == (4 if "reached" in text else 2, True), error
    assert ("region of the deployment" in error) is (name != "AWS_PROFILE")
    assert len(requests) == ("eu-" in region)
