"""Requests signed with AWS credentials, for endpoints behind IAM.

Signature Version 4 as botocore makes it (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv.html).
"""

import re
from collections.abc import Generator
from typing import TYPE_CHECKING, Final

import httpx

from mcp_baton.cli.remote.ending import Denied
from mcp_baton.cli.remote.profiles import Access, ProfileError

if TYPE_CHECKING:
    from botocore.credentials import Credentials

AWS_HOST: Final = (
    r".+\.(?P<service>execute-api|lambda-url)\.(?P<region>[a-z0-9-]+)\.(?:amazonaws\.com(?:\.cn)?|on\.aws)"
)


class SigV4(httpx.Auth):
    """Signs each request.

    Args:
        credentials: Whose. They are frozen for each request, so that those that expire are renewed.
        service: The service's name, `execute-api` for API Gateway.
        region: The region.
    """

    requires_request_body = True

    def __init__(self, credentials: "Credentials", service: str, region: str) -> None:
        self._credentials = credentials
        self._service = service
        self._region = region

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add the signature's headers."""
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest

        # What stands between may add or change other headers.
        signed = {name: request.headers[name] for name in ("host", "content-type") if name in request.headers}
        aws = AWSRequest(request.method, str(request.url), headers=signed, data=request.content)
        SigV4Auth(self._credentials.get_frozen_credentials(), self._service, self._region).add_auth(aws)
        request.headers.update(dict(aws.headers.items()))
        yield request


def signer(access: Access) -> SigV4:
    """What signs requests to a server.

    Raises:
        ProfileError: there is no such AWS profile, or the region is not known.
        Denied: there are no credentials.
    """
    import botocore.session
    from botocore.exceptions import BotoCoreError

    try:
        session = botocore.session.Session(profile=access.aws_profile)
        in_host = re.fullmatch(AWS_HOST, httpx.URL(access.url).host)
        region = access.region or (in_host["region"] if in_host else session.get_config_variable("region"))
        credentials = session.get_credentials()
    except BotoCoreError as error:
        raise ProfileError(f"AWS's configuration cannot be used: {error}") from error
    if credentials is None:
        raise Denied("there are no AWS credentials to sign requests with: log in, or set AWS_PROFILE")
    if not region:
        raise ProfileError("the region to sign requests for is not known: set `region` in the profile, or AWS_REGION")
    by_host = "lambda" if in_host and in_host["service"] == "lambda-url" else "execute-api"
    return SigV4(credentials, access.service or by_host, region)
