"""When Baton asks DynamoDB by itself, and where (docs/storage.md, How DynamoDB is asked).

botocore takes its configuration from some forty variables, from files and from metadata services. Baton knows what few
of them say, and leaves it to botocore wherever there is anything else.
"""

import os
import re
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final

from mcp_baton.dynamodb.connections import PORTS, Endpoint
from mcp_baton.dynamodb.direct import KEY_ID, SECRET, TOKEN, credentials_in
from mcp_baton.dynamodb.requests import NotSent

REGION: Final = "AWS_DEFAULT_REGION"
ENDPOINTS: Final = ("AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL")
"""The first that is not empty counts."""

KNOWN: Final = frozenset(
    {
        *(KEY_ID, SECRET, TOKEN, REGION, *ENDPOINTS),
        # botocore does not read these, or not for DynamoDB as Baton asks it.
        *("AWS_REGION", "AWS_EXECUTION_ENV", "AWS_SAM_LOCAL", "AWS_EC2_METADATA_DISABLED", "AWS_PAGER"),
    }
)
KNOWN_BEGINNINGS: Final = ("AWS_LAMBDA_", "AWS_XRAY_", "AWS_ENDPOINT_URL_")
"""Lambda's own, X-Ray's, and other services' endpoints."""

OTHERS: Final = frozenset({"REQUESTS_CA_BUNDLE", "SSLKEYLOGFILE"})
"""What botocore reads beside the variables that begin with `AWS_` or `BOTO`, and those that end with `_PROXY`."""

WATCHERS: Final = ("moto", "opentelemetry.instrumentation.botocore", "aws_xray_sdk.ext.botocore")
"""Modules that answer botocore's requests or report them. Where one is loaded, they are to see Baton's, too."""

# The regions of the partition `aws`: those of others have more parts, or begin otherwise.
_REGION = re.compile(r"(us|eu|ap|sa|ca|me|af|il|mx)-[a-z]+-[0-9]{1,2}")
_NAME = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_URL = re.compile(
    rf"(?P<scheme>https?)://(?P<host>{_NAME}(\.{_NAME})*)(:(?P<port>[0-9]{{1,5}}))?(?P<path>(/[A-Za-z0-9_~-]+)*/?)"
)


def endpoint_in(environment: Mapping[str, str]) -> Endpoint | None:
    """The DynamoDB that botocore would ask in this environment, in the same way; `None` where that is not sure."""
    if sys.platform != "linux" or not all(map(_is_known, environment)):
        return None
    region = environment.get(REGION, "")
    if not _REGION.fullmatch(region) or not _has_credentials(environment) or _watched():
        return None
    # `config`, `credentials` and `models` of botocore's are all in there.
    if os.path.lexists(os.path.expanduser("~/.aws")):  # noqa: PTH111 - as botocore finds it
        return None
    url = next(filter(None, map(environment.get, ENDPOINTS)), f"https://dynamodb.{region}.amazonaws.com")
    found = _URL.fullmatch(url)
    if found is None or not 0 < (port := int(found["port"] or PORTS[found["scheme"]])) < 65_536:
        return None
    certificates = certificate_authorities() if found["scheme"] == "https" else None
    if found["scheme"] == "https" and certificates is None:
        return None
    return Endpoint(region, found["host"].lower(), port, found["path"] or "/", certificates)


def certificate_authorities() -> str | None:
    """The file of those whom botocore trusts: certifi's where that is installed, and otherwise its own."""
    for package in ("certifi", "botocore"):
        spec = find_spec(package)
        if spec is not None and spec.origin is not None:
            file = f"{spec.origin.rpartition('/')[0]}/cacert.pem"
            return file if os.access(file, os.R_OK) else None
    return None


def _is_known(name: str) -> bool:
    if name.startswith("AWS_"):
        return name in KNOWN or name.startswith(KNOWN_BEGINNINGS)
    return not (name.startswith("BOTO") or name in OTHERS or name.lower().endswith("_proxy"))


def _has_credentials(environment: Mapping[str, str]) -> bool:
    try:
        credentials_in(environment)
    except NotSent:
        return False
    return True


def _watched() -> bool:
    return any(name in sys.modules for name in WATCHERS)
