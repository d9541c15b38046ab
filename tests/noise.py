"""Texts that hardly compress."""

from base64 import urlsafe_b64encode
from random import Random


def noise(size: int, seed: int = 0) -> str:
    """Return an ASCII text of this length. Compressed, it still has at least three quarters of its size."""
    return urlsafe_b64encode(Random(seed).randbytes(size * 3 // 4 + 1)).decode()[:size]
