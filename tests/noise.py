"""Texts that hardly compress, and deep values."""

from base64 import urlsafe_b64encode
from random import Random
from typing import Any


def noise(size: int, seed: int = 0) -> str:
    """Return an ASCII text of this length. Compressed, it still has at least three quarters of its size."""
    return urlsafe_b64encode(Random(seed).randbytes(size * 3 // 4 + 1)).decode()[:size]


def nest(levels: int, innermost: Any = None) -> Any:
    """Return a value with this many levels of lists and objects."""
    value = innermost
    for level in range(levels):
        value = [value] if level % 2 else {"": value}
    return value
