"""The settings of an operator: one declaration per setting. docs/settings.md is generated from them.

To add a setting, add a field to `Settings`; to let operators of a stack choose it, also add a parameter to
`template.yaml`. Then run `make settings-page`.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Set
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

from msgspec import Struct

from mcp_baton.exceptions import SettingsError

SWITCH = {"on": True, "true": True, "1": True, "yes": True, "off": False, "false": False, "0": False, "no": False}
MIN_STATE_KEY_CHARS = 32
CONNECT_AUTO, CONNECT_FIRST, CONNECT_INIT = "auto", "first", "init"
SETTING_PREFIX = "BATON_"
NOT_IN_SAM_LOCAL = frozenset({"BATON_STREAMING", "BATON_STATE_KEY_SECRET", "BATON_WORKER"})
"""`sam local` streams nothing, creates no secret and invokes nothing asynchronously."""
ALIAS = r"(arn:[^:\s]+:lambda:[^:\s]+:[0-9]+:function:)?[A-Za-z0-9_-]{1,64}:[A-Za-z0-9_-]{1,128}"
_SECRET = ("state_key", "state_key_previous")
_ARN = r"arn:[^:\s]+:secretsmanager:[^:\s]+:[0-9]+:secret:\S+"
_ORIGIN = r"[a-z][a-z0-9+.-]*://[^\s/?#@,*]+"


class Setting(NamedTuple):
    """A field of `Settings` that is read from the environment variable `BATON_<FIELD>`."""

    parse: Callable[[str, str], object]
    """Returns the value for the variable's name and text; raises `SettingsError`."""
    meaning: str
    """For docs/settings.md, as `default`, which replaces the field's default there."""
    default: str = ""


def _text(_: str, text: str) -> str:
    return text


def _switch(name: str, text: str) -> bool:
    if text.lower() not in SWITCH:
        raise SettingsError(f"{name}={text!r} is not a switch{_one_of(text.lower(), SWITCH)}")
    return SWITCH[text.lower()]


def _connect(name: str, text: str) -> str:
    choices = (CONNECT_AUTO, CONNECT_FIRST, CONNECT_INIT)
    if text.lower() not in choices:
        raise SettingsError(f"{name}={text!r} is not a choice{_one_of(text.lower(), choices)}")
    return text.lower()


def _one_of(text: str, choices: Iterable[str]) -> str:
    from mcp_baton.hints import closest

    similar = closest(text, choices)
    remedy = f"; did you mean {similar!r}?" if similar else ""
    return f": set it to one of {', '.join(choices)}{remedy}"


def _number(name: str, text: str) -> int:
    # `int` alone would accept signs, underscores and digits of other scripts.
    if not re.fullmatch(r"[0-9]{1,15}", text) or int(text) == 0:
        raise SettingsError(f"{name}={text!r} is not a number: set it to a whole number from 1 on, in digits")
    return int(text)


def _origins(name: str, text: str) -> frozenset[str]:
    # Browsers send origins in lower case, and without the port if it is that of the scheme.
    origins = [item.strip().lower() for item in text.split(",") if item.strip()]
    origins = [re.sub(r"^(https://.*):443$|^(http://.*):80$", r"\1\2", origin) for origin in origins]
    for origin in origins:
        if not re.fullmatch(_ORIGIN, origin):
            raise SettingsError(
                f"{name}: {origin!r} is not an origin: write scheme://host or scheme://host:port, without a path, "
                "and name each one (there is no wildcard)"
            )
    return frozenset(origins)


def _approvers(name: str, text: str) -> Mapping[str, frozenset[str]]:
    remedy = 'set it to JSON such as {"refunds": ["kim", "lee"]}'
    try:
        document = json.loads(text, object_pairs_hook=_without_repetitions)
    except ValueError as error:
        raise SettingsError(f"{name} is not valid: {error}; {remedy}") from error
    lists = document.values() if isinstance(document, dict) else [None]
    if not all(isinstance(value, list) and all(isinstance(item, str) and item for item in value) for value in lists):
        raise SettingsError(f"{name} does not map audiences to lists of owners: {remedy}")
    return {audience: frozenset(owners) for audience, owners in document.items()}


def _without_repetitions(members: list[tuple[str, object]]) -> dict[str, object]:
    if len(dict(members)) < len(members):
        raise ValueError("an audience is listed twice")
    return dict(members)


def _base_url(name: str, text: str) -> str:
    if not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#]*)?", text):
        raise SettingsError(f"{name}={text!r} is not the address of an API: set it to https://host/path without /mcp")
    return text.rstrip("/")


def _matching(pattern: str, otherwise: str) -> Callable[[str, str], str]:
    """Return the parser of a text. `otherwise` says what another text is not, and the remedy."""

    def parse(name: str, text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise SettingsError(f"{name}={text!r} is not {otherwise}")
        return text

    return parse


_topic = _matching(r"arn:[^:\s]+:sns:[^:\s]+:[0-9]+:[\w-]+", "a standard topic's ARN: set it to arn:aws:sns:...")
_worker = _matching(
    ALIAS,
    "a function's alias: set it to arn:aws:lambda:...:function:name:alias or name:alias. The alias is required because "
    "retries and dead letters are configured on it",
)
_secret = _matching(_ARN, "a secret's ARN: set it to arn:aws:secretsmanager:...:secret:...")


def _key(name: str, text: str) -> bytes:
    if len(text) < MIN_STATE_KEY_CHARS:
        raise SettingsError(
            f"{name} is too short to sign with: give it {MIN_STATE_KEY_CHARS} random characters or more"
        )
    return text.encode()


class Settings(Struct, frozen=True):
    """The settings of a server. docs/settings.md explains each one. Times are in milliseconds."""

    table: Annotated[
        str | None, Setting(_text, "the DynamoDB table of the tasks; without a table, workflows run without tasks")
    ] = None
    allow_anonymous: Annotated[
        bool,
        Setting(
            _switch,
            "`on`: a caller without an identity is the owner `anonymous`; `off`: such callers are rejected",
            "`off`; under `sam local`, which authenticates no caller, `on`",
        ),
    ] = False
    streaming: Annotated[bool, Setting(_switch, "`off`: responses are never streamed. `sam local` never streams")] = (
        True
    )
    default_ttl_ms: Annotated[int, Setting(_number, "a task's lifetime if the client requests none")] = 3_600_000
    max_ttl_ms: Annotated[int, Setting(_number, "the longest lifetime that a task can have")] = 172_800_000
    max_tasks_per_owner: Annotated[
        int | None, Setting(_number, "the approximate maximum of live tasks per owner", "unlimited")
    ] = None
    write_reserve_ms: Annotated[
        int, Setting(_number, "the part of the function's time that is reserved for storing a run's results")
    ] = 5_000
    allowed_origins: Annotated[
        frozenset[str],
        Setting(_origins, "origins whose web pages may call, comma-separated: `https://app.example.com`", "none"),
    ] = frozenset()
    console: Annotated[bool, Setting(_switch, "`on`: `GET /console` serves a page with the caller's tasks")] = False
    sign_in_url: Annotated[
        str | None,
        Setting(
            _base_url,
            "where users of the console sign in: the URL of a Cognito domain",
            "none: they enter a credential",
        ),
    ] = None
    # A Lambda event has at most 6 MB (6,291,556 bytes). This leaves room for headers and the request context. API
    # Gateway rejects a body that becomes too large in the event (base64, escaped quotes).
    max_body_bytes: Annotated[int, Setting(_number, "the largest request body")] = 6_000_000
    listen_ms: Annotated[int, Setting(_number, "how long a `subscriptions/listen` stream stays open")] = 60_000
    question_ms: Annotated[
        int, Setting(_number, "how long a tool waits for the client's answer (revisions up to 2025-11-25)")
    ] = 300_000
    connect: Annotated[
        str,
        Setting(
            _connect,
            "when the DynamoDB client is created: `init` (during initialization), `first` (at first use), or "
            "`auto` (`init` if the server has durable workflows or background tools, otherwise `first`)",
        ),
    ] = CONNECT_AUTO
    worker: Annotated[
        str | None,
        Setting(
            _worker,
            "the function for background tasks: the ARN of its alias, or `name:alias`. Without a worker, and "
            'under `sam local`, tools with `task="optional"` run within the request',
        ),
    ] = None
    sweep: Annotated[
        bool,
        Setting(
            _switch,
            "`off`: `baton serve` and the testing kit do not look at background tasks each minute. In a stack, the "
            "parameter `Sweep` decides",
        ),
    ] = True
    state_key_secret: Annotated[
        str | None, Setting(_secret, "the ARN of the secret that holds the next two values; not used under `sam local`")
    ] = None
    state_key: Annotated[
        bytes | None,
        Setting(_key, "the key that signs request states; at least 32 characters", "a random key for each process"),
    ] = None
    state_key_previous: Annotated[
        bytes | None, Setting(_key, "the key before the last rotation, which is still accepted", "none")
    ] = None

    approvers: Annotated[
        Mapping[str, frozenset[str]],
        Setting(
            _approvers,
            "JSON that maps each audience of approvals to the owners who may decide, as the authorizer gives them: "
            '`{"refunds": ["kim"]}`',
            "none: callers with a scope of the audience's name decide",
        ),
    ] = MappingProxyType({})
    approval_links: Annotated[
        bool, Setting(_switch, "`on`: notifications have a link that decides the approval without credentials")
    ] = False
    approval_topic: Annotated[
        str | None, Setting(_topic, "the ARN of the SNS topic that gets a message for each approval that waits")
    ] = None
    audit_days: Annotated[int, Setting(_number, "how many days approvals are kept after they have expired")] = 365
    base_url: Annotated[
        str,
        Setting(
            _base_url,
            "the address of the API without `/mcp`, for links",
            "that of the request, which is wrong for a custom domain with a base path",
        ),
    ] = ""

    # The remaining fields are not settings of Baton: they describe Lambda, Powertools and the local server.
    # The local server accepts the pages of this machine, and rejects other host names (DNS rebinding).
    local_only: bool = False
    # Whether logs, metrics and traces are written.
    observed: bool = False
    service: str = "baton"
    metrics_namespace: str = "Baton"
    lambda_log_level: str | None = None
    sam_local: bool = False
    # Whether Lambda started the process ahead of its first request, so that no request waits for a cold start.
    provisioned: bool = False

    def __repr__(self) -> str:
        names = (name for name in self.__struct_fields__ if name not in _SECRET)
        return f"Settings({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> "Settings":
        """Read the settings. Nothing else in Baton reads the environment. A blank variable counts as not set.

        Raises:
            SettingsError: a value is invalid; names the variable, the value and the remedy.
        """
        texts = {name: text.strip() for name, text in env.items() if text.strip()}
        sam_local = "AWS_SAM_LOCAL" in texts
        values: dict[str, Any] = {
            "allow_anonymous": sam_local,
            "streaming": not sam_local,
            "observed": "AWS_LAMBDA_FUNCTION_NAME" in texts,
            "lambda_log_level": texts.get("AWS_LAMBDA_LOG_LEVEL"),
            "sam_local": sam_local,
            "provisioned": texts.get("AWS_LAMBDA_INITIALIZATION_TYPE") == "provisioned-concurrency",
        }
        for name, variable in (
            ("service", "AWS_LAMBDA_FUNCTION_NAME"),
            ("service", "POWERTOOLS_SERVICE_NAME"),
            ("metrics_namespace", "POWERTOOLS_METRICS_NAMESPACE"),
        ):
            if variable in texts:
                values[name] = texts[variable]
        for variable, (name, setting) in SETTINGS.items():
            if variable in texts and not (sam_local and variable in NOT_IN_SAM_LOCAL):
                values[name] = setting.parse(variable, texts[variable])
        settings = cls(**values)
        if settings.state_key_secret is not None:
            for other in ("BATON_STATE_KEY", "BATON_STATE_KEY_PREVIOUS"):
                if other in texts:
                    raise SettingsError(f"BATON_STATE_KEY_SECRET and {other} are both set: keep one of them")
        if settings.default_ttl_ms > settings.max_ttl_ms:
            raise SettingsError(
                f"BATON_DEFAULT_TTL_MS={settings.default_ttl_ms} is more than BATON_MAX_TTL_MS={settings.max_ttl_ms}: "
                "lower the first or raise the second"
            )
        return settings


SETTINGS: Mapping[str, tuple[str, Setting]] = {
    f"{SETTING_PREFIX}{name.upper()}": (name, declared.__metadata__[0])
    for name, declared in Settings.__annotations__.items()
    if hasattr(declared, "__metadata__")
}
"""For each environment variable: the field of `Settings`, and its declaration."""


def unknown_settings(env: Mapping[str, str]) -> list[str]:
    """Return one sentence for each variable that begins with `BATON_` and is not a setting, with the likely name.

    Such a variable has no effect. It is not an error, because it may belong to another program.
    """
    unknown_names = [name for name in env if name.startswith(SETTING_PREFIX) and name not in SETTINGS]
    if not unknown_names:
        return []
    from mcp_baton.hints import closest

    likely = [(name, closest(name, SETTINGS)) for name in sorted(unknown_names)]
    return [
        f"{name} is not a setting; " + (f"did you mean {similar!r}?" if similar else "it has no effect")
        for name, similar in likely
    ]


def approver_warnings(approvers: Mapping[str, frozenset[str]], groups: Set[str]) -> list[str]:
    """Return one sentence for each group whose approval a call needs and for which nobody is listed."""
    from mcp_baton.hints import closest

    texts: list[str] = []
    for group in sorted(group for group in groups if not approvers.get(group)):
        similar = closest(group, approvers.keys() - groups)
        remedy = f"it lists {similar!r}: did you mean {group!r}?" if similar else f'add "{group}": ["…"] to it'
        cause = f"BATON_APPROVERS lists nobody for the group {group!r}: only callers with this scope can approve"
        texts.append(f"{cause}; {remedy}")
    return texts
