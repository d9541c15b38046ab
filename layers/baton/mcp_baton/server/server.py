"""`Server`: what users write against; a registry of tools, resources, prompts and workflows (docs/tools.md)."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, Unpack, overload

from mcp_baton.exceptions import RegistrationError
from mcp_baton.protocol.budget import PLACEHOLDER_BYTES
from mcp_baton.protocol.json import JsonObject
from mcp_baton.server.definitions.completion import Completer, completion_of
from mcp_baton.server.definitions.labels import (
    TOOL_OPTIONS,
    AllLabels,
    PromptLabels,
    byte_count,
    check_handles,
    labels_of,
    name_of,
    required,
    seconds,
)
from mcp_baton.server.definitions.prompt import Prompt
from mcp_baton.server.definitions.resource import APP_URI, SCHEME, Resource, is_own
from mcp_baton.server.definitions.tool import Tool, ToolOptions, task_support
from mcp_baton.server.registry import Handles, Registry, set_by_tool

if TYPE_CHECKING:
    from mcp_baton.server.definitions.workflow_function import WorkflowOptions
    from mcp_baton.server.running.dependencies import Override


class Registrar(Protocol):
    """A decorator that publishes a function and returns it unchanged."""

    def __call__[F: Callable[..., object]](self, function: F, /) -> F:
        """Publish the function."""


class Server(Registry):
    """An MCP server.

    Args:
        name: How it is called on the wire.
        version: Its version, for the client to show.
        title: A name for people.
        instructions: What a model should know before it uses the server.
        website_url: Where people can read about it.
        icons: MCP `Icon` objects.
        reply_budget_s: Seconds after which a workflow begins no further step, where its client hears nothing before the
            reply, or is called as a tool: hosts give up on a call after 60 s (docs/workflows.md, As a tool).
        handles: `text` for hosts where people pick prompts and nothing sets `_meta`: a handoff then names its task, and
            a workflow's prompt takes `task_id`.
        mask_errors: Whether clients read `internal error in NAME (id …)` in the place of what any exception but a
            `ToolError` says. The log has it either way (docs/tools.md, Errors).
        poll_interval_s: How often clients are asked to look at a task, seconds; by its age unless given: 1 s at first,
            up to 15 s, and 60 s while it waits for a person (docs/background.md, Status and polling).
        placeholder_bytes: The most bytes of stored values, as JSON, that placeholders may put into one call
            (docs/workflows.md, Placeholders sent back).
        result_wait_s: Seconds that `tasks/result` waits for a task that a worker works on; 0 for not at all.
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
        reply_budget_s: float = 50,
        handles: Handles = "meta",
        poll_interval_s: float | None = None,
        result_wait_s: float = 30,
        placeholder_bytes: int = PLACEHOLDER_BYTES,
    ) -> None:
        super().__init__()
        check_handles(handles)
        self.reply_budget_s = seconds("reply_budget_s", reply_budget_s, endless=True)
        self.poll_interval_s = None if poll_interval_s is None else seconds("poll_interval_s", poll_interval_s)
        self.result_wait_s = seconds("result_wait_s", result_wait_s, zero=True)
        self.placeholder_bytes = byte_count("placeholder_bytes", placeholder_bytes)
        self.name = name
        self.version = version
        self.title = title
        self.instructions = instructions
        self.website_url = website_url
        self.icons = tuple(icons)
        self.mask_errors = mask_errors
        self.handles = handles
        self.overrides: list[Override] = []

    @overload
    def tool[F: Callable[..., object]](self, function: F, /) -> F: ...
    @overload
    def tool(
        self,
        *,
        name: str | None = None,
        input_schema: JsonObject | None = None,
        requires: Sequence[str] = (),
        sets: Sequence[str] = (),
        **options: Unpack[ToolOptions],
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
        sets: Sequence[str] = (),
        **options: Unpack[ToolOptions],
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
            sets: The task variables that it sets. A handoff then names the tool where one of them is missing.
            options: What is shown of it, and how it may run as a task: see `ToolOptions`.

        Returns:
            The function.

        Raises:
            RegistrationError: the name is taken, it or a parameter's name is not one that every host takes
                (docs/tools.md, Names), the signature has no schema, or `sets` names what a tool cannot set.
        """
        name = name or name_of(function)
        what, labels = f"tool {name!r}", dict[str, Any](options)
        scopes, variables, tasks = required(requires, what), set_by_tool(sets, what), task_support(labels, what)
        own = labels_of(labels, what, TOOL_OPTIONS)
        self.publish_tool(Tool(function, name, own, input_schema, scopes, variables, tasks))
        return function

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
            raise RegistrationError("resource: its URI is missing; write @server.resource('docs://{topic}')")
        if is_own(uri) or uri.lower() == APP_URI:
            raise RegistrationError(f"resource {uri!r}: {SCHEME} and {APP_URI} are Baton's own; choose another")
        scopes = required(requires, f"resource {uri!r}")

        def register[F: Callable[..., object]](function: F, /) -> F:
            own = labels_of(labels, f"resource {uri!r}", ("name", "requires", "mime_type"))
            self.publish_resource(Resource(uri, function, name or name_of(function), own, mime_type, scopes))
            return function

        return register

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
            what = f"prompt {(own := name or name_of(function))!r}"
            made = labels_of(labels, what, ("name", "requires"))
            self.publish_prompt(Prompt(function, own, made, required(requires, what)))
            return function

        return register if function is None else register(function)

    @overload
    def workflow[F: Callable[..., object]](self, function: F, /) -> F: ...
    @overload
    def workflow(self, *, name: str | None = None, **options: "Unpack[WorkflowOptions]") -> Registrar: ...
    def workflow(self, function: Any = None, *, name: str | None = None, **options: "Unpack[WorkflowOptions]") -> Any:
        """Publish a workflow that a function describes; with or without parentheses (docs/workflows.md).

        The function is called once, here. Its calls of `step(tool)(…)` and `fetch(…)` are recorded as the steps;
        nothing runs. Its parameters are the workflow's arguments, its docstring is the description.

        Raises:
            WorkflowError: The function cannot describe a workflow; names its file and line, and what to write instead.
        """
        from mcp_baton.server.definitions.workflow_function import workflow_of_function

        def register[F: Callable[..., object]](function: F, /) -> F:
            functions = {name: tool.decorated for name, tool in self.tools.items()}
            self.add_workflow(workflow_of_function(function, name, functions, options))
            return function

        return register if function is None else register(function)

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
        self.check_argument(of, argument)

        def register(function: Completer) -> Completer:
            made = completion_of(function, f"completion of {of!r} {argument!r}")
            self.publish_completion(of, argument, made)
            return function

        return register

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
        from mcp_baton.server.registry import include

        include(self, other, prefix)

    @contextmanager
    def override(self, factory: Callable[..., object], by: Callable[..., object]) -> Iterator[None]:
        """For tests: have another factory called wherever this server's functions declare `Depends(factory)`.

        What is made for the process meanwhile is kept apart, and closed at the end.

        Raises:
            RegistrationError: nothing here depends on `factory`, or `by` cannot stand in its place.
        """
        from mcp_baton.server.running.dependencies import overriding

        with overriding(self, self.overrides, factory, by):
            yield
