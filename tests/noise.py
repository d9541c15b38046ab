"""Texts that are as large as they look, zipped too."""

from base64 import urlsafe_b64encode
from random import Random


def noise(size: int, seed: int = 0) -> str:
    """Text of so many characters, all ASCII, that compresses to three quarters at best."""
    return urlsafe_b64encode(Random(seed).randbytes(size * 3 // 4 + 1)).decode()[:size]
