"""Prompt arguments: strings from the client, checked and converted before a run starts (docs/workflows.md)."""

import types
import typing
from collections.abc import Sequence
from json import JSONDecodeError
from typing import TYPE_CHECKING, Any, Final, cast

from mcp_baton.protocol.json import Json, JsonObject, dumps, loads
from mcp_baton.protocol.jsonrpc import InvalidParams
from mcp_baton.tools.arguments import Argument
from mcp_baton.tools.outcomes import InvalidField, Mismatch
from mcp_baton.tools.quoting import MAX_QUOTED_CHARS, quoted_error
from mcp_baton.tools.schema.nulls import validate, validate_json
from mcp_baton.tools.schema.plain import NotPlain, plain_type
from mcp_baton.tools.schema.schema import InvalidArguments, mismatch_of, not_finite
from mcp_baton.tools.schema.sent_values import dumped_value, infinite_numbers
from mcp_baton.tools.schema.signature import by_first_name
from mcp_baton.tools.secrets import oversized_secret
from mcp_baton.tools.templates import as_text, matches_template

if TYPE_CHECKING:
    from pydantic import TypeAdapter


SECRETS: Final = "secretArguments"
"""The member of an error's `data` with the names of missing secret arguments (docs/workflows.md, Secret arguments)."""


class ArgumentRefused(InvalidParams):
    """An argument is missing, unknown or does not convert."""

    def __init__(self, problem: str, secrets: Sequence[str] = ()) -> None:
        super().__init__(problem, {SECRETS: [*secrets]} if secrets else None)
        self.problem = problem


def check_arguments(declarations: Sequence[Argument], arguments: JsonObject) -> tuple[dict[str, str], dict[str, Json]]:
    """Return the arguments as texts, and converted to their types. Raises `ArgumentRefused`."""
    by_name = {argument.name: argument for argument in declarations}
    arguments = named(declarations, arguments)
    for name in arguments.keys() - by_name.keys():
        known = ", ".join(by_name) or "none"
        raise ArgumentRefused(f"unknown argument {name!r}; this prompt takes {known}")
    arguments = with_defaults(declarations, arguments)
    missing = [argument.name for argument in declarations if argument.required and argument.name not in arguments]
    if missing:
        names = " and ".join(map(repr, missing))
        secrets = [argument.name for argument in declarations if argument.secret and argument.name in missing]
        raise ArgumentRefused(
            f"the argument{'s' * (len(missing) > 1)} {names} {'are' if missing[1:] else 'is'} required", secrets
        )
    values = {name: _convert(by_name[name], value) for name, value in arguments.items()}
    for name, value in values.items():
        problem = oversized_secret(arguments[name], value) if by_name[name].secret else None
        if problem:
            raise ArgumentRefused(f"the argument {name!r} is secret, and {problem}")
    return {name: as_text(value) for name, value in arguments.items()}, values


def _is_left_out(argument: Argument, value: Json) -> bool:
    """Whether a form has sent an empty value for an optional argument that does not accept it."""
    if argument.required or not is_empty(value):
        return False
    if argument.type in (str, int, float, bool):  # needs no import of pydantic
        return value is None or argument.type is not str
    try:
        convert(value, argument.type)
    except InvalidArguments:
        return True
    return False


def with_defaults(declarations: Sequence[Argument], arguments: JsonObject) -> dict[str, Json]:
    """Return the arguments as they were sent, by the names of their declarations, and the defaults of those that were
    left out."""
    by_name = {argument.name: argument for argument in declarations}
    sent = named(declarations, arguments).items()
    defaults = {argument.name: _default(argument) for argument in declarations if argument.default is not None}
    return defaults | {name: value for name, value in sent if not _is_left_out(by_name[name], value)}


def _default(argument: Argument) -> Json:
    return as_text(argument.default) if argument.type is str else argument.default


def named(declarations: Sequence[Argument], arguments: JsonObject) -> JsonObject:
    """Return the arguments by the names of their declarations."""
    return by_first_name(arguments, ((argument.name, *argument.other_names) for argument in declarations))


def is_empty(value: Json) -> bool:
    """Whether a value is null or an empty text, which models and forms send for what was left out."""
    return value is None or (isinstance(value, str) and not value.strip())


def check_answers(questions: Sequence[Argument], answers: JsonObject) -> dict[str, Json]:
    """Convert the answers. Raises `ArgumentRefused`, which names all invalid ones."""
    by_name = {question.name: question for question in questions}
    values: dict[str, Json] = {}
    problems: list[str] = []
    for name, value in answers.items():
        if name not in by_name:
            problems.append(f"there is no question {quoted_error(name)}; the questions are {', '.join(by_name)}")
            continue
        if _is_placeholder(value, by_name[name].description):
            problems.append(f"the answer {name!r} is the placeholder; replace it with the answer")
            continue
        try:
            values[name] = convert(value, by_name[name].type)
        except InvalidArguments as error:
            problems.append(f"the answer {name!r} does not convert: {error}")
    if problems:
        raise ArgumentRefused("; ".join(problems))
    return values


def _is_placeholder(value: Json, question: str) -> bool:
    """Whether a value is the placeholder for the answer in a suggested call: `<Who borrows the book?>`."""
    if not isinstance(value, str) or not (value.startswith("<") and value.endswith(">")):
        return False
    # A long question is cut there.
    is_cut = value.endswith(" …>") and len(value) == MAX_QUOTED_CHARS + len("< …>")
    return is_cut or matches_template(question, value[1:-1])


def default_error(argument: Argument, *, in_full: bool) -> str | None:
    """Return why a default does not convert. `None` if it converts, or if only pydantic can tell and `in_full` is
    false."""
    try:
        if in_full or argument.type in (str, int, float, bool):
            convert(_default(argument), argument.type)
    except InvalidArguments as error:
        return str(error)
    return None


def _convert(argument: Argument, value: Json) -> Json:
    try:
        return convert(value, argument.type)
    except InvalidArguments as error:
        if argument.secret:  # the text may quote the value
            raise ArgumentRefused(f"the argument {argument.name!r} does not convert to its type") from None
        raise ArgumentRefused(f"the argument {argument.name!r} does not convert: {error}") from error
    except Exception:
        if argument.secret:
            raise RuntimeError(f"the type of the secret argument {argument.name!r} failed") from None
        raise


def convert(value: Json, target: Any) -> Json:
    """Convert a prompt argument to its type, and return it as JSON. A string may be the JSON text of the value. Raises
    `InvalidArguments`."""
    plain = plain_type(target)
    if plain is not None:
        try:
            return cast("Json", plain.dump(plain.bind(value)))
        except NotPlain:
            pass  # pydantic converts it, or explains the error
    from pydantic import TypeAdapter, ValidationError

    adapter = TypeAdapter(target)
    try:
        return _dump(adapter, value, validate(adapter, value, adapter.json_schema))
    except ValidationError as error:
        first_error = error
    text = value if isinstance(value, str) else ""
    try:
        inner = loads(text)
    except JSONDecodeError:
        raise InvalidArguments(mismatch_of(first_error)) from first_error
    except ValueError as error:  # it has a NaN in it, for example
        raise InvalidArguments(Mismatch(invalid=(InvalidField("value", str(error)),))) from error
    try:
        return _dump(adapter, inner, adapter.validate_json(text))  # the dump validates the items of an `Iterable`
    except ValidationError as error:
        # A list or an object in JSON is what the client has meant; another text is probably no JSON.
        shown = error if isinstance(inner, list | dict) else first_error
        raise InvalidArguments(mismatch_of(shown)) from error


def canonical_argument(argument: Argument, sent: Json) -> Json:
    """Return what was sent, but a number or a boolean as it is converted: `"5"` and `5.0` for an `int` become `5`."""
    if sent is None or not _is_number_or_boolean(argument.type):
        return sent
    try:
        return convert(sent, argument.type)
    except Exception:  # noqa: BLE001 - the call is refused; a validator of the author may raise anything
        return sent


def _is_number_or_boolean(target: Any) -> bool:
    if typing.get_origin(target) is typing.Annotated:
        target = typing.get_args(target)[0]
    is_union = typing.get_origin(target) in (typing.Union, types.UnionType)
    options = [option for option in typing.get_args(target) if option is not types.NoneType] if is_union else [target]
    return len(options) == 1 and options[0] in (int, float, bool)


def _dump(adapter: "TypeAdapter[Any]", sent: Json, converted: object) -> Json:
    """Return a converted value as JSON that its type accepts again. If the dump would lose a part, such as a masked or
    excluded field, or if the names for input and output differ (`validation_alias`), return what was sent."""
    from pydantic_core import PydanticSerializationError

    fields = infinite_numbers(sent, converted, adapter.json_schema)
    if fields:
        raise InvalidArguments(not_finite(fields))
    try:
        result = adapter.dump_python(converted, mode="json", by_alias=True)
    except UnicodeEncodeError:  # a key has a lone surrogate
        return sent
    except PydanticSerializationError as error:
        # This is a `ValueError`, but the client did not cause it: the author's type failed.
        raise RuntimeError("an argument's serializer failed") from error
    try:
        result = loads(dumps(result))
    except ValueError:  # a default is infinite, which JSON cannot represent
        return sent
    result = dumped_value(sent, result, converted, adapter.json_schema)
    return result if not isinstance(result, dict | list) or _accepts(adapter, result) else sent


def _accepts(adapter: "TypeAdapter[Any]", value: Json) -> bool:
    from pydantic import ValidationError

    try:
        validate_json(adapter, value)
    except ValidationError:
        return False
    return True
