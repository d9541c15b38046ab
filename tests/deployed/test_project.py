"""A project that `baton new` creates from the wheel alone, built with `sam build` and deployed with `sam deploy`."""

import os

import pytest

from tests.deployed.conversation import Era, Session, ask, in_session
from tests.deployed.deployment import Emulator, Stack, run, sam
from tests.deployed.machine import REGION, ROOT, architecture
from tests.starter import needs_the_starter

PATH = os.pathsep.join([str(ROOT / ".tools" / "uv" / "bin"), os.environ["PATH"]])


@pytest.fixture(scope="module")
def bookshop(tmp_path_factory: pytest.TempPathFactory, emulator: Emulator) -> Stack:
    """The stack of a new project, created with the command from a wheel of this checkout."""
    folder = tmp_path_factory.mktemp("project")
    project = folder / "bookshop"
    run(["uv", "build", "--quiet", "--wheel", "--out-dir", folder], variables={"PATH": PATH})
    [wheel] = folder.glob("*.whl")
    baton = ("uv", "tool", "run", "--python", "3.13", "--from", str(wheel), "baton")
    run([*baton, "new", project, "--region", REGION, "--wheel", wheel], variables={"PATH": PATH})
    sam(["build"], project, PATH=PATH)
    options = ["--no-confirm-changeset", "--no-progressbar", "--parameter-overrides"]
    sam(["deploy", *options, f"Architecture={architecture()}"], project, AWS_ENDPOINT_URL=emulator.url)
    return emulator.stack("bookshop")


@needs_the_starter
@pytest.mark.parametrize("era", ["2025", "2026"])
def test_the_workflow_of_a_deployed_new_project_pauses_resumes_and_completes(bookshop: Stack, era: Era) -> None:
    async def borrow_book(session: Session) -> tuple[list[str], str]:
        handoff, meta = await session.prompt("borrow", {"title": "Walden"})
        task_id = meta["task_id"]
        answer = f'{{"task_id": "{task_id}", "answers": {{"reader": "<Who borrows Walden?>"}}}}'
        assert f"Call borrow with {answer} to let the server continue." in handoff
        result, _ = await session.call("borrow", {"task_id": task_id, "answers": {"reader": "Kim"}})
        assert result["results"]["lend_book"] == {"shelf": "PS-3048", "reader": "Kim", "weeks": 2}
        _, meta = await session.call("borrow", {"task_id": task_id})
        return [step["status"] for step in meta["steps"]], meta["task_status"]

    # The emulator does not stream, so a 2025 client would get a question only when the server no longer waits for it.
    assert in_session(bookshop, borrow_book, era, answer=None) == (["completed"] * 3, "completed")


def test_a_new_project_rejects_calls_without_its_key(bookshop: Stack) -> None:
    assert ask(bookshop.endpoint, bookshop.caller()).status == 403


def test_a_new_project_uses_the_streaming_runtime_of_its_layer(bookshop: Stack) -> None:
    assert bookshop.invoke((ROOT / "events" / "tools-list.json").read_text())["statusCode"] == 200
