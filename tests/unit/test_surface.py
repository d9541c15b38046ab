"""What `mcp_baton` exports. Adding or removing a name is done here, too (docs/tools.md, What can be imported)."""

import re
from pathlib import Path

import mcp_baton

NAMES = {
    *{"Argument", "Audio", "BatonError", "Contents", "Context", "Depends", "Elicited", "EmbeddedResource", "Header"},
    *{"Image", "Message", "ProtocolError", "Question", "RegistrationError", "ResourceContent", "ResourceLink", "Retry"},
    *{"Root", "Roots", "Sampled", "Server", "Settings", "Step", "TaskStore", "Text", "ToolError", "ToolResult"},
    *{"Workflow", "WorkflowError"},
    *{
        "constant",
        "elicitation",
        "fetch",
        "prompt_arg",
        "roots",
        "sampling",
        "step",
        "step_output",
        "task_variable",
        "url_elicitation",
    },
}
TOOLS = Path(__file__).parents[2] / "docs" / "tools.md"


def test_these_names_are_exported_and_no_others() -> None:
    assert set(mcp_baton.__all__) == NAMES
    assert len(mcp_baton.__all__) == len(NAMES)
    assert {name for name in dir(mcp_baton) if name in NAMES} == NAMES


def test_each_is_documented() -> None:
    section = TOOLS.read_text().partition("## What can be imported\n")[2].partition("\n## ")[0]

    table = "".join(line for line in section.splitlines() if line.startswith("|"))
    assert set(re.findall(r"`(\w+)`", table)) == NAMES
