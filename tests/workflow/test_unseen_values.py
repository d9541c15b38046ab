"""Calls that a model must not make, as it cannot see their values (docs/reference/workflow-rules.md, Placeholders)."""

from datetime import timedelta

import pytest

from mcp_baton import Context, Server, ask_model, step, wait_for_callback
from mcp_baton.testing import connect


@pytest.fixture
def server() -> Server:
    server = Server("ci")

    @server.tool
    def begin(ctx: Context, branch: str) -> str:
        """Start a build."""
        ctx.callback_url("build")
        return "begun"

    @server.tool
    def deploy(image: str, options: dict[str, str] | None = None) -> str:
        return f"deployed {image}"

    @server.workflow
    def release(branch: str) -> None:
        step(begin)(branch=branch)
        build = wait_for_callback("build", dict, within=timedelta(hours=2))
        step(deploy)(image=build["image"])

    return server


def test_a_prompt_without_task_ids_asks_for_no_call_with_the_value_of_a_callback(server: Server) -> None:
    with connect(server) as client:
        run = client.get_prompt("release", {"branch": "main"})
        assert "deploy with" not in run.handoff
        assert "After the callback, the client gets the prompt release again" in run.handoff
        client.send_callback(run.task_id, "build", {"image": "shop:7"})
        assert client.get_prompt("release", {}, run.task_id).completed


PLACEHOLDERS = ("<field 'image' from build>", "<output from begin>", "<prompt arg branch>", "<missing: image>")


@pytest.mark.parametrize("placeholder", PLACEHOLDERS)
@pytest.mark.parametrize("names_task", [False, True])
@pytest.mark.parametrize("place", ["argument", "text", "nested"])
def test_a_placeholder_that_nothing_replaces_is_never_given_to_a_tool(
    server: Server, placeholder: str, place: str, *, names_task: bool
) -> None:
    with connect(server) as client:
        run = client.get_prompt("release", {"branch": "main"})
        image = {"argument": placeholder, "text": f"the image {placeholder}", "nested": "shop"}[place]
        options = {"options": {"of": placeholder}} if place == "nested" else {}
        argument = "options" if place == "nested" else "image"
        if place == "nested" and placeholder.startswith("<missing"):
            options = {"options": {"of": "<missing: options>"}}
        result = client.call_tool("deploy", {"image": image, **options}, run.task_id if names_task else None)
        if names_task and place == "argument" and placeholder in PLACEHOLDERS[1:3]:
            assert not result.is_error  # the task has this value
            return
        assert (result.is_error, client.calls("deploy")) == (True, [])
        assert result.text.startswith(f"Nothing was run. The argument '{argument}' is ")


def test_a_text_that_only_looks_like_a_placeholder_is_given_to_the_tool(server: Server) -> None:
    with connect(server) as client:
        assert not client.call_tool("deploy", {"image": "<output from nowhere>"}).is_error


@pytest.mark.parametrize("called_as", ["tool", "background", "resume"])
@pytest.mark.parametrize(
    ("kind", "name", "placeholder"),
    [
        ("argument", "branch", "<missing: branch>"),
        ("argument", "branch", "the branch <output from ask>"),
        ("answer", "text", "<missing: text>"),
        ("answer", "text", "<output from ask>"),
        ("answer", "text", "<prompt arg branch>"),
    ],
)
def test_a_placeholder_in_a_workflows_call_is_refused(kind: str, name: str, placeholder: str, called_as: str) -> None:
    server = Server("ci")

    @server.tool
    def ask(branch: str) -> str:
        return branch

    @server.workflow(background=called_as == "background")
    def release(branch: str) -> None:
        step(ask)(branch=branch)
        step(ask, name="again")(branch=ask_model("text", "Which?"))

    wrong = {name: placeholder} if kind == "argument" else {"answers": {name: placeholder}}
    with connect(server) as client:
        task = client.call_workflow("release", {"branch": "main"}).task_id if called_as == "resume" else None
        result = client.call_workflow("release", wrong if task else {"branch": "main", **wrong}, task)
        assert f"the {kind} '{name}' has " in result.text.lower()
        assert "give the value itself. Nothing was run" in result.text
        assert placeholder not in [call.get("branch") for call in client.calls("ask")]
        assert client.call_workflow("release", {"branch": "a < b > c", "answers": {"text": "<b>bold</b>"}}).completed
