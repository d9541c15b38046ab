"""The URL and the credentials that the options of a command name (docs/commands.md, Where: URLs and files)."""

import pytest

from mcp_baton.cli.options import ConnectionOptions
from mcp_baton.cli.remote.http import Access, access_of
from mcp_baton.exceptions import BatonError

URL = "https://api.example.com/mcp"


def test_the_repr_does_not_contain_secrets() -> None:
    text = repr(Access(URL, api_key="s3cret", token="s3cret", headers={"X-Key": "s3cret"}))
    assert "s3cret" not in text


def test_options_give_the_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "k-2")
    monkeypatch.setenv("TOKEN", "t-2")
    connection = ConnectionOptions(
        URL, api_key="env:KEY", token="env:TOKEN", header=["B: 2", "C:3", "D: env:KEY", "E:"]
    )
    assert access_of(connection) == Access(
        URL, api_key="k-2", token="t-2", headers={"B": "2", "C": "3", "D": "k-2", "E": ""}
    )
    assert access_of(ConnectionOptions(URL, api_key="k-1", aws=True)) == Access(URL, api_key="k-1", aws=True)


@pytest.mark.parametrize(
    ("connection", "complaint"),
    [
        (ConnectionOptions("shop"), "'shop' is neither a URL"),
        (ConnectionOptions("ftp://a/"), "'ftp://a/' is neither a URL"),
        (ConnectionOptions("http://[::1/mcp"), "'http://[::1/mcp' is not a URL: Invalid port"),
        (ConnectionOptions("https://:80/mcp"), "'https://:80/mcp' is not a URL: it names no host"),
        (ConnectionOptions(URL, header=["s3cret"]), "--header is NAME:VALUE"),
        (ConnectionOptions(URL, token="t", aws=True), "either signed or has a bearer token"),
        (ConnectionOptions(URL, api_key="env:NO_SUCH"), "--api-key comes from the variable NO_SUCH"),
        (ConnectionOptions(URL, token=""), "--token is empty"),
        (ConnectionOptions(URL, header=["A: env:NO_SUCH"]), "--header comes from the variable NO_SUCH"),
    ],
)
def test_invalid_options_are_refused(connection: ConnectionOptions, complaint: str) -> None:
    with pytest.raises(BatonError) as error_info:
        access_of(connection)
    assert complaint in str(error_info.value)
    assert "s3cret" not in str(error_info.value)


@pytest.mark.parametrize(
    ("target", "is_target"),
    [("app.py", True), ("app.py:server", True), ("shop.app:server", True), ("shop", False), (URL, False)],
)
def test_a_python_file_or_a_name_with_a_colon_is_served_here(target: str, is_target: bool) -> None:
    assert ConnectionOptions(target).is_target is is_target
