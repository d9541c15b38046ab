"""Functions that are read without `inspect`, held against what it says."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from mcp_baton.server.schema.functions import NO_ANNOTATION, clean, is_async, is_routine, parameters_of, unwrapped


def plain(first: int, second: str = "two", *, third: float, fourth: bool = False) -> None: ...


async def asynchronous(first: int = 1) -> None: ...


@functools.wraps(asynchronous)
def wrapped(*arguments: Any) -> Any:
    return asynchronous(*arguments)


def variable(*arguments: int, **more: int) -> None: ...


def positional(first: int, /, second: int) -> None: ...


class Called:
    def __init__(self, base: int = 10) -> None:
        self.base = base

    async def __call__(self, first: int) -> int:
        return self.base + first

    def method(self, first: int = 3) -> int:
        return self.base + first


FUNCTIONS: list[Callable[..., Any]] = [
    plain,
    asynchronous,
    wrapped,
    variable,
    positional,
    Called,
    Called(),
    Called().method,
    functools.partial(plain, 1),
    lambda first, second=2: first + second,
    sorted,
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_parameters_are_those_that_inspect_finds(function: Callable[..., Any]) -> None:
    empty = inspect.Parameter.empty
    expected = {
        name: NO_ANNOTATION if parameter.default is empty else parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
    }
    assert {name: parameter.default for name, parameter in parameters_of(function).items()} == expected
    assert list(parameters_of(function)) == list(expected)


@pytest.mark.parametrize(
    ("function", "at_fault"), [(plain, []), (variable, ["arguments", "more"]), (positional, ["first"])]
)
def test_what_cannot_be_passed_by_name_is_at_fault(function: Callable[..., Any], at_fault: list[str]) -> None:
    assert [name for name, parameter in parameters_of(function).items() if parameter.fault] == at_fault


@pytest.mark.parametrize("function", [*FUNCTIONS, inspect.markcoroutinefunction(lambda: None)])
def test_kinds_are_those_that_inspect_finds(function: Callable[..., Any]) -> None:
    kinds = [inspect.iscoroutinefunction(each) for each in (function, getattr(function, "__call__", None))]  # noqa: B004
    assert is_async(function) == any(kinds)
    assert is_routine(function) == inspect.isroutine(function)
    assert unwrapped(function) == inspect.unwrap(function)


@pytest.mark.parametrize(
    "documentation",
    [
        "",
        "One line.",
        "  One line, indented.  ",
        "First.\n\n    Second.\n        Third.\n    ",
        "\n    First.\n    Second.\n\n",
        "First.\n\tTabbed.\n\t\tTwice.",
        "First.\n  \n      Deep.\n   Less deep.\n",
        "\n\n\n",
        "First.\n      \n",
    ],
)
def test_docstrings_are_cleaned_as_inspect_does(documentation: str) -> None:
    assert clean(documentation) == inspect.cleandoc(documentation)
