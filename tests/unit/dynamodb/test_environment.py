"""When Baton asks DynamoDB by itself: where it asks the same endpoint as botocore, and only there."""

import importlib
import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import botocore.httpsession
import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.compat import HTTPHeaders
from botocore.configprovider import BOTOCORE_DEFAUT_SESSION_VARIABLES
from botocore.session import get_session
from moto.core.botocore_stubber import MockRawResponse

from mcp_baton.clients import connect_dynamodb, own_dynamodb
from mcp_baton.dynamodb import environment
from mcp_baton.dynamodb.direct import DirectClient
from mcp_baton.dynamodb.environment import KNOWN, WATCHERS, certificate_authorities, endpoint_in

KEYS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "token"}
ON_LAMBDA = {
    **KEYS,
    "AWS_DEFAULT_REGION": "eu-west-1",
    "AWS_REGION": "eu-west-1",
    "AWS_EXECUTION_ENV": "AWS_Lambda_python3.13",
    "AWS_LAMBDA_FUNCTION_NAME": "shop",
    "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
    "AWS_LAMBDA_RUNTIME_API": "127.0.0.1:9001",
    "AWS_XRAY_CONTEXT_MISSING": "LOG_ERROR",
    "AWS_XRAY_DAEMON_ADDRESS": "169.254.79.129:2000",
    "_X_AMZN_TRACE_ID": "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=0",
    "LD_LIBRARY_PATH": "/opt/lib",
    "TZ": ":UTC",
}
LOCAL = "AWS_ENDPOINT_URL_DYNAMODB"


@pytest.fixture(autouse=True)
def nothing_watches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever other tests have imported: moto is not loaded, and nobody has configured AWS."""
    monkeypatch.setattr(environment, "WATCHERS", ("watches_botocore",))
    monkeypatch.setenv("HOME", str(tmp_path))


def asked(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL that botocore asks in an environment of these variables alone."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    client: Any = get_session().create_client("dynamodb")
    url: list[str] = []

    def take(request: AWSPreparedRequest, **_: object) -> AWSResponse:
        url.append(request.url)
        return AWSResponse(request.url, 200, HTTPHeaders(), MockRawResponse(b"{}"))

    client.meta.events.register("before-send.dynamodb", take)
    client.get_item(TableName="t", Key={})
    # botocore leaves a port out of `Host` where it is the scheme's own, and asks for `/` where the path is empty.
    return re.sub(r"(?<=^http://)([^/]+):80(?=/|$)|(?<=^https://)([^/]+):443(?=/|$)", r"\1\2", url[0]).rstrip("/")


def told(variables: dict[str, str]) -> str:
    """The same of Baton's own connection."""
    endpoint = endpoint_in(variables)
    assert endpoint is not None
    return f"{'http' if endpoint.certificates is None else 'https'}://{endpoint.authority}{endpoint.path}"


@pytest.mark.parametrize(
    "variables",
    [
        *({"AWS_DEFAULT_REGION": region} for region in ("eu-west-1", "us-east-1", "ap-southeast-7", "mx-central-1")),
        {"AWS_DEFAULT_REGION": "eu-west-1", "AWS_REGION": "us-east-1"},
        {LOCAL: "http://localhost:8000"},
        {LOCAL: "http://127.0.0.1:4566/", "AWS_ENDPOINT_URL": "http://127.0.0.1:1"},
        {LOCAL: "", "AWS_ENDPOINT_URL": "https://vpce-0a1b.dynamodb.eu-west-1.vpce.amazonaws.com"},
        {LOCAL: "https://db.example.com:443/a-b/c", "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1"},
        {LOCAL: "http://db:80/a/"},
    ],
)
def test_the_endpoint_is_botocores(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    given = {**ON_LAMBDA, **variables}

    assert told(given).rstrip("/") == asked(given, monkeypatch)


def test_every_region_of_the_partition_is_asked_and_none_of_another() -> None:
    data: Any = get_session().get_component("data_loader").load_data("partitions")
    regions = {
        region: partition["id"]
        for partition in data["partitions"]
        for region in partition["regions"]
        if "global" not in region
    }

    found = {region for region in regions if endpoint_in({**ON_LAMBDA, "AWS_DEFAULT_REGION": region})}
    assert found == {region for region, partition in regions.items() if partition == "aws"}


BOTOCORES = {
    variable
    for _, variables, _, _ in BOTOCORE_DEFAUT_SESSION_VARIABLES.values()
    for variable in ([variables] if isinstance(variables, str) else variables or ())
}
"""What botocore's configuration is read from."""

READ_ELSEWHERE = {
    *("AWS_CREDENTIAL_EXPIRATION", "AWS_SECURITY_TOKEN", "AWS_ACCOUNT_ID", "AWS_BEARER_TOKEN_DYNAMODB"),
    *("AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_ROLE_ARN"),
    *("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_PROFILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"),
    *("REQUESTS_CA_BUNDLE", "SSLKEYLOGFILE", "HTTPS_PROXY", "https_proxy", "http_proxy", "ALL_PROXY", "no_proxy"),
    *("BOTO_CONFIG", "BOTOCORE_EXPERIMENTAL__PLUGINS", "AWS_SOMETHING_NEW"),
}


@pytest.mark.parametrize("name", sorted((BOTOCORES | READ_ELSEWHERE) - KNOWN))
@pytest.mark.parametrize("value", ["x", ""])
def test_botocore_is_asked_where_it_is_told_what_baton_does_not_read(name: str, value: str) -> None:
    assert endpoint_in(ON_LAMBDA) is not None
    assert endpoint_in({**ON_LAMBDA, name: value}) is None


def test_what_botocore_reads_is_found_in_its_sources() -> None:
    assert len(BOTOCORES) > 30
    assert {"AWS_DEFAULT_REGION"} == BOTOCORES & KNOWN


@pytest.mark.parametrize(
    "variables",
    [
        {"AWS_ACCESS_KEY_ID": ""},
        {"AWS_SECRET_ACCESS_KEY": ""},
        {"AWS_SESSION_TOKEN": "two\nlines"},
        {"AWS_DEFAULT_REGION": ""},
        {"AWS_DEFAULT_REGION": "local"},
        {"AWS_DEFAULT_REGION": "eu-west-1.example.com/"},
        {LOCAL: "localhost:8000"},
        {LOCAL: "http://user@localhost"},
        {LOCAL: "http://localhost?a=b"},
        {LOCAL: "http://localhost/a%20b"},
        {LOCAL: "http://localhost/../a"},
        {LOCAL: "http://localhost//a"},
        {LOCAL: "http://[::1]:8000"},
        {LOCAL: "http://localhost:99999"},
        {LOCAL: "http://localhost:0"},
        {LOCAL: "ftp://localhost"},
        {LOCAL: " http://localhost"},
        {LOCAL: "http://localhost\n"},
        {LOCAL: "http://bücher.example"},
    ],
)
def test_botocore_is_asked_where_a_value_is_unusual(variables: dict[str, str]) -> None:
    assert endpoint_in({**ON_LAMBDA, **variables}) is None


def test_botocore_is_asked_where_it_has_files_of_its_own(tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()

    assert endpoint_in(ON_LAMBDA) is None


def test_botocore_is_asked_where_something_watches_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "watches_botocore", ModuleType("watches_botocore"))

    assert endpoint_in(ON_LAMBDA) is None


def test_botocore_is_asked_on_other_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    # Their settings for proxies are elsewhere.
    monkeypatch.setattr(sys, "platform", "darwin")

    assert endpoint_in(ON_LAMBDA) is None


def test_moto_is_one_that_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "WATCHERS", WATCHERS)
    importlib.import_module("moto")

    assert endpoint_in(ON_LAMBDA) is None


def test_the_authorities_are_botocores() -> None:
    assert certificate_authorities() == botocore.httpsession.get_cert_path(True)


def test_without_certifi_the_authorities_are_those_in_botocore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "find_spec", lambda name: None if name == "certifi" else find_spec(name))

    assert certificate_authorities() == botocore.httpsession.DEFAULT_CA_BUNDLE


def test_baton_connects_by_itself_where_it_can_and_by_botocore_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(connect_dynamodb(ON_LAMBDA), DirectClient)

    for name, value in ON_LAMBDA.items():
        monkeypatch.setenv(name, value)
    assert own_dynamodb({**ON_LAMBDA, "AWS_PROFILE": "x"}) is None
    client: Any = connect_dynamodb({**ON_LAMBDA, "AWS_PROFILE": "x"})
    assert client.meta.service_model.service_name == "dynamodb"
