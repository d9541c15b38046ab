"""Loading a file that has mistakes to its end: what it would be refused for is taken down, and the file goes on.

Nothing of this is in what is deployed: while `collecting` runs, the methods by which authors register things stand
behind others that catch what they raise.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final
from unittest.mock import patch

from mcp_baton import Server, Settings, Step, Workflow
from mcp_baton.exceptions import RegistrationError, SettingsError, WorkflowError
from mcp_baton.local.checks.faults import Fault, Site, fault_of
from mcp_baton.local.report.frames import PACKAGE

DECORATORS: Final = ("tool", "prompt", "resource", "completion")


@dataclass
class Collected:
    """What was wrong while a file was loaded.

    Attributes:
        faults: In order.
        tools: The names of tools that were refused, and their functions: what speaks of them is no further mistake.
        parts: The names of workflows and steps that were refused.
        made: The workflows that were made, each with the line that made it.
        added: Those that were added to a server.
    """

    faults: list[Fault] = field(default_factory=list)
    tools: list[object] = field(default_factory=list)
    parts: set[str] = field(default_factory=set)
    made: list[tuple[Workflow, Site | None]] = field(default_factory=list)
    added: list[object] = field(default_factory=list)

    def take(self, error: Exception) -> None:
        """Take an error down.

        Raises:
            Exception: the error itself, where it is not about how Baton is used.
        """
        fault = fault_of(error, _author())
        if fault is None:
            raise error
        self.faults.append(fault)


NOTHING: Final = Collected()
"""For a server of which no file was loaded with mistakes."""


@contextmanager
def collecting() -> Iterator[Collected]:
    """Take down what is refused, for as long as this runs."""
    collected = Collected()
    with ExitStack() as stack:
        for name in DECORATORS:
            stack.enter_context(patch.object(Server, name, _decorator(getattr(Server, name), collected)))
        stack.enter_context(patch.object(Server, "add_tool", _add_tool(Server.add_tool, collected)))
        for name in ("add_workflow", "include"):
            stack.enter_context(patch.object(Server, name, _method(getattr(Server, name), collected)))
        for kind in (Step, Workflow):
            stack.enter_context(patch.object(kind, "__init__", _maker(kind, collected)))
        # What is checked when the handler is made is checked later, all of it.
        stack.enter_context(patch.object(Server, "check", _unchecked))
        stack.enter_context(patch.object(Settings, "from_environment", _settings))
        yield collected


def _settings(environment: Any) -> Settings:
    """The settings; the defaults where they cannot be read, of which the check speaks by itself."""
    try:
        return _read_settings(environment)
    except SettingsError:
        return Settings()


_read_settings = Settings.from_environment


def _unchecked(_server: Server, **_options: bool) -> None:
    """In the place of `Server.check`."""


def _decorator(method: Callable[..., Any], collected: Collected) -> Callable[..., Any]:
    """A method that is a decorator, or makes one; the decorated function stays what it is."""

    def guarded(server: Server, *given: Any, **options: Any) -> Any:
        function = given[0] if given and callable(given[0]) else None
        try:
            made = method(server, *given, **options)
        except (RegistrationError, TypeError) as error:
            collected.take(error)
            return _unchanged if function is None else function
        return made if function is not None else _registrar(made, collected)

    return guarded


def _registrar(made: Callable[[Any], Any], collected: Collected) -> Callable[[Any], Any]:
    def register(function: Any) -> Any:
        try:
            return made(function)
        except (RegistrationError, TypeError) as error:
            collected.take(error)
            return function

    return register


def _add_tool(method: Callable[..., Any], collected: Collected) -> Callable[..., Any]:
    def add_tool(server: Server, function: Any, **options: Any) -> Any:
        try:
            return method(server, function, **options)
        except (RegistrationError, TypeError) as error:
            collected.take(error)
            collected.tools += [function, options.get("name") or getattr(function, "__name__", None)]
            return function if callable(function) else _unchanged

    return add_tool


def _method(method: Callable[..., Any], collected: Collected) -> Callable[..., Any]:
    """A method that takes a workflow or a server."""

    def guarded(server: Server, given: Any, *more: Any, **options: Any) -> Any:
        collected.added.append(given)
        try:
            return method(server, given, *more, **options)
        except (RegistrationError, TypeError) as error:
            collected.take(error)
            return given

    return guarded


def _maker(kind: type[Step] | type[Workflow], collected: Collected) -> Callable[..., None]:
    """A constructor; what cannot be made is made empty, under its name."""
    make: Callable[..., None] = kind.__init__

    def init(made: Any, *given: Any, **members: Any) -> None:
        try:
            make(made, *given, **members)
        except (RegistrationError, TypeError) as error:
            collected.take(error)
            name = members.get("name", given[0] if given else "")
            name = name if isinstance(name, str) and name else "?"
            collected.parts.add(error.workflow if isinstance(error, WorkflowError) else name)
            make(made, name) if kind is Step else make(made, name=name, description="")
        else:
            if kind is Workflow:
                collected.made.append((made, _author()))

    return init


def _unchanged[F](function: F) -> F:
    return function


def _author() -> Site | None:
    """The line of the author's that is running."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the documented way to the caller's line
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith("<") and not Path(file).is_relative_to(PACKAGE):
            return Site(Path(file), frame.f_lineno)
        frame = frame.f_back
    return None
