"""Calls as `show`, `call` and `--continue` print them: words that a shell passes on as they are."""

import subprocess
from typing import Any

from mcp_baton.cli.remote.arguments import for_tool, given
from mcp_baton.cli.remote.printing import call_line, plain

VALUES: dict[str, Any] = {
    "sentence": "Your expense R-2 is booked.",
    "empty": "",
    "quotes": """He said "don't" twice""",
    "shell": "$HOME `id` \\ !! * ~ #; && rm -rf | > out $(id)",
    "placeholder": "<missing: text>",
    "file": "@/etc/passwd",
    "equals": "a=b:=c",
    "lines": "first\nsecond\tand more",
    "control": "red \x1b[31m \x7f \x9b",
    "directions": "abc \u202egnp.exe \u200b",
    "umlaut": "Größe 38",
    "number": 30,
    "text of a number": "30",
    "nothing": None,
    "truth": True,
    "list": ["a b", {"c": "it's"}],
    "lines in a list": ["a\nb"],
}


def test_a_line_that_is_pasted_into_bash_gives_the_call_again() -> None:
    line = plain(call_line({"tool": "book expense", "arguments": VALUES}))

    pasted = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, check=True, timeout=30)
    tool, *words = pasted.stdout.decode().split("\0")[:-1]

    assert "\n" not in line
    assert tool == "book expense"
    assert for_tool(given(words), {"type": "object"}) == VALUES


def test_a_resource_is_named_to_be_read() -> None:
    assert call_line({"resource": "docs://a"}) == "read docs://a"
