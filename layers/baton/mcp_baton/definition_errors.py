"""Errors of definitions. They are raised, unless `baton check` collects them to report all at once.

While a command loads a file, a `DefinitionCollector` also records the lines that create workflows and steps.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from mcp_baton.exceptions import RegistrationError


class DefinitionCollector(Protocol):
    """Collects what a file defines while a command loads it.

    Attributes:
        collects: Whether errors are collected; otherwise they are raised.
    """

    collects: bool

    def record_error(self, error: RegistrationError, *things: object) -> None:
        """Record the error of a definition. `things` are the definitions, or their names."""

    def record_definition(self, thing: object) -> None:
        """Record a workflow or a step that was created."""

    def record_published(self, workflow: object) -> None:
        """Record a workflow that was passed to `add_workflow`."""


_collector: DefinitionCollector | None = None


def collector() -> DefinitionCollector | None:
    """Return the collector while a command loads a file, otherwise `None`."""
    return _collector


@contextmanager
def collecting(into: DefinitionCollector) -> Iterator[None]:
    """Collect the errors of definitions within the block instead of raising them."""
    global _collector  # noqa: PLW0603 - definitions are made at import time, by code that nothing can be passed to
    outer, _collector = _collector, into
    try:
        yield
    finally:
        _collector = outer


@contextmanager
def defining(*things: object) -> Iterator[None]:
    """Run the block. Raise the error of a definition, or give it to the collector."""
    try:
        yield
    except RegistrationError as error:
        refuse(error, *things)


def refuse(error: RegistrationError, *things: object) -> None:
    """Raise the error of a definition, or give it to the collector."""
    if _collector is None:
        raise error
    _collector.record_error(error, *things)
