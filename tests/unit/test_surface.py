"""What `mcp_baton` exports. Adding or removing a name is done here, too (docs/tools.md, What can be imported)."""

import importlib
import re
from pathlib import Path

import mcp_baton

EXPORTED = {
    "exceptions": {"BatonError", "ProtocolError", "RegistrationError", "ToolError", "WorkflowError"},
    "server.asking.asker": {"Question"},
    "server.asking.questions": {
        *{"Elicited", "Root", "Roots", "Sampled"},
        *{"elicitation", "roots", "sampling", "url_elicitation"},
    },
    "server.content": {
        *{"Audio", "EmbeddedResource", "Image", "Message", "ResourceLink", "Text", "ToolResult"},
        *{"Contents", "ResourceContent"},
    },
    "server.context": {"Context"},
    "server.published.param_headers": {"Header"},
    "server.schema.dependency": {"Depends"},
    "server.server": {"Server"},
    "settings": {"Settings"},
    "tasks.store": {"TaskStore"},
    "workflow.definition": {"Argument", "Step", "Workflow"},
    "workflow.retry": {"Retry"},
    "workflow.sources": {"constant", "prompt_arg", "step_output", "task_variable"},
}
NAMES = {name for names in EXPORTED.values() for name in names}
TOOLS = Path(__file__).parents[2] / "docs" / "tools.md"


def test_these_names_are_exported_and_no_others() -> None:
    assert set(mcp_baton.__all__) == NAMES
    assert len(mcp_baton.__all__) == len(NAMES)
    assert {name for name in dir(mcp_baton) if name in NAMES} == NAMES


def test_each_is_what_its_module_has() -> None:
    for module, names in EXPORTED.items():
        home = importlib.import_module(f"mcp_baton.{module}")
        for name in names:
            assert getattr(mcp_baton, name) is getattr(home, name)
            assert getattr(home, name).__module__ == home.__name__


def test_each_is_documented() -> None:
    section = TOOLS.read_text().partition("## What can be imported\n")[2].partition("\n## ")[0]

    table = "".join(line for line in section.splitlines() if line.startswith("|"))
    assert set(re.findall(r"`(\w+)`", table)) == NAMES
