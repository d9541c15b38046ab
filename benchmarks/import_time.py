"""Reads the output of `-X importtime` and lists the slowest imports."""

import re
from collections.abc import Iterator

_LINE = re.compile(r"import time:\s+(\d+) \|\s+(\d+) \|(\s+)(\S+)")
_MAX_IMPORTS = 25
_MIN_IMPORT_US = 1_000


def heaviest_imports(log: str) -> Iterator[str]:
    """Yield lines of `cumulative ms, own ms, module`, the slowest first, for all imports of at least one
    millisecond.
    """
    imports = [(int(match[2]), int(match[1]), match[4]) for match in _LINE.finditer(log)]
    total = sum(own_us for _, own_us, _ in imports)
    yield f"{total / 1000:7.1f} ms in {len(imports)} imports"
    yield f"{'with its own':>12} {'alone':>8}  module"
    for cumulative_us, own_us, module in sorted(imports, reverse=True)[:_MAX_IMPORTS]:
        if cumulative_us >= _MIN_IMPORT_US:
            yield f"{cumulative_us / 1000:12.1f} {own_us / 1000:8.1f}  {module}"
