"""What `mcp_baton` exports. Adding or removing a name is done here, too.

`tests/site/test_site.py` checks that docs/reference/index.md lists the same names.
"""

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


def test_these_names_are_exported_and_no_others() -> None:
    assert set(mcp_baton.__all__) == NAMES
    assert len(mcp_baton.__all__) == len(NAMES)
    assert {name for name in dir(mcp_baton) if name in NAMES} == NAMES
