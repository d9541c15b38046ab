"""Which of tests, benchmarks, costs and emulators may import each other."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("package", "others"),
    [
        ("tests", "benchmarks"),
        ("benchmarks", "tests"),
        ("costs", "tests|benchmarks"),
        ("emulators", "tests|benchmarks|costs"),
    ],
)
def test_a_package_does_not_import_the_others(package: str, others: str) -> None:
    pattern = re.compile(rf"^\s*(?:from|import) (?:{others})\b", re.MULTILINE)
    sources = [
        path for path in (ROOT / package).rglob("*.py") if ".venv" not in path.parts and ".layers" not in path.parts
    ]

    assert sources
    assert [str(path.relative_to(ROOT)) for path in sources if pattern.search(path.read_text())] == []
