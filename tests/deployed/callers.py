"""Who calls: what a request needs beside its message to get to an API as somebody."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import httpx2
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.deployed.machine import REGION

type Caller = Callable[[httpx2.Request], httpx2.Request]
"""Makes a request one of its own, as httpx's `auth` does."""


@dataclass(frozen=True, slots=True)
class HeaderCaller:
    """A caller who says who they are in headers, or says nothing. `Host` says which API it is, for the twin."""

    headers: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, request: httpx2.Request) -> httpx2.Request:
        request.headers.update(self.headers)
        return request


def signing_caller(host: str, key: str, secret: str) -> Caller:
    """A caller with an AWS identity, who signs each request to this host with Signature Version 4."""

    def sign(request: httpx2.Request) -> httpx2.Request:
        # For the host that the request names: not for the twin's address.
        url = str(request.url.copy_with(netloc=host.encode()))
        signed = AWSRequest(request.method, url, headers={"Host": host}, data=request.content)
        SigV4Auth(Credentials(key, secret), "execute-api", REGION).add_auth(signed)
        request.headers.update(dict(signed.headers.items()))
        return request

    return sign
