"""`Server`: the tools, resources, prompts, workflows and completions that an author publishes (docs/tools.md)."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol, Unpack, overload

from msgspec import Struct

from mcp_baton.definition_lines import is_loading
from mcp_baton.exceptions import RegistrationError, WorkflowError
from mcp_baton.protocol.json import JsonObject
from mcp_baton.tools.completion import Completer, Completion, completion_of
from mcp_baton.tools.labels import (
    AllLabels,
    PromptLabels,
    labels_of,
    name_of,
    not_a_function,
    required_scopes,
    variable_names,
    workflow_names,
)
from mcp_baton.tools.prompt import Prompt
from mcp_baton.tools.resource import APP_URI, SCHEME, Resource, is_reserved
from mcp_baton.tools.schema.signature import is_async
from mcp_baton.tools.tool import Tool, ToolOptions, task_support
from mcp_baton.workflow.server_view import ServerOptions, ServerView, TaskIds

if TYPE_CHECKING:
    from mcp_baton.approvals.record import ApprovalListener, ApprovalRequest
    from mcp_baton.workflow.definition import Workflow
    from mcp_baton.workflow.workflow_function import WorkflowOptions
    from mcp_baton.workflow.workflow_tool import WorkflowTool


class Registrar(Protocol):
    """A decorator that publishes a function and returns it unchanged."""

    def __call__[F: Callable[..., object]](self, function: F, /) -> F:
        """Publish the function."""


class Server:
    """An MCP server.

    Args:
        name: Its name in the protocol.
        version: Its version, which clients may show.
        title: A name for people.
        instructions: What a model should know before it uses the server.
        website_url: Where people can read about it.
        icons: MCP `Icon` objects.
        mask_errors: Whether clients read `internal error in NAME (id …)` instead of the text of any exception except
            `ToolError`. The log always has the exception (docs/tools.md, Errors).
        reply_budget_s: Seconds after which a workflow starts no further step, if it is called as a tool or its client
            receives no progress. Hosts stop waiting after 60 s (docs/workflows.md, As a tool).
        task_ids: `text` for hosts where people pick prompts and no model sets `_meta`: a handoff then names its task,
            and a workflow's prompt takes `task_id`.
        poll_interval_s: How often clients should poll a task, seconds. By default this depends on the task's age: 1 s
            at first, up to 15 s, and 60 s while it waits for a person (docs/background.md, Status and polling).
        result_wait_s: Seconds that `tasks/result` waits for a background task; 0 to return at once.
        placeholder_bytes: The most bytes of stored values, as JSON, that placeholders may insert into one call
            (docs/reference/workflow-rules.md, Placeholders).
        repeats: How long after a slow reply an equal first call of a workflow's tool gets the task of that reply
            instead of a new one; `timedelta(0)` for never (docs/workflows.md, Repeated calls).

    Attributes:
        options: These arguments.
        tools: By name.
        resources: By URI, or by URI template.
        prompts: By name.
        workflows: By name. A prompt and a workflow cannot have the same name.
        completions: By what they complete (a prompt, a workflow or a URI template) and the name of its argument.

    Raises:
        RegistrationError: an option has a value that it cannot have.
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
        task_ids: TaskIds = "meta",
        poll_interval_s: float | None = None,
        result_wait_s: float = 30,
        placeholder_bytes: int = 1_000_000,
        repeats: timedelta = timedelta(minutes=2),
    ) -> None:
        self.options = ServerOptions(
            name,
            version,
            title,
            instructions,
            website_url,
            tuple(icons),
            mask_errors,
            reply_budget_s,
            task_ids,
            poll_interval_s,
            result_wait_s,
            placeholder_bytes,
            repeats,
        )
        self.tools: dict[str, Tool] = {}
        self.resources: dict[str, Resource] = {}
        self.prompts: dict[str, Prompt] = {}
        self.workflows: dict[str, Workflow] = {}
        self.completions: dict[tuple[str, str], Completion] = {}
        self._workflow_tools: dict[str, WorkflowTool] = {}
        self.approval_listeners: list[ApprovalListener] = []
        self._closed_view: ServerView | None = None

    @overload
    def tool[F: Callable[..., object]](self, function: F, /) -> F: ...
    @overload
    def tool(self, **options: Unpack[ToolOptions]) -> Registrar: ...
    def tool(self, function: Any = None, **options: Any) -> Any:
        """Publish a function as a tool: a decorator, with or without parentheses. See `add_tool`."""

        def register[F: Callable[..., object]](function: F, /) -> F:
            return self.add_tool(function, **options)

        return _apply_decorator(function, register)

    def add_tool[F: Callable[..., object]](self, function: F, **options: Unpack[ToolOptions]) -> F:
        """Publish a function as a tool.

        The docstring becomes the description, and the signature becomes the schemas. Parameters annotated with
        `Context` or `Depends` are filled by the server and are not part of the schema. The function may return anything
        that can be written as JSON, content (`Image`, `Audio`, `EmbeddedResource`, `ResourceLink`, `Text`), a list of
        both, or a `ToolResult`.

        Args:
            function: A `def` or an `async def`.
            options: See `ToolOptions`.

        Returns:
            The function.

        Raises:
            RegistrationError: the name is taken, the name or a parameter's name is not accepted by every host
                (docs/tools.md, Names), the signature has no schema, or `sets` has a variable that tools cannot set.
        """
        labels = dict[str, Any](options)
        name = labels.pop("name", None) or name_of(function)
        subject = f"tool {name!r}"
        schema, approval = labels.pop("input_schema", None), labels.pop("approval", None)
        scopes = required_scopes(labels.pop("requires", ()), subject)
        variables = variable_names(labels.pop("sets", ()), subject)
        workflows = workflow_names(labels.pop("only_in", ()), subject)
        tasks = task_support(labels, subject)
        tool_labels = labels_of(labels, subject, ToolOptions.__annotations__)
        tool = Tool(function, name, tool_labels, schema, scopes, variables, tasks, workflows, approval)
        self._add("tool", name, tool, self.tools)
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
            RegistrationError: the URI is taken or reserved for Baton, or its `{name}`s are not the function's
                parameters.
        """
        subject = f"resource {uri!r}"
        if not isinstance(uri, str):
            raise RegistrationError("resource: its URI is missing; write @server.resource('docs://{topic}')")
        if ":" not in uri.partition("/")[0] and not uri.startswith("{"):
            raise RegistrationError(f"resource {uri!r}: it has no scheme; write 'docs://{uri.lstrip('/')}'")
        if is_reserved(uri) or uri.lower() == APP_URI:
            raise RegistrationError(f"resource {uri!r}: {SCHEME} and {APP_URI} are reserved for Baton; use another URI")

        def register[F: Callable[..., object]](function: F, /) -> F:
            resource_labels = labels_of(labels, subject, ("name", "requires", "mime_type"))
            scopes = required_scopes(requires, subject)
            resource = Resource(uri, function, name or name_of(function), resource_labels, mime_type, scopes)
            self._add("resource", uri, resource, self.resources)
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
        """Publish a function as a prompt: a decorator, with or without parentheses, on `def` and `async def`.
        `requires` as `add_tool`.

        Raises:
            RegistrationError: the name is taken, or the signature has no schema.
        """

        def register[F: Callable[..., object]](function: F, /) -> F:
            prompt_name = name or name_of(function)
            subject = f"prompt {prompt_name!r}"
            prompt_labels = labels_of(labels, subject, ("name", "requires"))
            prompt = Prompt(function, prompt_name, prompt_labels, required_scopes(requires, subject))
            self._add("prompt", prompt_name, prompt, self.prompts, self.workflows)
            return function

        return _apply_decorator(function, register)

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
        from mcp_baton.workflow.workflow_function import workflow_of_function

        def register[F: Callable[..., object]](function: F, /) -> F:
            functions = {name: tool.decorated for name, tool in self.tools.items()}
            if function in functions.values():
                raise WorkflowError(
                    name or name_of(function), "the function is a tool already; write two functions, one for each"
                )
            self.add_workflow(workflow_of_function(function, name, functions, options))
            return function

        return _apply_decorator(function, register)

    def on_approval(self, function: "ApprovalListener") -> "ApprovalListener":
        """Publish a function that notifies people of an approval that waits for them: a decorator.

        It receives an `ApprovalRequest` after the call that needs the approval has paused, at least once for each
        approval. If it raises, the error is logged, and it is called again (docs/approvals.md, Notifications).
        """
        if not callable(function):
            raise RegistrationError(f"on_approval: {not_a_function(function)}")
        if is_async(function):
            raise RegistrationError("on_approval: the function is asynchronous, so it would never run; write def")
        self.approval_listeners.append(function)
        return function

    def completion(self, of: str, argument: str) -> Callable[[Completer], Completer]:
        """Publish a function that completes an argument: `@server.completion("docs://{topic}", "topic")`.

        The function takes the text that was typed so far and, optionally, the arguments that are already known. It
        returns suggestions, the best first. Parameters annotated with `Context` or `Depends` are filled by the server.

        Args:
            of: The name of a prompt or workflow, or the URI template of a resource. It must be registered before.
            argument: The name of its argument.

        Raises:
            RegistrationError: there is no such argument, or it already has a completion.
        """
        arguments = self.full_view.arguments_of(of)
        if argument not in arguments:
            from mcp_baton.hints import did_you_mean

            named = {**self.prompts, **self.workflows, **self.resources}
            cause = (
                f"it has no argument {argument!r}{did_you_mean(argument, sorted(arguments))}"
                if of in named
                else f"no prompt, workflow or resource registered before has this name{did_you_mean(of, named)}"
            )
            raise RegistrationError(f"completion of {of!r}: {cause}")

        def register(function: Completer) -> Completer:
            completion = completion_of(function, f"completion of {of!r} {argument!r}")
            self._add("completion", (of, argument), completion, self.completions)
            return function

        return register

    def add_workflow(self, workflow: "Workflow") -> "Workflow":
        """Publish a workflow as a prompt of the same name. Its tools may be registered before it or after it.

        `handler(server)` checks it together with all others.

        Raises:
            RegistrationError: it is not a `Workflow`, or the server is closed.
            WorkflowError: the name is taken.
        """
        from mcp_baton.workflow.definition import Workflow, workflow_type_error

        definition: object = workflow
        if not isinstance(definition, Workflow):
            raise workflow_type_error(definition)
        self._add_workflow(workflow, self.workflows, self.prompts)
        return workflow

    def include(self, other: "Server", prefix: str = "") -> None:
        """Publish everything that another server has now: tools, resources, prompts, workflows and completions. The
        functions of its `on_approval` receive the approvals of its tools.

        Anything registered on the other server later is not included, nor are its options (`mask_errors`,
        `instructions`).

        Args:
            other: The other server. It is not changed.
            prefix: Put before the names of tools, prompts and workflows, such as `billing_`. URIs keep their names.

        Raises:
            RegistrationError: a name or URI is taken, or is not possible with the prefix. Then nothing was added.
        """
        tools, resources, prompts = {**self.tools}, {**self.resources}, {**self.prompts}
        workflows, completions = {**self.workflows}, {**self.completions}
        for tool in list(other.tools.values()):
            self._add("tool", prefix + tool.name, tool.renamed(prefix), tools)
        for resource in list(other.resources.values()):
            self._add("resource", resource.uri, resource, resources)
        for prompt in list(other.prompts.values()):
            self._add("prompt", prefix + prompt.name, prompt.renamed(prefix + prompt.name), prompts, workflows)
        if other.workflows:
            from mcp_baton.workflow.checking import resolved

            for workflow in list(other.workflows.values()):
                self._add_workflow(resolved(workflow, other.tools).renamed(prefix), workflows, prompts)
        for (of, argument), completion in list(other.completions.items()):
            key = (of if of in other.resources else prefix + of, argument)
            self._add("completion", key, completion, completions)
        self.tools.update(tools)
        self.resources.update(resources)
        self.prompts.update(prompts)
        self.workflows.update(workflows)
        self.completions.update(completions)
        for listener in list(other.approval_listeners):
            inner = listener if isinstance(listener, _OfTools) else _OfTools(listener, other.tools.keys())
            self.approval_listeners.append(_OfTools(inner.listener, {prefix + name for name in inner.tools}))

    def check(self, *, in_full: bool = True) -> None:
        """Check all definitions. Steps whose tool is a function get that tool's name.

        Args:
            in_full: Also check what only pydantic knows: types, paths into the output of tools, and defaults.
                `handler(server)` does not, because importing pydantic is most of a cold start; `baton serve` and
                `mcp_baton.testing` do (docs/workflows.md, "What is checked").

        Raises:
            WorkflowError: a workflow cannot work; names workflow, step and cause.
            RegistrationError: a type of a tool, resource or prompt has no schema; names it and the parameter.
        """
        if is_loading():
            return
        if in_full or self.workflows or any(tool.only_in for tool in self.tools.values()):
            from mcp_baton.workflow.function_checks import check_workflows, definitions_without_schema

            if in_full and (
                invalid := next(definitions_without_schema(self.tools, self.resources, self.prompts), None)
            ):
                raise invalid[1]
            self.workflows.update(check_workflows(self.workflows, self.tools, in_full=in_full))

    def close(self) -> None:
        """Refuse later additions. `handler(server)` closes the server after its checks."""
        self._closed_view = None  # a copy of a closed server may publish other tools
        self._closed_view = self.full_view

    @property
    def full_view(self) -> ServerView:
        """Everything that the server publishes."""
        if self._closed_view is not None:
            return self._closed_view
        published = (self.tools, self.resources, self.prompts, self.workflows, self.completions)
        return ServerView(self.options, *published, self._workflow_tools, self.approval_listeners)

    def _add[Key: (str, tuple[str, str]), Item](
        self, kind: str, key: Key, item: Item, into: dict[Key, Item], others: Mapping[str, object] | None = None
    ) -> None:
        name = key if isinstance(key, str) else " ".join(key)
        self._check_open(kind, name)
        existing = into.get(key) or (others or {}).get(name)
        if existing is not None:
            from mcp_baton.hints import source_location

            function = getattr(existing, "function", None)
            if function is not None and function == getattr(item, "function", None):
                remedy = "publish it once, with all options"
                raise RegistrationError(f"{kind} {name!r}: its function is published twice; {remedy}")
            location = source_location(function)
            raise RegistrationError(
                f"{kind} {name!r}: the name is already taken{f' by {location}' if location else ''}; give it another"
            )
        into[key] = item

    def _add_workflow(self, workflow: "Workflow", into: "dict[str, Workflow]", prompts: Mapping[str, Prompt]) -> None:
        self._check_open("workflow", workflow.name)
        if workflow.name in prompts or workflow.name in into:
            raise WorkflowError(workflow.name, "the name is already taken by a prompt; give it another")
        into[workflow.name] = workflow

    def _check_open(self, kind: str, name: str) -> None:
        if self._closed_view is not None:
            raise RegistrationError(
                f"{kind} {name!r}: handler(server) has checked and closed the server; add it before that call"
            )


def _apply_decorator(function: Any, register: Registrar) -> Any:
    """Apply a decorator that may be written with or without parentheses."""
    if function is None:
        return register
    if callable(function):
        return register(function)
    raise not_a_function(function)


class _OfTools(Struct, frozen=True):
    """The function of an included server that is notified of the approvals of its tools, by their names here."""

    listener: "ApprovalListener"
    tools: Collection[str]

    def __call__(self, request: "ApprovalRequest") -> None:
        if request.record["tool"] in self.tools:
            self.listener(request)
