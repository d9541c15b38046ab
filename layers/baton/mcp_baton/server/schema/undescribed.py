"""Types that have no schema: which one it is, and what to write instead. Imported when one was found."""

from mcp_baton.exceptions import RegistrationError

REMEDY = "use a type that pydantic knows, as str, a dataclass or a model"


def parameter_error(what: str, name: str, annotation: object, cause: str | None = None) -> RegistrationError:
    """A parameter that cannot be described to clients.

    Args:
        what: How to name the function, e.g. `tool 'refund'`.
        name: The parameter.
        annotation: Its type, or the part of it that is to blame.
        cause: What pydantic said.
    """
    shown = shown_type(annotation)
    filled = f"write {name}: Annotated[{shown}, Depends(…)] for what the server makes"
    return RegistrationError(
        f"{what}: the parameter {name!r} is of the type {shown}, which clients cannot be told of{_said(cause)}; "
        f"{REMEDY}, or {filled}"
    )


def return_error(what: str, annotation: object, cause: str | None = None) -> RegistrationError:
    """A return type that cannot be described to clients."""
    return RegistrationError(
        f"{what}: its return type {shown_type(annotation)} has no schema{_said(cause)}; "
        "return what can be: a dict, a dataclass or a model, or leave the return type out"
    )


def argument_cause(name: str, annotation: object, cause: str | None = None) -> str:
    """Why a workflow's argument cannot be converted to its type."""
    return (
        f"the argument {name!r} is of the type {shown_type(annotation)}, to which nothing converts{_said(cause)}; "
        "give it a type= that pydantic knows"
    )


def shown_type(annotation: object) -> str:
    """A type as it is written."""
    return annotation.__name__ if isinstance(annotation, type) else str(annotation).replace("typing.", "")


def first_line(error: BaseException) -> str:
    """What an exception says, without what comes after its first line."""
    return str(error).partition("\n")[0].rstrip(". ")


def _said(cause: str | None) -> str:
    return f" ({cause})" if cause else ""
