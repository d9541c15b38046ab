"""The AWS region of commands (docs/commands.md, Where: URLs and files)."""

import os
import re
from typing import Final

from mcp_baton.exceptions import BatonError

REGION_PATTERN: Final = r"[a-z]{2}(-[a-z]+)+-[0-9]"
"""What the names of all AWS regions match."""

SET_REGION: Final = "Set AWS_REGION to the region of the deployment, such as eu-central-1."


def environment_region() -> str | None:
    """Return `AWS_REGION`, which Lambda and the SDKs of other languages read; boto3 does not. If it is not set, boto3
    finds the region by `AWS_DEFAULT_REGION` or the profile."""
    return os.environ.get("AWS_REGION") or None


def check_region(region: str, remedy: str = SET_REGION) -> None:
    """Raise `BatonError` if this cannot be a region: botocore would look for its hosts, for seconds."""
    if not re.fullmatch(REGION_PATTERN, region):
        raise BatonError(f"{region!r} is not the name of an AWS region. {remedy}")
