"""Signatures, against botocore's to the byte."""

from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotocoreCredentials
from hypothesis import given
from hypothesis import strategies as st

from mcp_baton.dynamodb.direct import Credentials, Signer, credentials_in
from mcp_baton.dynamodb.requests import NotSent

PRINTED = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=60)
CREDENTIALS = st.builds(Credentials, PRINTED, PRINTED, st.just("") | PRINTED)
KEYS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret"}


def by_botocore(
    url: str, region: str, target: str, body: bytes, credentials: Credentials, now_s: int
) -> dict[str, Any]:
    """The headers that botocore sends, by their names in lower case."""
    headers = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": target}
    request = AWSRequest("POST", url, headers=headers, data=body)
    signer = SigV4Auth(
        BotocoreCredentials(credentials.key_id, credentials.secret, credentials.token or None), "dynamodb", region
    )
    with patch("botocore.auth.get_current_datetime", return_value=datetime.fromtimestamp(now_s, UTC)):
        signer.add_auth(request)
    return {name.lower(): value for name, value in request.headers.items()}


@given(
    region=st.sampled_from(["eu-west-1", "us-east-1", "ap-southeast-5"]),
    host=st.sampled_from(["dynamodb.eu-west-1.amazonaws.com", "localhost:8000", "127.0.0.1:4566"]),
    path=st.sampled_from(["/", "/a-b/c_d~", "/db/"]),
    target=st.sampled_from(["DynamoDB_20120810.PutItem", "DynamoDB_20120810.Query"]),
    body=st.binary(max_size=200),
    credentials=CREDENTIALS,
    now_s=st.integers(0, 4_000_000_000),
)
def test_a_signature_is_botocores(
    region: str, host: str, path: str, target: str, body: bytes, credentials: Credentials, now_s: int
) -> None:
    scheme = "http" if ":" in host else "https"
    expected = by_botocore(f"{scheme}://{host}{path}", region, target, body, credentials, now_s)

    lines = Signer(region, host, path).lines(target, body, credentials, now_s + 0.9)

    *sent, end = lines.split("\r\n")
    headers = dict(line.split(":", 1) for line in sent)
    assert end == ""
    assert headers.pop("host") == host
    assert headers == expected


@given(st.lists(st.tuples(CREDENTIALS, st.sampled_from([0, 1, 86_400, 1_800_000_000])), min_size=2, max_size=6))
def test_a_signer_signs_with_the_key_of_the_day_and_of_the_caller(requests: list[tuple[Credentials, int]]) -> None:
    kept = Signer("eu-west-1", "h", "/")

    for credentials, now_s in requests:
        new = Signer("eu-west-1", "h", "/")
        assert kept.lines("t", b"", credentials, now_s) == new.lines("t", b"", credentials, now_s)


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({}, "AWS_ACCESS_KEY_ID is not set"),
        ({**KEYS, "AWS_SECRET_ACCESS_KEY": ""}, "AWS_SECRET_ACCESS_KEY is not set"),
        ({**KEYS, "AWS_SESSION_TOKEN": "a\r\nx-amz-target:b"}, "AWS_SESSION_TOKEN holds"),
        ({**KEYS, "AWS_ACCESS_KEY_ID": "a b"}, "AWS_ACCESS_KEY_ID holds"),
        ({**KEYS, "AWS_SECRET_ACCESS_KEY": "\udce4"}, "AWS_SECRET_ACCESS_KEY holds"),
    ],
)
def test_credentials_that_cannot_be_sent_are_named_and_not_shown(environment: dict[str, str], told: str) -> None:
    with pytest.raises(NotSent, match=told) as refused:
        credentials_in(environment)
    assert not any(value in str(refused.value) for value in environment.values() if value)
