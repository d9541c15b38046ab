"""`Server`: what users write against; a registry of tools, resources, prompts and workflows (docs/tools.md)."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, Unpack, overload

from mcp_baton.exceptions import RegistrationError, WorkflowError
from mcp_baton.protocol.json import JsonObject
from mcp_baton.server.checking import checked_workflows
from mcp_baton.server.published.completion import Completer, Completion, completion_of
from mcp_baton.server.published.labels import Labels
from mcp_baton.server.published.own_uris import SCHEME, is_own
from mcp_baton.server.published.prompt import Prompt
from mcp_baton.server.published.resource import Resource
from mcp_baton.server.published.tool import Tool
from mcp_baton.server.scopes import required
from mcp_baton.workflow.definition import Workflow

if TYPE_CHECKING:
    from mcp_baton.server.running.dependencies import Override


class PromptLabels(TypedDict, total=False):
    """What can be said of a prompt: see `Labels`."""

    title: str
    description: str
    icons: Sequence[JsonObject]
    meta: JsonObject


class AllLabels(PromptLabels, total=False):
    """What can be said of a tool or a resource: see `Labels`."""

    annotations: JsonObject


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
        website_url: Where people can read about it.
        icons: MCP `Icon` objects.
        mask_errors: Whether clients read `internal error in NAME (id …)` in the place of what any exception but a
            `ToolError` says. The log has it either way (docs/tools.md, Errors).
    """

    def __init__(
        self,
        name: str,
        *,
        version: str = "0.0.0",
        title: str | None = None,
        instructions: str | None = None,
        website_url: str | None = None,
        icons: Sequence[JsonObject] = (),
        mask_errors: bool = True,
    ) -> None:
        self.name = name
        self.version = version
        self.title = title
        self.instructions = instructions
        self.website_url = website_url
        self.icons = tuple(icons)
        self.mask_errors = mask_errors
        self.tools: dict[str, Tool] = {}
        self.resources: dict[str, Resource] = {}
        self.prompts: dict[str, Prompt] = {}
        self.workflows: dict[str, Workflow] = {}
        self.completions: dict[tuple[str, str], Completion] = {}
        self.overrides: list[Override] = []
        self.is_view = False
        """Whether this is what one caller sees of a server, by their scopes."""
        self._is_checked = False

    @overload
    def tool[F: Callable[..., object]](self, function: F, /) -> F: ...
    @overload
    def tool(
        self,
        *,
        name: str | None = None,
        input_schema: JsonObject | None = None,
        requires: Sequence[str] = (),
        **labels: Unpack[AllLabels],
    ) -> Registrar: ...
    def tool(self, function: Any = None, **options: Any) -> Any:
        """Publish a function as a tool; with or without parentheses, on `def` and `async def`. As `add_tool`."""

        def register[F: Callable[..., object]](function: F, /) -> F:
            return self.add_tool(function, **options)

        return register if function is None else register(function)

    def add_tool[F: Callable[..., object]](
        self,
        function: F,
        *,
        name: str | None = None,
        input_schema: JsonObject | None = None,
        requires: Sequence[str] = (),
        **labels: Unpack[AllLabels],
    ) -> F:
        """Publish a function as a tool: what `@server.tool` does, without being a decorator.

        Its description is the docstring, its schemas come from the signature; parameters annotated `Context` or with
        `Depends` are filled in and are not part of them. It may return anything that can be written as JSON, content
        (`Image`, `Audio`, `EmbeddedResource`, `ResourceLink`, `Text`), a list of both, or a `ToolResult`.

        Args:
            function: A `def` or an `async def`.
            name: How it is called; the function's name unless given.
            input_schema: Published in the place of the schema that the signature makes. Calls are still held against
                the signature.
            requires: Scopes. For a caller who lacks one of them, the tool does not exist.
            labels: What is shown of it: see `Labels`.

        Returns:
            The function.

        Raises:
            RegistrationError: the name is taken, it or a parameter's name is not one that every host takes
                (docs/tools.md, Names), or the signature has no schema.
        """
        name = name or _name_of(function)
        scopes = required(requires, f"tool {name!r}")
        self.publish_tool(Tool(function, name, Labels(**labels), input_schema, scopes))
        return function

    def publish_tool(self, tool: Tool) -> None:
        """Add a tool that has been made.

        Raises:
            RegistrationError: the name is taken.
        """
        _refuse_taken("tool", tool.name, tool.name in self.tools)
        self.tools[tool.name] = tool

    def resource(
        self,
        uri: str,
        *,
        name: str | None = None,
        mime_type: str | None = None,
        requires: Sequence[str] = (),
        **labels: Unpack[AllLabels],
    ) -> Registrar:
        """Publish a function as the resource at `uri`, or at every URI of the template `uri`. `requires` as `add_tool`.

        Raises:
            RegistrationError: the URI is taken or Baton's own, or its `{name}`s are not the function's parameters.
        """
        if not isinstance(uri, str):
            raise RegistrationError("resource: needs its URI, as in @server.resource('docs://{topic}')")
        if is_own(uri):
            raise RegistrationError(f"resource {uri!r}: {SCHEME} is Baton's own, for stored values; choose another")
        scopes = required(requires, f"resource {uri!r}")

        def register[F: Callable[..., object]](function: F, /) -> F:
            _refuse_taken("resource", uri, uri in self.resources)
            made = Resource(uri, function, name or _name_of(function), Labels(**labels), mime_type, scopes)
            self.publish_resource(made)
            return function

        return register

    def publish_resource(self, resource: Resource) -> None:
        """Add a resource that has been made.

        Raises:
            RegistrationError: the URI is taken.
        """
        _refuse_taken("resource", resource.uri, resource.uri in self.resources)
        self.resources[resource.uri] = resource

    @overload
    def prompt[F: Callable[..., object]](self, function: F, /) -> F: ...
    @overload
    def prompt(
        self, *, name: str | None = None, requires: Sequence[str] = (), **labels: Unpack[PromptLabels]
    ) -> Registrar: ...
    def prompt(
        self,
        function: Any = None,
        *,
        name: str | None = None,
        requires: Sequence[str] = (),
        **labels: Unpack[PromptLabels],
    ) -> Any:
        """Publish a function as a prompt; with or without parentheses, on `def` and `async def`. `requires` as
        `add_tool`.

        Raises:
            RegistrationError: the name is taken, or the signature has no schema.
        """

        def register[F: Callable[..., object]](function: F, /) -> F:
            own = name or _name_of(function)
            self.publish_prompt(Prompt(function, own, Labels(**labels), required(requires, f"prompt {own!r}")))
            return function

        return register if function is None else register(function)

    def publish_prompt(self, prompt: Prompt) -> None:
        """Add a prompt that has been made.

        Raises:
            RegistrationError: the name is taken.
        """
        _refuse_taken("prompt", prompt.name, prompt.name in self.prompts or prompt.name in self.workflows)
        self.prompts[prompt.name] = prompt

    def completion(self, of: str, argument: str) -> Callable[[Completer], Completer]:
        """Publish a function that completes an argument: `@server.completion("docs://{topic}", "topic")`.

        The function takes what has been typed so far and, if it likes, the arguments that are already known; it
        returns suggestions, the best first. The `Context` and what `Depends` declares are filled in.

        Args:
            of: The name of a prompt or workflow, or the URI template of a resource. It must have been registered.
            argument: The name of its argument.

        Raises:
            RegistrationError: there is no such argument, or its completion is taken.
        """
        if argument not in self.arguments_of(of):
            raise RegistrationError(f"completion of {of!r}: it has no argument {argument!r}; register it first")

        def register(function: Completer) -> Completer:
            made = completion_of(function, f"completion of {of!r} {argument!r}")
            self.publish_completion(of, argument, made)
            return function

        return register

    def publish_completion(self, of: str, argument: str, completion: Completion) -> None:
        """Add a completion that has been made.

        Raises:
            RegistrationError: the argument has one.
        """
        _refuse_taken("completion", f"{of} {argument}", (of, argument) in self.completions)
        self.completions[of, argument] = completion

    def add_workflow(self, workflow: Workflow) -> Workflow:
        """Publish a workflow as a prompt of the same name. Its tools may be registered before it or after it.

        It is checked with all others when the handler is made, or at once where that has been done.

        Raises:
            WorkflowError: the name is taken, or, once the handler has been made, the workflow cannot work.
        """
        if workflow.name in self.prompts or workflow.name in self.workflows:
            raise WorkflowError(workflow.name, "the name is already taken by a prompt; give it another")
        added = {workflow.name: workflow}
        self.workflows |= checked_workflows(added, self.tools, in_full=False) if self._is_checked else added
        return workflow

    def include(self, other: "Server", prefix: str = "") -> None:
        """Publish what another server has now: tools, resources, prompts, workflows and completions.

        What is registered on the other one later is not seen. Its own settings (`mask_errors`, `instructions`) and
        overrides do not come with it.

        Args:
            other: The other server, which stays as it is.
            prefix: Stands before the names of tools, prompts and workflows, as `billing_`. URIs stay as they are.

        Raises:
            RegistrationError: a name or URI is taken, or is not allowed with the prefix. Then nothing was added.
        """
        from mcp_baton.server.including import include

        include(self, other, prefix)

    @contextmanager
    def override(self, factory: Callable[..., object], by: Callable[..., object]) -> Iterator[None]:
        """For tests: have another factory called wherever this server's functions declare `Depends(factory)`.

        What is made for the process meanwhile is kept apart, and closed at the end.

        Raises:
            RegistrationError: nothing here depends on `factory`, or `by` cannot stand in its place.
        """
        from mcp_baton.server.overriding import overriding

        with overriding(self, factory, by):
            yield

    def check(self, *, in_full: bool = True) -> None:
        """Refuse workflows that cannot work, and give each step whose tool is a function that tool's name.

        Args:
            in_full: Ask pydantic, too: about paths into what tools return, and defaults of arguments, whose types only
                it knows. `handler(server)` does not, since importing pydantic is most of a cold start; `baton serve`
                and `mcp_baton.testing` do (docs/workflows.md, "What is checked").

        Raises:
            WorkflowError: one cannot work; names workflow, step and cause.
            RegistrationError: a tool's return type has no schema.
        """
        self.workflows = checked_workflows(self.workflows, self.tools, in_full=in_full)
        self._is_checked = True

    def arguments_of(self, of: str) -> frozenset[str]:
        """The names of the arguments of a prompt or workflow, or of the variables of a resource's template."""
        if of in self.resources:
            return frozenset(self.resources[of].variables)
        published = self.prompts.get(of) or self.workflows.get(of)
        return frozenset(argument.name for argument in published.arguments) if published else frozenset()


def _name_of(function: Callable[..., object]) -> str:
    name = getattr(function, "__name__", None) or getattr(getattr(function, "func", None), "__name__", None)
    if not isinstance(name, str) or name == "<lambda>":
        raise RegistrationError(f"{function!r} has no name of its own; give it one with name=...")
    return name


def _refuse_taken(kind: str, name: str, taken: bool) -> None:
    if taken:
        raise RegistrationError(f"{kind} {name!r}: the name is already taken; give it another")
