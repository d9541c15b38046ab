"""Finding the server in a Python file."""

import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from mcp_baton.local.loader import LoadError, load, split_target


@pytest.fixture(autouse=True)
def restored_modules() -> Iterator[None]:
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def write(folder: Path, text: str, name: str = "orders_app.py") -> Path:
    path = folder / name
    path.write_text(f"from fractions import Fraction\n{text}\n")
    return path


def refusal(target: object) -> str:
    with pytest.raises(LoadError) as error_info:
        load(str(target), Fraction)
    return str(error_info.value)


@pytest.mark.parametrize(
    ("text", "attribute", "server"),
    [
        pytest.param("server = Fraction(1, 2)", "", Fraction(1, 2), id="the only one"),
        pytest.param("server = app = Fraction(1, 2)", "", Fraction(1, 2), id="one object under two names"),
        pytest.param("one = Fraction(1)\ntwo = Fraction(2)", ":two", 2, id="a named one"),
        pytest.param("from orders_neighbour import half", "", Fraction(1, 2), id="from a file in the same folder"),
        pytest.param(
            "import sys\nserver = Fraction(1)\nassert sys.modules[__name__].server is server",
            "",
            1,
            id="from a module that imports itself",
        ),
    ],
)
def test_the_only_server_of_a_file_is_loaded(tmp_path: Path, text: str, attribute: str, server: Fraction) -> None:
    write(tmp_path, "half = Fraction(1, 2)", "orders_neighbour.py")
    assert load(f"{write(tmp_path, text)}{attribute}", Fraction) == server
    assert sys.path[0] == str(tmp_path)  # the file's folder comes before all other folders


@pytest.mark.parametrize("name", ["my-server.py", "v1.2.py", "with space.py"])
def test_a_file_may_have_any_name(tmp_path: Path, name: str) -> None:
    assert load(str(write(tmp_path, "server = Fraction(1)", name)), Fraction) == 1


def test_a_path_that_is_not_a_python_file_is_an_error(tmp_path: Path) -> None:
    assert "no such file" in refusal(tmp_path / "absent.py")
    assert "absent.py" in refusal(f"{tmp_path / 'absent.py'}:server")
    assert "is a directory" in refusal(tmp_path)
    assert "not a Python file" in refusal(write(tmp_path, "", "notes.txt"))


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("import no_such_module_anywhere", "ModuleNotFoundError"),
        ("def broken(:", "SyntaxError"),
        ("raise SystemExit(3)", "SystemExit"),
        ("1 / 0", "ZeroDivisionError"),
    ],
)
def test_a_file_that_cannot_be_imported_shows_its_traceback(tmp_path: Path, text: str, cause: str) -> None:
    message = refusal(write(tmp_path, text))
    assert cause in message
    assert "orders_app.py:2: " in message
    assert "loader.py" not in message
    assert "orders_app" not in sys.modules


def test_a_file_with_the_name_of_a_loaded_module_is_refused(tmp_path: Path) -> None:
    assert "rename the file" in refusal(write(tmp_path, "server = Fraction(1)", "fractions.py"))
    assert sys.modules["fractions"].Fraction is Fraction


ONE_AND_OTHER = "one = Fraction(1)\nother = 5"


@pytest.mark.parametrize(
    ("text", "attribute", "complaints"),
    [
        ("server = 1", "", ["holds no Fraction"]),
        ("one = Fraction(1)\ntwo = Fraction(2)", "", ["holds one, two", "choose one of one, two", "_app.py:one"]),
        (ONE_AND_OTHER, ":absent", ["has no Fraction 'absent'", "choose one of one"]),
        (ONE_AND_OTHER, ":other", ["orders_app.py has no Fraction 'other'", "choose one of one"]),
        (ONE_AND_OTHER, ":oen", ["has no Fraction 'oen'", "did you mean 'one'?"]),
        ("def make() -> Fraction: ...", ":make", ["has no Fraction 'make'", "make one at the top level"]),
    ],
)
def test_a_missing_object_is_an_error_that_lists_the_others(
    tmp_path: Path, text: str, attribute: str, complaints: list[str]
) -> None:
    message = refusal(f"{write(tmp_path, text)}{attribute}")
    assert [complaint for complaint in complaints if complaint not in message] == []


@pytest.mark.parametrize(
    ("target", "path", "attribute"),
    [
        ("app.py", "app.py", None),
        ("app.py:server", "app.py", "server"),
        ("folder/app.py:server", "folder/app.py", "server"),
        (r"C:\app.py", r"C:\app.py", None),
        (r"C:\app.py:server", r"C:\app.py", "server"),
        ("a:b.py", "a:b.py", None),
        ("a:b.py:server", "a:b.py", "server"),
        (":server", ":server", None),
        ("app.py:", "app.py:", None),
    ],
)
def test_a_colon_may_belong_to_the_path(target: str, path: str, attribute: str | None) -> None:
    assert split_target(target) == (Path(path), attribute)


def test_a_file_whose_name_ends_like_an_attribute_is_a_file(tmp_path: Path) -> None:
    path = write(tmp_path, "", "app:server")
    assert split_target(str(path)) == (path, None)


def test_a_module_is_loaded_relative_to_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "orders_package"
    package.mkdir()
    write(package, "server = Fraction(1)\nother = Fraction(2)", "main.py")
    monkeypatch.chdir(tmp_path)
    assert load("orders_package.main:other", Fraction) == 2
    assert "orders_package.main holds server, other\n  choose one of" in refusal("orders_package.main")
    assert "there is no module 'orders_package.absent'" in refusal("orders_package.absent:server")
    assert "there is no module 'absent_package'" in refusal("absent_package.main")


def test_a_file_of_a_package_may_import_from_its_package(tmp_path: Path) -> None:
    package = tmp_path / "orders_pack" / "inner"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").touch()
    write(package.parent, "half = Fraction(1, 2)", "numbers_of.py")
    path = write(package, "from ..numbers_of import half as server", "main.py")
    assert load(str(path), Fraction) == Fraction(1, 2)
    assert sys.modules["orders_pack.inner.main"].__file__ == str(path)


def test_a_missing_import_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "import no_such_thing", "orders_needing.py")
    monkeypatch.chdir(tmp_path)
    message = refusal("orders_needing:server")
    assert "orders_needing cannot be imported" in message
    assert "No module named 'no_such_thing'" in message


def test_a_mistyped_file_name_gets_a_suggestion(tmp_path: Path) -> None:
    path = write(tmp_path, "server = Fraction(1)")
    assert f"did you mean {path}?" in refusal(tmp_path / "order_app.py")
    assert f"did you mean {path}?" in refusal(str(path).removesuffix(".py"))
