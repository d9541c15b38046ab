"""`baton publish`: its documents follow their schemas and match the server and its stack."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import boto3
import jsonschema_rs
import pytest

from mcp_baton.cli.app import main
from mcp_baton.protocol.envelope import REVISIONS
from tests.wire.published import ServerCard, ServerJson

URL = "https://shop.example.com/mcp"
SERVER = "from mcp_baton import Server\n\nserver = Server({options})\n"
TITLED = 'title="A shop"'
ICON = '{"src": "https://example.com/icon.png", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark"}'
UNLISTED = '{"src": "data:image/png;base64,AA=="}, {"src": "https://example.com/icon.gif", "mimeType": "image/gif"}'
FULL = f'version="1.2.0", {TITLED}, website_url="https://example.com", icons=[{ICON}, {UNLISTED}]'

type Publish = Callable[..., tuple[int, str, str]]
"""`publish(options, *arguments)` returns the exit code and the output for a server with these options."""


@pytest.fixture
def publish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Publish]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    file = tmp_path / "server_to_publish.py"

    def publish_server(server: str, *arguments: str) -> tuple[int, str, str]:
        sys.modules.pop(file.stem, None)
        file.write_text(SERVER.format(options=f'"my shop", {server}'))
        code = main(["publish", str(file), *arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    yield publish_server
    sys.modules.pop(file.stem, None)


def documents(printed: tuple[int, str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return both documents after validation."""
    code, output, err = printed
    assert code == 0, err
    documents_by_name = json.loads(output)
    assert list(documents_by_name) == ["server.json", "server-card.json"]
    ServerJson.model_validate_json(json.dumps(documents_by_name["server.json"]))
    ServerCard.model_validate_json(json.dumps(documents_by_name["server-card.json"]))
    if folder := os.environ.get("PUBLISHED_SCHEMAS"):
        for name, schema in (("server.json", "server.schema.json"), ("server-card.json", "server-card.schema.json")):
            schema_document = json.loads(Path(folder, schema).read_text())
            if "$ref" not in schema_document:
                schema_document["$ref"] = "#/$defs/ServerCard"
            jsonschema_rs.validator_for(schema_document, validate_formats=True).validate(documents_by_name[name])
    return documents_by_name["server.json"], documents_by_name["server-card.json"]


def test_both_documents_describe_the_server_and_its_address(publish: Publish) -> None:
    words = ("--url", URL, "--description", "Orders and refunds.", "--header", "x-api-key", "--dry-run")

    server_json, card = documents(publish(FULL, *words))

    assert server_json["remotes"] == [
        {
            "type": "streamable-http",
            "url": URL,
            "headers": [{"name": "x-api-key", "isRequired": True, "isSecret": True}],
        }
    ]
    assert card["remotes"] == [{**server_json["remotes"][0], "supportedProtocolVersions": list(REVISIONS)}]
    identity = {
        "name": "com.example.shop/my-shop",
        "title": "A shop",
        "description": "Orders and refunds.",
        "version": "1.2.0",
        "websiteUrl": "https://example.com",
        # The registry accepts neither data: URLs nor GIFs.
        "icons": [json.loads(ICON)],
    }
    for document in (server_json, card):
        assert {name: document[name] for name in document if name not in ("$schema", "remotes")} == identity


def test_the_title_is_the_default_description(publish: Publish) -> None:
    name = ("--name", "io.github.kim/shop")
    at_aws = "https://a1b2c3.execute-api.eu-central-1.amazonaws.com/v1/mcp"

    server_json, _ = documents(publish(TITLED, "--url", at_aws, *name, "--dry-run"))

    assert (server_json["name"], server_json["description"], server_json["remotes"]) == (
        "io.github.kim/shop",
        "A shop",
        [{"type": "streamable-http", "url": at_aws}],
    )
    assert "websiteUrl" not in server_json


@pytest.mark.parametrize(
    ("server", "arguments", "message"),
    [
        (TITLED, ["--url", URL], "publishing is not supported yet"),
        (TITLED, ["--url", URL], "mcp-publisher publish"),
        (TITLED, ["--dry-run"], "either --url or --stack"),
        (TITLED, ["--url", URL, "--stack", "shop", "--dry-run"], "either --url or --stack"),
        (TITLED, ["--url", "http://shop.example.com/mcp", "--dry-run"], "only https:// URLs"),
        (TITLED, ["--url", "https://a1.execute-api.eu-central-1.amazonaws.com/v1/mcp", "--dry-run"], "--name"),
        (TITLED, ["--url", "https://203.0.113.7/mcp", "--dry-run"], "--name"),
        (TITLED, ["--url", URL, "--name", "shop", "--dry-run"], "not a name in a registry"),
        ("version='1'", ["--url", URL, "--dry-run"], "--description"),
        (TITLED, ["--url", URL, "--description", "x" * 101, "--dry-run"], "101 characters"),
        (f"title='{'x' * 101}'", ["--url", URL, "--description", "x", "--dry-run"], "the title has 101 characters"),
        (TITLED, ["--url", URL, "--header", "x-api-key: secret", "--dry-run"], "not the name of a header"),
    ],
)
def test_an_unpublishable_server_is_rejected_with_a_remedy(
    publish: Publish, server: str, arguments: list[str], message: str
) -> None:
    code, output, err = publish(server, *arguments)

    assert (code, output) == (2, "")
    assert message in err


TEMPLATE = {
    "Parameters": {"Auth": {"Type": "String"}, "PublicUrl": {"Type": "String"}},
    "Resources": {"Queue": {"Type": "AWS::SQS::Queue"}},
    "Outputs": {"Url": {"Value": "https://a1b2c3.execute-api.eu-central-1.amazonaws.com/v1/mcp"}},
}


@pytest.fixture
def deploy(ministack_url: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """`deploy(auth, public_url)` returns the name of a stack with these parameters, in the account that the command
    uses.
    """
    for name, value in {
        "AWS_ENDPOINT_URL_CLOUDFORMATION": ministack_url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "eu-central-1",
    }.items():
        monkeypatch.setenv(name, value)

    def create(auth: str, public_url: str = "") -> str:
        name = f"published-{auth.replace('_', '-').lower()}"
        values = {"Auth": auth, "PublicUrl": public_url}
        parameters = [{"ParameterKey": key, "ParameterValue": value} for key, value in values.items()]
        # boto3's types depend on literal service names; the stubs of this service are not installed.
        create_client: Any = boto3.client
        with closing(create_client("cloudformation")) as client:
            client.create_stack(StackName=name, TemplateBody=json.dumps(TEMPLATE), Parameters=parameters)
            client.get_waiter("stack_create_complete").wait(StackName=name, WaiterConfig={"Delay": 0.1})
        return name

    return create


def test_the_url_and_the_key_header_come_from_the_stack(publish: Publish, deploy: Callable[..., str]) -> None:
    words = ("--name", "io.github.kim/shop", "--dry-run")

    with_key, _ = documents(publish(TITLED, "--stack", deploy("API_KEY"), *words))
    with_token, _ = documents(publish(TITLED, "--stack", deploy("JWT", "https://shop.example.com"), *words))

    assert with_key["remotes"] == [
        {
            "type": "streamable-http",
            "url": TEMPLATE["Outputs"]["Url"]["Value"],
            "headers": [{"name": "x-api-key", "isRequired": True, "isSecret": True}],
        }
    ]
    assert with_token["remotes"] == [{"type": "streamable-http", "url": URL}]


def test_a_stack_that_registry_clients_cannot_call_is_rejected(publish: Publish, deploy: Callable[..., str]) -> None:
    for stack, message in ((deploy("IAM"), "signed with AWS credentials"), ("no-such-stack", "cannot be read")):
        code, output, err = publish(TITLED, "--stack", stack, "--dry-run")
        assert (code, output) == (2, "")
        assert message in err
