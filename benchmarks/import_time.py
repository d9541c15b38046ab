"""Reads the output of `-X importtime` and lists the slowest imports."""

import re
from collections.abc import Iterator

_LINE = re.compile(r"import time:\s+(\d+) \|\s+(\d+) \|(\s+)(\S+)")
_SHOWN = 25
_WORTH_SHOWING_US = 1_000


def heaviest_imports(log: str) -> Iterator[str]:
    """Yield lines of `cumulative ms, own ms, module`, the slowest first, for all imports of at least one
    millisecond.
    """
    found = [(int(match[2]), int(match[1]), match[4]) for match in _LINE.finditer(log)]
    total = sum(own for _, own, _ in found)
    yield f"{total / 1000:7.1f} ms in {len(found)} imports"
    yield f"{'with its own':>12} {'alone':>8}  module"
    for cumulative, own, module in sorted(found, reverse=True)[:_SHOWN]:
        if cumulative >= _WORTH_SHOWING_US:
            yield f"{cumulative / 1000:12.1f} {own / 1000:8.1f}  {module}"
