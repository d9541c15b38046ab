"""Signature Version 4 of a request to DynamoDB.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

import re
import time
from collections.abc import Mapping
from hashlib import sha256
from hmac import digest
from typing import Final, NamedTuple

from mcp_baton.dynamodb.requests import NotSent

CONTENT_TYPE: Final = "application/x-amz-json-1.0"
SERVICE: Final = "dynamodb"
KEY_ID, SECRET, TOKEN = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"
_PRINTED: Final = re.compile(r"[!-~]+")
_ALGORITHM: Final = "AWS4-HMAC-SHA256"


class Credentials(NamedTuple):
    """What a caller signs with; `token` is empty for a user's own keys, which have none."""

    key_id: str
    secret: str
    token: str


def credentials_in(environment: Mapping[str, str]) -> Credentials:
    """The credentials in the environment as it is now.

    Raises:
        NotSent: there are none, or they cannot be written into a request.
    """
    found = Credentials(environment.get(KEY_ID, ""), environment.get(SECRET, ""), environment.get(TOKEN, ""))
    for name, value in ((KEY_ID, found.key_id), (SECRET, found.secret), (TOKEN, found.token)):
        if not value and name != TOKEN:
            raise NotSent(f"there are no credentials: {name} is not set")
        if value and not _PRINTED.fullmatch(value):
            raise NotSent(f"{name} holds a space or another character that no credentials have")
    return found


class Signer:
    """Signs requests to one endpoint.

    Args:
        region: The region that the signature is valid in.
        host: The request's `Host`.
        path: The request's path, of unreserved characters and slashes.
    """

    def __init__(self, region: str, host: str, path: str) -> None:
        self._region = region
        self._host = host
        self._path = path
        # The last signing key and what it was made of: it is valid for a day.
        self._last: tuple[str, str, bytes] = ("", "", b"")

    def lines(self, target: str, body: bytes, credentials: Credentials, now_s: float) -> str:
        """The header lines that are signed, and the signature's, each with its end.

        Args:
            target: The value of `X-Amz-Target`.
            body: All of the request's body.
            credentials: The caller's.
            now_s: The time, epoch seconds.
        """
        at = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now_s))
        day = at[:8]
        token = credentials.token
        with_token = f"x-amz-security-token:{token}\n" if token else ""
        signed = f"content-type;host;x-amz-date;{'x-amz-security-token;' if token else ''}x-amz-target"
        headers = (
            f"content-type:{CONTENT_TYPE}\nhost:{self._host}\nx-amz-date:{at}\n{with_token}x-amz-target:{target}\n"
        )
        canonical = f"POST\n{self._path}\n\n{headers}\n{signed}\n{sha256(body).hexdigest()}"
        scope = f"{day}/{self._region}/{SERVICE}/aws4_request"
        to_sign = f"{_ALGORITHM}\n{at}\n{scope}\n{sha256(canonical.encode()).hexdigest()}"
        signature = digest(self._key(credentials.secret, day), to_sign.encode(), "sha256").hex()
        authorization = (
            f"authorization:{_ALGORITHM} Credential={credentials.key_id}/{scope}, "
            f"SignedHeaders={signed}, Signature={signature}\n"
        )
        return (headers + authorization).replace("\n", "\r\n")

    def _key(self, secret: str, day: str) -> bytes:
        last_secret, last_day, key = self._last
        if (last_secret, last_day) != (secret, day):
            key = f"AWS4{secret}".encode()
            for part in (day, self._region, SERVICE, "aws4_request"):
                key = digest(key, part.encode(), "sha256")
            # One assignment: another thread sees all of it or nothing.
            self._last = (secret, day, key)
        return key
