"""Who calls: what a request needs beside its message to get to an API as somebody."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import httpx2
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.deployed.machine import REGION


class Caller(Protocol):
    """Makes a request one of its own, as httpx's `auth` does."""

    def __call__(self, request: httpx2.Request) -> httpx2.Request:
        """The request, told who sends it."""


@dataclass(frozen=True, slots=True)
class HeaderCaller:
    """A caller who says who they are in headers, or says nothing.

    Attributes:
        headers: What they say. With `Host`, by which the twin finds the API, where the address does not say it.
    """

    headers: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, request: httpx2.Request) -> httpx2.Request:
        request.headers.update(self.headers)
        return request


@dataclass(frozen=True, slots=True)
class SigningCaller:
    """A caller with an AWS identity, who signs each request with Signature Version 4.

    Attributes:
        host: The API's host name.
        key: The identity's access key.
        secret: Its secret.
    """

    host: str
    key: str
    secret: str = field(repr=False)

    def __call__(self, request: httpx2.Request) -> httpx2.Request:
        url = str(request.url.copy_with(netloc=self.host.encode()))
        signed = AWSRequest(request.method, url, headers={"Host": self.host}, data=request.content)
        SigV4Auth(Credentials(self.key, self.secret), "execute-api", REGION).add_auth(signed)
        request.headers.update(dict(signed.headers.items()))
        return request
