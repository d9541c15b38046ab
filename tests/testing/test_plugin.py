"""The pytest plugin, in a separate pytest process, with every code block of docs/testing.md."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()
STRICT = ("-W", "error", "--strict-config", "--strict-markers", "-p", "no:cacheprovider")
CLOSED = ("--disable-socket", "--allow-unix-socket")
LOADED = "import sys, mcp_baton.testing.plugin; print(*(name for name in sys.modules if name.startswith('mcp_baton')))"


def test_the_examples_of_the_page_run_in_parallel_without_a_network(tmp_path: Path) -> None:
    server, *tests = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(tests) == PAGE.count("```") // 2 - 1
    (tmp_path / "orders.py").write_text(server)
    (tmp_path / "test_orders.py").write_text("\n\n".join(tests))

    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", *STRICT, *CLOSED, "test_orders.py"]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)

    test_count = len(re.findall("^def test_", PAGE, re.MULTILINE))
    repetition_count = 1  # one of the tests runs in two eras
    assert f"{test_count + repetition_count} passed" in process.stdout, process.stdout + process.stderr


def test_the_plugin_loads_little_if_its_fixture_is_not_used() -> None:
    process = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True, timeout=60)

    modules = ["mcp_baton", "mcp_baton.testing", "mcp_baton.testing.fixture_type", "mcp_baton.testing.plugin"]
    assert process.stdout.split() == modules
