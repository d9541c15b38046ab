"""Declarations with `Depends`, checked at registration."""

import contextlib
import functools
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from mcp_baton import Context, Depends, RegistrationError, Server
from mcp_baton.tools.schema.dependency import Dependency, read_provider


def plain() -> int:
    return 1


def generator() -> Iterator[int]:
    yield 1


async def coroutine() -> int:
    return 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


def returning() -> contextlib.ExitStack:
    return contextlib.ExitStack()


class Maker:
    def __call__(self) -> Iterator[int]:
        yield 1


@pytest.mark.parametrize(
    ("factory", "kind"),
    [
        (plain, (False, False)),
        (dict, (False, False)),
        (returning, (False, False)),
        (generator, (True, False)),
        (functools.partial(generator), (True, False)),
        (Maker(), (True, False)),
        (contextlib.contextmanager(generator), (True, False)),
        (contextlib.ExitStack, (True, False)),
        (coroutine, (False, True)),
        (async_generator, (True, True)),
        (contextlib.asynccontextmanager(async_generator), (True, True)),
        (contextlib.AsyncExitStack, (True, True)),
    ],
)
def test_the_kind_of_a_factory_decides_whether_it_is_entered_and_awaited(factory: Any, kind: tuple[bool, bool]) -> None:
    provider = read_provider(Dependency(factory, "request"), "tool 'refund'")

    assert (provider.is_context_manager, provider.is_async) == kind


def left(right: "Annotated[int, Depends(right)]") -> int:
    return right


def right(left: Annotated[int, Depends(left)]) -> int:
    return left


def request_factory(db: Annotated[int, Depends(plain)]) -> int:
    return db


def deeper(deeper: Annotated[int, Depends(request_factory)]) -> int:
    return deeper


def with_context(ctx: Context) -> int:
    return 1


def factory_with_parameter(amount: int) -> int:
    return amount


@dataclass
class Unhashable:
    def __call__(self) -> int:
        return 1


TWICE = Annotated[int, Depends(plain)]


@pytest.mark.parametrize(
    ("annotation", "dependency", "cause"),
    [
        (int, Depends(left), "left -> right -> left"),
        (
            int,
            Depends(request_factory, scope="process"),
            "'request_factory' is kept for the process and 'plain' is closed",
        ),
        (int, Depends(deeper, scope="process"), "'deeper' is kept for the process and 'request_factory' is closed"),
        (int, Depends(with_context, scope="process"), "cannot take one call's Context"),
        (int, Depends(factory_with_parameter), "the parameter 'amount' has no value"),
        (int, Depends(Unhashable()), "not hashable"),
        (TWICE, Depends(plain), "'db' has two Depends"),
    ],
)
def test_an_invalid_dependency_is_refused_with_its_name(annotation: Any, dependency: Any, cause: str) -> None:
    def refund(db: Any = dependency) -> None:
        return None

    refund.__annotations__["db"] = annotation
    with pytest.raises(RegistrationError, match=f"tool 'refund'.*{cause}"):
        Server("shop").tool(refund)


@pytest.mark.parametrize(("factory", "scope"), [(1, "request"), (plain, "session")])
def test_depends_takes_a_function_and_a_known_scope(factory: Any, scope: Any) -> None:
    with pytest.raises(RegistrationError, match="Depends"):
        Depends(factory, scope=scope)
