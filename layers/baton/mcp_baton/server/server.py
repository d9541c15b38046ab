"""`Server`: what users write against; a registry of tools, resources, prompts and workflows (contract section 2)."""

from collections.abc import Callable
from typing import Any, Protocol, overload

from mcp_baton.exceptions import RegistrationError, WorkflowError
from mcp_baton.server.functions import Prompt, Resource, Tool
from mcp_baton.workflow.definition import Workflow, check


class Registrar(Protocol):
    """A decorator that publishes a function and returns it unchanged."""

    def __call__[F: Callable[..., object]](self, function: F, /) -> F:
        """Publish the function."""


class Server:
    """An MCP server.

    Args:
        name: How it is called on the wire.
        version: Its version, for the client to show.
        title: A name for people.
        instructions: What a model should know before it uses the server.
    """

    def __init__(
        self, name: str, *, version: str = "0.0.0", title: str | None = None, instructions: str | None = None
    ) -> None:
        self.name = name
        self.version = version
        self.title = title
        self.instructions = instructions
        self.tools: dict[str, Tool] = {}
        self.resources: dict[str, Resource] = {}
        self.prompts: dict[str, Prompt] = {}
        self.workflows: dict[str, Workflow] = {}

    @overload
    def tool[F: Callable[..., object]](self, function: F, /) -> F: ...
    @overload
    def tool(
        self, *, name: str | None = None, title: str | None = None, description: str | None = None
    ) -> Registrar: ...
    def tool(
        self,
        function: Any = None,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
    ) -> Any:
        """Publish a function as a tool; with or without parentheses, on `def` and `async def`.

        Its description is the docstring, its schemas come from the signature; a parameter annotated `Context` is filled
        in and is not part of them.

        Raises:
            RegistrationError: the name is taken, or the signature has no schema.
        """

        def register[F: Callable[..., object]](function: F, /) -> F:
            tool = Tool(function, name or _name_of(function), title, description)
            _refuse_taken("tool", tool.name, tool.name in self.tools)
            self.tools[tool.name] = tool
            return function

        return register if function is None else register(function)

    def resource(
        self,
        uri: str,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
    ) -> Registrar:
        """Publish a function as the resource at `uri`, or at every URI of the template `uri`.

        Raises:
            RegistrationError: the URI is taken, or its `{name}`s are not the function's parameters.
        """
        if not isinstance(uri, str):
            raise RegistrationError("resource: needs its URI, as in @server.resource('docs://{topic}')")

        def register[F: Callable[..., object]](function: F, /) -> F:
            _refuse_taken("resource", uri, uri in self.resources)
            made = Resource(uri, function, name or _name_of(function), title, description, mime_type)
            self.resources[uri] = made
            return function

        return register

    @overload
    def prompt[F: Callable[..., object]](self, function: F, /) -> F: ...
    @overload
    def prompt(
        self, *, name: str | None = None, title: str | None = None, description: str | None = None
    ) -> Registrar: ...
    def prompt(
        self,
        function: Any = None,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
    ) -> Any:
        """Publish a function as a prompt; with or without parentheses, on `def` and `async def`.

        Raises:
            RegistrationError: the name is taken, or the signature has no schema.
        """

        def register[F: Callable[..., object]](function: F, /) -> F:
            prompt = Prompt(function, name or _name_of(function), title, description)
            _refuse_taken("prompt", prompt.name, prompt.name in self.prompts or prompt.name in self.workflows)
            self.prompts[prompt.name] = prompt
            return function

        return register if function is None else register(function)

    def add_workflow(self, workflow: Workflow) -> Workflow:
        """Publish a workflow as a prompt of the same name. Its tools must have been registered.

        Raises:
            WorkflowError: it cannot work; names workflow, step and cause.
        """
        if workflow.name in self.prompts or workflow.name in self.workflows:
            raise WorkflowError(workflow.name, "the name is already taken by a prompt; give it another")
        check(workflow, {name: tool.signature.names for name, tool in self.tools.items()})
        self.workflows[workflow.name] = workflow
        return workflow


def _name_of(function: Callable[..., object]) -> str:
    name = getattr(function, "__name__", None) or getattr(getattr(function, "func", None), "__name__", None)
    if not isinstance(name, str) or name == "<lambda>":
        raise RegistrationError(f"{function!r} has no name of its own; give it one with name=...")
    return name


def _refuse_taken(kind: str, name: str, taken: bool) -> None:
    if taken:
        raise RegistrationError(f"{kind} {name!r}: the name is already taken; give it another")
