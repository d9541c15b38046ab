"""Dataclasses that are made without generated code, held against the standard library's."""

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from pydantic import TypeAdapter

from mcp_baton import RegistrationError, Step
from mcp_baton.light_dataclasses import dataclass, field, replace
from mcp_baton.workflow.retry import Retry


@dataclass(frozen=True, slots=True)
class Light:
    """A frozen one."""

    kind: ClassVar[str] = "light"

    name: str
    size: int = 1
    parts: list[str] = field(default_factory=list, compare=False)
    secret: str = field(default="hidden", repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Standard:
    """The same by the standard library."""

    kind: ClassVar[str] = "light"

    name: str
    size: int = 1
    parts: list[str] = dataclasses.field(default_factory=list, compare=False)
    secret: str = dataclasses.field(default="hidden", repr=False)


@dataclass(slots=True)
class Open:
    count: int = 0

    def __post_init__(self) -> None:
        self.count += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    name: str
    size: int = 2


@dataclass(frozen=True, slots=True)
class Longer(Light):
    length: float = 0.5


CALLS: list[Callable[[Any], Any]] = [
    lambda cls: cls("a"),
    lambda cls: cls("a", 2, ["b"]),
    lambda cls: cls(name="a", secret="c"),
    lambda cls: cls(),
    lambda cls: cls("a", other=1),
    lambda cls: cls("a", 1, [], "", 5),
]


def ended(call: Callable[[Any], Any], cls: Any) -> object:
    try:
        return [getattr(call(cls), each.name) for each in dataclasses.fields(cls)]
    except TypeError as error:
        return str(error).replace(cls.__name__, "X")


@pytest.mark.parametrize("call", CALLS)
def test_instances_are_made_as_by_the_standard_library(call: Callable[[Any], Any]) -> None:
    assert ended(call, Light) == ended(call, Standard)


def test_each_instance_gets_a_part_of_its_own() -> None:
    assert Light("a").parts is not Light("a").parts


def test_it_looks_as_the_standard_librarys() -> None:
    assert repr(Light("a", 2, ["b"])) == repr(Standard("a", 2, ["b"])).replace("Standard", "Light")
    assert str(inspect.signature(Named)) == "(*, name: str, size: int = 2) -> None"
    assert Light.kind == "light"
    assert not hasattr(Light("a"), "__dict__")


def test_instances_are_equal_by_what_is_compared() -> None:
    assert Light("a", parts=["b"]) == Light("a")
    assert hash(Light("a", parts=["b"])) == hash(Light("a"))
    assert Light("a") != Light("b")
    other: object = Standard("a")
    assert Light("a") != other
    assert Light("a") != Longer("a")
    with pytest.raises(TypeError, match="unhashable"):
        hash(Open())


@pytest.mark.parametrize("name", ["name", "size", "other"])
def test_a_frozen_one_takes_no_value(name: str) -> None:
    made: Any = Light("a")
    with pytest.raises(dataclasses.FrozenInstanceError, match=name):
        setattr(made, name, 1)
    with pytest.raises(dataclasses.FrozenInstanceError, match=name):
        delattr(made, name)


def test_a_subclass_has_the_fields_of_its_base_first() -> None:
    made = Longer("a", length=2.0)
    assert repr(made) == "Longer(name='a', size=1, parts=[], length=2.0)"
    assert Longer.__match_args__ == ("name", "size", "parts", "secret", "length")
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(made, "name", "b")  # noqa: B010 - type checkers refuse what is tried here


def test_what_is_done_after_init_is_done() -> None:
    made = Open(4)
    made.count += 1
    assert made.count == 6
    with pytest.raises(RegistrationError, match="attempts"):
        Retry(attempts=0)


def test_patterns_match_by_place() -> None:
    match Light("a", 2):
        case Light(name, size):
            assert (name, size) == ("a", 2)


@pytest.mark.parametrize("replaced", [replace, dataclasses.replace, getattr(copy, "replace", replace)])
def test_a_copy_with_changes_is_made_by_anybodys_replace(replaced: Callable[..., Any]) -> None:
    assert replaced(Longer("a", 2), size=3) == Longer("a", 3)
    with pytest.raises(TypeError, match="other"):
        replaced(Light("a"), other=1)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))])  # noqa: S301
def test_copies_are_equal(copied: Callable[[Any], Any]) -> None:
    assert copied(Longer("a", 2)) == Longer("a", 2)
    assert copied(Open(3)) == Open(3)


def test_the_standard_librarys_functions_take_it() -> None:
    assert dataclasses.is_dataclass(Light)
    assert dataclasses.asdict(Light("a")) == dataclasses.asdict(Standard("a"))
    for light, standard in zip(dataclasses.fields(Light), dataclasses.fields(Standard), strict=True):
        assert (light.name, light.type, light.default, light.default_factory) == (
            standard.name,
            standard.type,
            standard.default,
            standard.default_factory,
        )


def test_the_standard_librarys_decorator_takes_it_as_a_base() -> None:
    @dataclasses.dataclass(frozen=True, slots=True)
    class Standing(Light):
        length: float = 0.5

    assert Standing("a", length=1.0) == Standing("a", 1, [], "hidden", 1.0)


def test_pydantic_takes_it() -> None:
    adapter = TypeAdapter(Light)
    assert adapter.validate_python({"name": "a", "size": "3"}) == Light("a", 3)
    assert adapter.json_schema()["required"] == ["name"]


def test_only_slots_are_made() -> None:
    with pytest.raises(TypeError, match="slots=True"):
        dataclass(frozen=True)(type("Plain", (), {}))


def test_what_authors_write_has_a_signature() -> None:
    assert list(inspect.signature(Retry).parameters) == [each.name for each in dataclasses.fields(Retry)]
    assert "name" in inspect.signature(Step).parameters
