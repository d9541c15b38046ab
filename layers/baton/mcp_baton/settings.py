"""Everything an operator can set, read from the environment once, in a composition root (docs/deploying.md).

| variable | meaning | default |
|---|---|---|
| `BATON_TABLE` | the DynamoDB table of the tasks; without one workflows run without tasks | none |
| `BATON_OVERFLOW_BUCKET` | the S3 bucket for large values, where that is cheaper | none: they are kept in the table |
| `BATON_ALLOW_ANONYMOUS` | `on`: a caller without an identity is the owner `anonymous`; `off`: refused | `off` (1) |
| `BATON_TRUST_SESSION_NAMES` | `on`: of one IAM role, each session name is an owner of its own (2) | `off` |
| `BATON_STREAMING` | `off`: answers are whole, never streamed; so they are where `AWS_SAM_LOCAL` is set | `on` |
| `BATON_DEFAULT_TTL_MS` | a task's lifetime when the client asks for none | 3600000 (1 h) |
| `BATON_MAX_TTL_MS` | the longest lifetime that a client gets | 86400000 (24 h) |
| `BATON_MAX_TASKS_PER_OWNER` | live tasks that one owner may have, approximately | unlimited |
| `BATON_SHARDS` | partitions that an owner's tasks are spread over: 1, 8 or 32; may grow, not shrink | 1 |
| `BATON_WRITE_RESERVE_MS` | the function's time that is kept back for writing a run's batch | 5000 |
| `BATON_ALLOWED_ORIGINS` | origins whose pages may call, comma-separated: `https://app.example.com` | none |
| `BATON_CONSOLE` | `on`: `GET /console` shows a page of the caller's tasks (docs/console.md) | `off` |
| `BATON_MAX_BODY_BYTES` | the largest request body | 6000000 |
| `BATON_LISTEN_MS` | how long a `subscriptions/listen` stream is kept open | 60000 |
| `BATON_QUESTION_MS` | how long a tool waits for the client's answer (revisions up to 2025-11-25) | 300000 (5 min) |
| `BATON_CONNECT` | when the DynamoDB client is created: `init`, `first` (at first use) or `auto` (4) | auto |
| `BATON_WORKER` | the function for background work: its alias's ARN, or `name:alias` (3) | none |
| `BATON_STATE_KEY_SECRET` | ARN of the secret that holds the next two; not read where `AWS_SAM_LOCAL` is set | none |
| `BATON_STATE_KEY` | signs what travels through the client; 32 characters or more | made anew in each process |
| `BATON_STATE_KEY_PREVIOUS` | the key before the last rotation, still accepted | none |

Of what Lambda and Powertools define, `AWS_LAMBDA_FUNCTION_NAME` (logs, metrics and traces are written where it is set),
`AWS_LAMBDA_INITIALIZATION_TYPE`, `AWS_LAMBDA_LOG_LEVEL`, `POWERTOOLS_SERVICE_NAME` and `POWERTOOLS_METRICS_NAMESPACE`
(default `Baton`) are read, too.

(1) `on` where `AWS_SAM_LOCAL` is set: `sam local` does not ask who calls. (2) For roles whose callers cannot choose
their session's name, as those of IAM Identity Center. (3) Not read where `AWS_SAM_LOCAL` is set: `sam local` invokes
nothing asynchronously. Without a worker, tools that may run in the background run in the request. (4) `auto`: during
initialisation if the server has durable workflows or background tools, otherwise at first use.

A variable that is empty or blank counts as not set, as templates pass optional parameters on that way.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mcp_baton.exceptions import SettingsError

SWITCH = {"on": True, "true": True, "1": True, "yes": True, "off": False, "false": False, "0": False, "no": False}
KEY_CHARACTERS = 32
SHARDS = ("1", "8", "32")
AUTO, FIRST, INIT = "auto", "first", "init"
PREFIX = "BATON_"
NAMES = frozenset(
    f"{PREFIX}{name}"
    for name in (
        *("TABLE", "OVERFLOW_BUCKET", "ALLOW_ANONYMOUS", "TRUST_SESSION_NAMES", "STREAMING", "DEFAULT_TTL_MS"),
        *("MAX_TTL_MS", "MAX_TASKS_PER_OWNER", "SHARDS", "WRITE_RESERVE_MS", "ALLOWED_ORIGINS", "MAX_BODY_BYTES"),
        *("LISTEN_MS", "QUESTION_MS", "CONNECT", "CONSOLE", "WORKER", "STATE_KEY_SECRET", "STATE_KEY"),
        "STATE_KEY_PREVIOUS",
    )
)
"""The variables that are settings."""
NOT_SETTINGS = ("BATON_PROFILES", "BATON_LOCAL_WORKER")
"""Those of the commands."""
_ARN = r"arn:[^:\s]+:secretsmanager:[^:\s]+:[0-9]+:secret:\S+"
ALIAS = r"(arn:[^:\s]+:lambda:[^:\s]+:[0-9]+:function:)?[A-Za-z0-9_-]{1,64}:[A-Za-z0-9_-]{1,128}"
_ORIGIN = r"[a-z][a-z0-9+.-]*://[^\s/?#@,]+"


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings. The module's table says what each means; times in milliseconds."""

    table: str | None = None
    overflow_bucket: str | None = None
    allow_anonymous: bool = False
    trust_session_names: bool = False
    streaming: bool = True
    default_ttl_ms: int = 3_600_000
    max_ttl_ms: int = 86_400_000
    max_tasks_per_owner: int | None = None
    shards: int = 1
    write_reserve_ms: int = 5_000
    allowed_origins: frozenset[str] = frozenset()
    console: bool = False
    # Lambda takes events of 6 MB (6,291,556 bytes): this much body, and room for headers and request context. A body
    # that grows in the event (base64, escaped quotes) is refused by API Gateway before it gets here.
    max_body_bytes: int = 6_000_000
    listen_ms: int = 60_000
    question_ms: int = 300_000
    connect: str = AUTO
    # A local server lets pages of this machine in, and keeps out names that were made to point at it (DNS rebinding).
    local_only: bool = False
    worker: str | None = None
    state_key_secret: str | None = None
    state_key: bytes | None = field(default=None, repr=False)
    previous_state_key: bytes | None = field(default=None, repr=False)
    # Whether what is noted of Baton's own work is reported, and under which names.
    observed: bool = False
    service: str = "baton"
    metrics_namespace: str = "Baton"
    lambda_log_level: str | None = None
    # `sam local` runs the function on a machine of one's own, and knows neither streaming nor who calls.
    sam_local: bool = False
    # Whether Lambda has started the process ahead of its first request, which then waits for no start.
    provisioned: bool = False

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> "Settings":
        """Read the settings. Nothing else in Baton reads the environment.

        Raises:
            SettingsError: a value cannot be used; names the variable, the value and the remedy.
        """
        default = cls()
        sam_local = _text(env, "AWS_SAM_LOCAL") is not None
        settings = cls(
            table=_text(env, "BATON_TABLE"),
            overflow_bucket=_text(env, "BATON_OVERFLOW_BUCKET"),
            allow_anonymous=_switch(env, "BATON_ALLOW_ANONYMOUS", sam_local),
            trust_session_names=_switch(env, "BATON_TRUST_SESSION_NAMES", default.trust_session_names),
            streaming=_switch(env, "BATON_STREAMING", default.streaming) and not sam_local,
            default_ttl_ms=_number(env, "BATON_DEFAULT_TTL_MS", default.default_ttl_ms),
            max_ttl_ms=_number(env, "BATON_MAX_TTL_MS", default.max_ttl_ms),
            max_tasks_per_owner=_number(env, "BATON_MAX_TASKS_PER_OWNER", default.max_tasks_per_owner),
            shards=int(_choice(env, "BATON_SHARDS", SHARDS)),
            write_reserve_ms=_number(env, "BATON_WRITE_RESERVE_MS", default.write_reserve_ms),
            allowed_origins=_origins(env, "BATON_ALLOWED_ORIGINS"),
            console=_switch(env, "BATON_CONSOLE", default.console),
            max_body_bytes=_number(env, "BATON_MAX_BODY_BYTES", default.max_body_bytes),
            listen_ms=_number(env, "BATON_LISTEN_MS", default.listen_ms),
            question_ms=_number(env, "BATON_QUESTION_MS", default.question_ms),
            connect=_choice(env, "BATON_CONNECT", (AUTO, FIRST, INIT)),
            worker=_worker(env, "BATON_WORKER"),
            state_key_secret=_secret(env, "BATON_STATE_KEY_SECRET"),
            state_key=_key(env, "BATON_STATE_KEY"),
            previous_state_key=_key(env, "BATON_STATE_KEY_PREVIOUS"),
            observed=_text(env, "AWS_LAMBDA_FUNCTION_NAME") is not None,
            service=_text(env, "POWERTOOLS_SERVICE_NAME") or _text(env, "AWS_LAMBDA_FUNCTION_NAME") or default.service,
            metrics_namespace=_text(env, "POWERTOOLS_METRICS_NAMESPACE") or default.metrics_namespace,
            lambda_log_level=_text(env, "AWS_LAMBDA_LOG_LEVEL"),
            sam_local=sam_local,
            provisioned=_text(env, "AWS_LAMBDA_INITIALIZATION_TYPE") == "provisioned-concurrency",
        )
        if settings.default_ttl_ms > settings.max_ttl_ms:
            raise SettingsError(
                f"BATON_DEFAULT_TTL_MS={settings.default_ttl_ms} is more than BATON_MAX_TTL_MS={settings.max_ttl_ms}: "
                "lower the first or raise the second"
            )
        return settings


def unknown_settings(env: Mapping[str, str]) -> list[str]:
    """The variables that begin as Baton's own do and are none, one sentence each with what may be meant.

    They have no effect. That is no error: another program's may begin so.
    """
    unknown = [name for name in env if name.startswith(PREFIX) and name not in (*NAMES, *NOT_SETTINGS)]
    if not unknown:
        return []
    from mcp_baton.hints import closest

    meant = [(name, closest(name, NAMES)) for name in sorted(unknown)]
    return [
        f"{name} is no setting; " + (f"did you mean {close!r}?" if close else "it has no effect")
        for name, close in meant
    ]


def _text(env: Mapping[str, str], name: str) -> str | None:
    return env.get(name, "").strip() or None


def _key(env: Mapping[str, str], name: str) -> bytes | None:
    text = _text(env, name)
    if text is not None and len(text) < KEY_CHARACTERS:
        raise SettingsError(f"{name} is too short to sign with: give it {KEY_CHARACTERS} random characters or more")
    return None if text is None else text.encode()


def _secret(env: Mapping[str, str], name: str) -> str | None:
    text = _text(env, name)
    # `sam local` creates no secret, and passes the name that the template has for it.
    if text is None or _text(env, "AWS_SAM_LOCAL") is not None:
        return None
    if not re.fullmatch(_ARN, text):
        raise SettingsError(f"{name}={text!r} is not a secret's ARN: set it to arn:aws:secretsmanager:...:secret:...")
    for other in ("BATON_STATE_KEY", "BATON_STATE_KEY_PREVIOUS"):
        if _text(env, other) is not None:
            raise SettingsError(f"{name} and {other} are both set: keep the first, or the second where there is no AWS")
    return text


def _worker(env: Mapping[str, str], name: str) -> str | None:
    text = _text(env, name)
    if text is None or _text(env, "AWS_SAM_LOCAL") is not None:
        return None
    if not re.fullmatch(ALIAS, text):
        raise SettingsError(
            f"{name}={text!r} is not a function's alias: set it to arn:aws:lambda:...:function:name:alias or "
            "name:alias. Retries and dead letters are the alias's, so it cannot be left out"
        )
    return text


def _switch(env: Mapping[str, str], name: str, default: bool) -> bool:
    text = _text(env, name)
    if text is None:
        return default
    if text.lower() not in SWITCH:
        raise SettingsError(f"{name}={text!r} is not a switch{_one_of(text.lower(), SWITCH)}")
    return SWITCH[text.lower()]


def _one_of(text: str, choices: Iterable[str]) -> str:
    from mcp_baton.hints import closest

    close = closest(text, choices)
    remedy = f"; did you mean {close!r}?" if close else ""
    return f": set it to one of {', '.join(choices)}{remedy}"


def _choice(env: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    """One of these; the first where it is not set."""
    text = (_text(env, name) or choices[0]).lower()
    if text not in choices:
        raise SettingsError(f"{name}={text!r} is not a choice{_one_of(text, choices)}")
    return text


def _number[Default: (int, int | None)](env: Mapping[str, str], name: str, default: Default) -> int | Default:
    text = _text(env, name)
    if text is None:
        return default
    # `int` alone would take signs, underscores and other scripts' digits, which here are mistakes.
    if not re.fullmatch(r"[0-9]{1,15}", text) or int(text) == 0:
        raise SettingsError(f"{name}={text!r} is not a number: set it to a whole number from 1 on, in digits")
    return int(text)


def _origins(env: Mapping[str, str], name: str) -> frozenset[str]:
    # Browsers send origins in lower case.
    origins = [item.strip().lower() for item in (_text(env, name) or "").split(",") if item.strip()]
    for origin in origins:
        if not re.fullmatch(_ORIGIN, origin):
            raise SettingsError(
                f"{name}: {origin!r} is not an origin: write scheme://host or scheme://host:port, without a path, "
                "and name each one (there is no wildcard)"
            )
    return frozenset(origins)
