"""docs/example.md shows the code of examples/incident as it is."""

import re

from tests.site.blocks import ROOT, blocks

SOURCE = re.compile(r"examples/incident/\w+\.py")


def test_the_code_of_the_page_is_that_of_the_example() -> None:
    shown = [block for block in blocks(ROOT / "docs" / "example.md") if block.language == "python"]

    assert len(shown) == 3
    for block in shown:
        [source] = SOURCE.findall(block.not_run or "")
        assert block.code in (ROOT / source).read_text(), block.place
