"""CONTRIBUTING.md names files that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "layers" / "baton" / "mcp_baton"


def test_contributing_names_existing_files_of_the_package() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text().partition("## Where to find it")[2].partition("\n\n[")[0]
    answers = re.findall(r"^\| (?:Where|Which|What) .+\? \| (.+) \|$", table, re.MULTILINE)
    file_names = [name for answer in answers for name in re.findall(r"`([^`]+)`", answer)]

    assert len(answers) == 16
    assert len(file_names) >= len(answers)
    assert [name for name in file_names if not (PACKAGE / name).is_file()] == []
