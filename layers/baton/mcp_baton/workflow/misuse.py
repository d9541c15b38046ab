"""Something of another kind than a step or a workflow is made of: what to say of it, and what to write instead.
Imported when something is refused. Pure."""

from collections.abc import Mapping

from mcp_baton.exceptions import RegistrationError, WorkflowError


def wrong_step(
    name: object, tool: object, arguments: object, resources: object, bindings: object, retry: object
) -> RegistrationError:
    """Why a step cannot be made of these; names it and what is wrong with the first of them that is."""
    maps = [given for given in (arguments, bindings) if given and not isinstance(given, Mapping)]
    if not isinstance(name, str):
        cause = "its name is a text; write Step('…', tool=…)"
    elif isinstance(resources, str):
        cause = f"resources is a list of URIs; write resources=[{resources!r}]"
    elif maps:
        cause = no_arguments(maps[0])
    elif retry is not None and tool is None:
        cause = "retry is for a step with a tool; leave it out"
    elif tool is None or isinstance(tool, str) or callable(tool):
        cause = f"retry={shown(retry)} is no Retry; write retry=Retry(attempts=3)"
    else:
        cause = no_function(tool)
    return RegistrationError(f"step {name!r}: {cause}")


def wrong_members(workflow: str, field: str, given: object, kind: type) -> WorkflowError:
    """Why a workflow's `steps` or `arguments` cannot be these."""
    if isinstance(given, list | tuple):
        cause = no_item(field, next(member for member in given if not isinstance(member, kind)))
    else:
        cause = no_list(field, given, kind)
    return WorkflowError(workflow, cause)


def no_item(field: str, item: object) -> str:
    """What is wrong with something in a workflow's `steps` or `arguments` that is none of them."""
    name = item if isinstance(item, str) else getattr(item, "__name__", None)
    if field == "arguments":
        named = repr(name) if name else "'…'"
        return f"{shown(item)} is no argument; write Argument({named})"
    if name is None:
        return f"{shown(item)} is no step; write Step('…', tool=…, arguments={{…}})"
    tool = repr(item) if isinstance(item, str) else name
    return f"{shown(item)} is no step; write Step({name!r}, tool={tool}, arguments={{…}})"


def no_list(field: str, value: object, kind: type) -> str:
    """What is wrong with a `steps` or `arguments` that is not several."""
    inner = f"{kind.__name__}(…)" if isinstance(value, kind) else shown(value)
    if isinstance(value, str) or callable(value):
        return no_item(field, value) + f", in a list: {field}=[…]"
    return f"{field} is a list; write {field}=[{inner}]"


def no_arguments(value: object) -> str:
    """What is wrong with a step's arguments that are no map."""
    names = list(value) if isinstance(value, list | tuple | set | frozenset) else [value]
    texts = [name for name in names if isinstance(name, str)]
    inner = ", ".join(f"{name!r}: prompt_arg({name!r})" for name in texts) or "'…': prompt_arg('…')"
    return f"arguments={shown(value)} is no map of parameters to data sources; write arguments={{{inner}}}"


def no_function(tool: object) -> str:
    """What is wrong with a step's tool that is neither a text nor a function."""
    return (
        f"its tool is a tool's name or its function, and not {shown(tool)}; "
        "give the function itself, tool=function, without calling it"
    )


def not_added(thing: object) -> RegistrationError:
    """Why something cannot be added as a workflow."""
    said = f"add_workflow({shown(thing)}): this is no workflow"
    return RegistrationError(f"{said}; write Workflow(name=…, description=…, steps=[…])")


def shown(value: object) -> str:
    """A value in an error: a function by its name, everything else as Python writes it, cut off where it is long."""
    name = getattr(value, "__qualname__", None)
    text = name if isinstance(name, str) else repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
