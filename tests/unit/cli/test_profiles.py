"""Profiles: names for servers with their credentials (docs/commands.md, Where: URLs, files and profiles)."""

import sys
from pathlib import Path

import pytest

from mcp_baton.cli.options import ConnectionOptions
from mcp_baton.cli.remote.connection import access_of
from mcp_baton.cli.remote.profiles import Access, profile, profiles_file, secret
from mcp_baton.exceptions import BatonError

URL = "https://api.example.com/mcp"
SHOP = f'[shop]\nurl = "{URL}"\n'


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of profiles, empty."""
    path = tmp_path / "profiles.toml"
    path.write_text("")
    monkeypatch.setenv("BATON_PROFILES", str(path))
    return path


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        ({"BATON_PROFILES": "/etc/p.toml", "XDG_CONFIG_HOME": "/x"}, "/etc/p.toml"),
        ({"XDG_CONFIG_HOME": "/x"}, "/x/baton/profiles.toml"),
        ({"XDG_CONFIG_HOME": "relative"}, str(Path.home() / ".config/baton/profiles.toml")),
        ({}, str(Path.home() / ".config/baton/profiles.toml")),
    ],
)
def test_the_environment_determines_the_file(environment: dict[str, str], place: str) -> None:
    assert profiles_file(environment) == Path(place)


def test_a_profile_has_a_url_and_credentials(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_KEY", "k-1")
    print_token = f"{sys.executable} -c \\\"print('t-1')\\\""
    file.write_text(
        f'{SHOP}api_key = "env:SHOP_KEY"\nheaders = {{X-Tenant = "blue"}}\n'
        f'[books]\nurl = "{URL}"\ntoken = {{command = "{print_token}"}}\n'
        f'[list]\nurl = "{URL}"\ntoken = {{command = ["{sys.executable}", "-c", "print(1)"]}}\n'
        f'[inside]\nurl = "{URL}"\nauth = "aws"\nregion = "eu-west-1"\naws_profile = "work"\n'
    )
    assert profile("shop", file) == Access(URL, api_key="k-1", headers={"X-Tenant": "blue"})
    assert profile("books", file) == Access(URL, token="t-1")
    assert profile("list", file) == Access(URL, token="1")
    assert profile("inside", file) == Access(URL, auth="aws", region="eu-west-1", aws_profile="work")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "'shop' is not a profile in"),
        ('[shopp]\nurl = "https://a/"', "did you mean 'shopp'?"),
        ("shop = 1", "profile 'shop' is not a table"),
        ("[shop]", "'url' must be the server's URL"),
        ('[shop]\nurl = "api.example.com"', "'url' must be the server's URL"),
        (f'{SHOP}apikey = "s3cret"', "unknown field `apikey`. The fields are url, api_key, token"),
        (f'{SHOP}auth = "iam"', "at `$.auth`"),
        (f"{SHOP}region = 1", "Expected `str | null`, got `int` - at `$.region`"),
        (f"{SHOP}headers = {{a = 1}}", "at `$.headers"),
        (f'{SHOP}api_key = "env:NO_SUCH"', "the variable NO_SUCH, which is not set"),
        (f'{SHOP}token = {{file = "s3cret"}}', "'token' must be a string"),
        (f'{SHOP}token = {{command = "no-such-command s3cret"}}', "the command 'no-such-command' failed"),
        (f'{SHOP}token = {{command = "true s3cret"}}', "the command 'true' printed nothing"),
        ('[shop]\nurl = "s3cret', "cannot be read"),
    ],
)
def test_an_invalid_profile_is_named_with_the_remedy_and_without_its_secrets(
    file: Path, text: str, complaint: str
) -> None:
    file.write_text(text)
    with pytest.raises(BatonError) as error_info:
        profile("shop", file)
    assert complaint in str(error_info.value)
    assert "s3cret" not in str(error_info.value)


@pytest.mark.parametrize(
    ("mode", "profile_with_command", "is_refused"),
    [
        (0o666, "shop", True),
        (0o664, "shop", True),
        (0o662, "other", True),
        (0o644, "shop", False),
        (0o600, "shop", False),
    ],
)
def test_a_command_is_run_only_from_a_file_that_others_cannot_write(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, profile_with_command: str, is_refused: bool
) -> None:
    command = f'token = {{command = ["{sys.executable}", "-c", "open(\'ran\', \'w\'); print(1)"]}}\n'
    for name in ("shop", "other"):
        with file.open("a") as output:
            output.write(f'[{name}]\nurl = "{URL}"\n' + (command if name == profile_with_command else ""))
    file.chmod(mode)
    monkeypatch.chdir(tmp_path)
    if is_refused:
        with pytest.raises(BatonError, match=f"others can write it: run chmod go-w {file}"):
            profile("shop", file)
    else:
        assert profile("shop", file).token == "1"
    assert (tmp_path / "ran").exists() is not is_refused


def test_others_may_write_a_file_without_a_command(file: Path) -> None:
    file.write_text(f'{SHOP}token = "t"\n')
    file.chmod(0o666)
    assert profile("shop", file).token == "t"


def test_the_output_of_a_failing_command_is_not_shown() -> None:
    command = {"command": [sys.executable, "-c", "print('s3cret'); raise SystemExit(1)"]}
    with pytest.raises(BatonError) as error_info:
        secret(command, "token")
    assert "s3cret" not in str(error_info.value)
    assert error_info.value.__suppress_context__


def test_the_repr_does_not_contain_secrets() -> None:
    text = repr(Access(URL, api_key="s3cret", token="s3cret", headers={"X-Key": "s3cret"}))
    assert "s3cret" not in text


def test_options_replace_the_fields_of_a_profile(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "k-2")
    file.write_text(f'{SHOP}api_key = "k-1"\nheaders = {{A = "1", B = "1"}}\n')
    connection = ConnectionOptions("shop", api_key="env:KEY", header=["B: 2", "C:3"])
    assert access_of(connection) == Access(URL, api_key="k-2", headers={"A": "1", "B": "2", "C": "3"})


@pytest.mark.parametrize(
    ("connection", "complaint"),
    [
        (ConnectionOptions("ftp://a/"), "not an HTTP URL"),
        (ConnectionOptions(URL, header=["s3cret"]), "--header is NAME:VALUE"),
        (ConnectionOptions(URL, token="t", aws=True), "either signed or has a bearer token"),
        (ConnectionOptions(URL, api_key="env:NO_SUCH"), "--api-key comes from the variable NO_SUCH"),
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
