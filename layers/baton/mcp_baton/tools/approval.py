"""`Approval`: a call that a person must approve before it runs (docs/approvals.md)."""

import inspect
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from msgspec import Struct, convert

from mcp_baton.exceptions import RegistrationError
from mcp_baton.hints import did_you_mean
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import APPROVAL_PREFIX
from mcp_baton.tools.quoting import one_line, quoted_error
from mcp_baton.tools.schema.signature import Signature, is_async
from mcp_baton.tools.shortening import shortened
from mcp_baton.tools.templates import fill, placeholders

logger = logging.getLogger(__name__)

MAX_EXPIRY: Final = timedelta(days=400)
MAX_MESSAGE_VALUE_CHARS: Final = 300
"""The maximum length of a value in a message, characters."""

_WORD: Final = re.compile(r"\w+(?:[.@_-]\w+)*")

AFTER_WAITS_MS: Final = 3_600_000
"""How much longer a task lives than the approvals that it needs, milliseconds."""

AFTER_APPROVAL: Final = "After the approval, make the same call again."

HIDDEN_SECRET: Final = "<secret>"  # noqa: S105 - stands for a secret
"""What people see instead of an argument with a secret."""

HIDDEN_DEFAULT: Final = "<default>"
"""What people see instead of a default that is created for each call."""

STANDS_FOR: Final = frozenset({HIDDEN_SECRET, HIDDEN_DEFAULT})


class Approval(Struct, frozen=True):
    """An approval by a person that a call needs before it runs.

    Attributes:
        audience: The group that may decide: callers with a scope of this name, and those whom the operator lists
            (docs/approvals.md, Who may decide).
        message: The question to the person. `{name}` is replaced by the tool's argument as JSON.
        when: Receives all converted arguments by name, as in `lambda amount, **_: amount > 100`. Returns whether this
            call needs an approval. If it raises, the error is logged and the call needs one. By default, each call
            needs one.
        expires: How long the approval can be decided and used.
        by_requester: Whether the requester may decide, too.

    Raises:
        RegistrationError: a value is invalid; the message names the field and the remedy.
    """

    audience: str = ""
    message: str | None = None
    when: Callable[..., object] | None = None
    expires: timedelta = timedelta(hours=24)
    by_requester: bool = False

    def __post_init__(self) -> None:
        audience: object = self.audience
        if not isinstance(audience, str) or audience.split() != [audience] or not audience.isprintable():
            raise _error("audience", audience, "the name of a group, without spaces, such as 'refunds'")
        if not (self.message is None or (isinstance(self.message, str) and self.message)):
            raise _error("message", self.message, "a text such as 'Refund {amount} EUR?', or leave it out")
        if not (self.when is None or callable(self.when)):
            raise _error("when", self.when, "a function of the arguments, such as lambda amount, **_: amount > 100")
        if not isinstance(self.expires, timedelta) or not timedelta(seconds=1) <= self.expires <= MAX_EXPIRY:
            raise _error("expires", self.expires, f"a timedelta from one second to {MAX_EXPIRY.days} days")
        if not isinstance(self.by_requester, bool):
            raise _error("by_requester", self.by_requester, "True or False")

    def needs(self, tool: str, convert_arguments: Callable[[], Mapping[str, Any]]) -> bool:
        """Whether a call of this tool needs an approval. `convert_arguments` returns its converted arguments; it is
        called for `when` alone."""
        if self.when is None:
            return True
        try:
            return bool(self.when(**convert_arguments()))
        except (Exception, SystemExit):  # code of the author may raise anything
            text = "when of the approval of %s failed, so the call needs the approval of a person of %s"
            logger.exception(text, tool, self.audience)
            return True

    def question(self, tool: str, arguments: JsonObject) -> str:
        """The message with its values, each of which is shortened by itself."""
        template = f"Run {tool}?" if self.message is None else self.message
        return fill(template, {name: _argument_text(arguments.get(name)) for name in placeholders(template)})

    def unknown_names(self, parameters: frozenset[str]) -> list[str]:
        """The names in the message that are not parameters of the tool."""
        return sorted(placeholders(self.message or "") - parameters)


def _error(field: str, value: object, remedy: str) -> RegistrationError:
    return RegistrationError(f"Approval({field}={value!r}) is not possible; give {remedy}")


def _argument_text(value: Json) -> str:
    """One word, a number and a boolean as they are; everything else as JSON, so that it cannot pass as the message."""
    value = shortened(value, MAX_MESSAGE_VALUE_CHARS)
    quoted = one_line(value)
    # Some letters are invisible, such as the Hangul filler. A word with one would read as several words.
    is_word = isinstance(value, str) and _WORD.fullmatch(value) and quoted == f'"{value}"'
    return value if isinstance(value, str) and (is_word or value in STANDS_FOR) else quoted


class NotApproved(Struct, frozen=True):
    """A call that did not run, because a person has not approved it.

    Attributes:
        expires_at: Until when it can be decided, ISO 8601 in UTC.
        reason: Why it was denied, in the decider's words; `None` while it waits.
        of_other: Whether it is the approval of another call: as many wait as may, so this call has requested none yet.
    """

    approval_id: str
    audience: str
    message: str
    expires_at: str
    reason: str | None = None
    of_other: bool = False

    @property
    def is_denied(self) -> bool:
        return self.reason is not None

    def text(self, tool: str) -> str:
        """What a model and its user read about a call of this tool."""
        if self.is_denied:
            return f"{tool} was not run: {self.denied()}"
        return f"{tool} was not run: {self.waits()} {AFTER_APPROVAL}"

    def waits(self) -> str:
        """The text after "it was not run:" for a call that waits."""
        what = "it waits for an approval"
        if self.of_other:
            what = "it can request no approval before one of those that wait is decided. The oldest of them"
        return (
            f"{what}: {one_line(self.message)}. A person of the group {self.audience!r} can "
            f"decide it until {self.expires_at}. You cannot decide it. Tell the user what was requested, from whom, "
            f"and until when (approval {self.approval_id})."
        )

    def denied(self) -> str:
        """The text after "it was not run:" for a call that was denied."""
        reason = f" The reason: {quoted_error(self.reason)}." if self.reason else ""
        return (
            f"a person of the group {self.audience!r} denied it: {one_line(self.message)}.{reason} Do not make the "
            "same call again. Tell the user."
        )


def denied_call(variables: Mapping[str, Json], name: str) -> NotApproved | None:
    """What a person has denied of the last call of a step, or of an element of its list; `None` for nothing.

    Args:
        variables: The task's variables.
        name: The step's name; for an element, with its index.
    """
    note = variables.get(f"{APPROVAL_PREFIX}{name}")
    denied = note.get("denied") if isinstance(note, Mapping) else None
    return None if denied is None else convert(denied, NotApproved)


def check_approval(approval: object, subject: str, signature: Signature) -> None:
    """Check the approval of a tool, or of a step that calls it.

    Raises:
        RegistrationError: the value is not an `Approval`, its message names something that is not a parameter of the
            tool, or its `when` does not take the tool's arguments.
    """
    if not isinstance(approval, Approval):
        raise RegistrationError(f"{subject}: approval={approval!r} is not an Approval; write Approval('refunds')")
    names = frozenset(parameter.published_name for parameter in signature.parameters)
    for unknown in approval.unknown_names(names):
        hint = did_you_mean(unknown, sorted(names))
        raise RegistrationError(
            f"{subject}: the message of its approval has {{{unknown}}}, which is not a parameter{hint}"
        )
    if approval.when is not None:
        _check_when(approval.when, subject, [parameter.name for parameter in signature.parameters])


def _check_when(when: Callable[..., object], subject: str, names: Sequence[str]) -> None:
    """Check that the condition of an approval takes all arguments of the tool, by name."""
    condition = f"{subject}: when of its approval"
    if is_async(when):
        raise RegistrationError(f"{condition} is asynchronous, so each call would need an approval; write def")
    try:
        parameters = inspect.signature(when).parameters.values()
    except (TypeError, ValueError):  # a builtin without a signature
        return
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    named = [item for item in parameters if item.kind in (item.POSITIONAL_OR_KEYWORD, item.KEYWORD_ONLY)]
    by_position = [item for item in parameters if item.kind is item.POSITIONAL_ONLY]
    for parameter in by_position:
        raise RegistrationError(
            f"{condition} takes {parameter.name!r} by position, and gets it by name; leave out the /"
        )
    for parameter in named:
        if parameter.default is parameter.empty and parameter.name not in names:
            hint = did_you_mean(parameter.name, sorted(names))
            raise RegistrationError(f"{condition} needs {parameter.name!r}, which is not an argument of the tool{hint}")
    if not takes_all and (missing := sorted(set(names) - {parameter.name for parameter in named})):
        first = next((parameter.name for parameter in named), names[0])
        remedy = f"it gets all arguments by name: write lambda {first}, **_: …"
        raise RegistrationError(f"{condition} does not take {', '.join(map(repr, missing))}; {remedy}")
