"""Who a request belongs to, what is known of them, and the id by which it is found again (docs/http.md).

Only API Gateway's own notes (`requestContext`) are read: what its authorizer, IAM or its API keys vouch for. Headers,
query and body never are, since the client writes those. The id stands in Baton's log lines, in API Gateway's access log
and in the client's answer.
"""

from collections.abc import Iterator, Mapping

from mcp_baton.protocol.http import SCOPE_CLAIMS

ANONYMOUS = "anonymous"
ROLE = "AROA"
"""How a role's unique id begins (IAM User Guide, "IAM identifiers", Understanding unique ID prefixes)."""


def resolve_owner(
    request_context: Mapping[str, object], *, allow_anonymous: bool, trust_session_names: bool = False
) -> str | None:
    """The owner: the claim `sub`, else the IAM principal, else the API key's id, else anonymous.

    A Lambda authorizer's `principalId` counts as a principal. A value that is not a non-empty string counts as absent.
    A caller with a token is the token's `sub` and nothing else.

    Args:
        request_context: The event's `requestContext`.
        allow_anonymous: Whether a caller without an identity is `"anonymous"`.
        trust_session_names: Whether the sessions of one role are told apart by their names.

    Returns:
        The identity; `"anonymous"` for nobody in particular, where that is allowed; otherwise `None`.
    """
    found = next(_identities(request_context, trust_session_names), None)
    if found is not None:
        return found
    return ANONYMOUS if allow_anonymous else None


def correlation_id(request_context: object, context: object) -> str:
    """API Gateway's id of the request, which its access log and its answer's `x-amzn-RequestId` have too.

    Where there is none, Lambda's id of the invocation; made here where there is neither.

    Args:
        request_context: The event's `requestContext`, whatever it is.
        context: What Lambda hands to a handler beside the event, whatever it is.
    """
    given = request_context.get("requestId") if isinstance(request_context, Mapping) else None
    candidates = (given, getattr(context, "aws_request_id", None))
    known = next((found for found in candidates if isinstance(found, str) and found), None)
    if known is not None:
        return known
    from uuid import uuid4

    return str(uuid4())


def claims_in(request_context: Mapping[str, object]) -> Mapping[str, object]:
    """The caller's claims: a token's, or the context that a Lambda authorizer gave; empty for IAM and API keys.

    Only one authorizer answers for a request, so the first place where something stands has all there is.

    Args:
        request_context: The event's `requestContext`.
    """
    authorizer = _object(request_context, "authorizer")
    if not authorizer:
        return {}
    *named, flat = _claims(authorizer)
    found: Mapping[str, object] = next((claims for claims in named if claims), {})
    if found and found is _object(_object(authorizer, "jwt"), "claims"):
        return {name: _listed(name, value) for name, value in found.items()}
    # On a REST API a Lambda authorizer's context stands beside what API Gateway itself notes there.
    return found or {name: value for name, value in flat.items() if name not in _NOT_CLAIMS}


def _listed(name: str, value: object) -> object:
    """A claim of an HTTP API's JWT authorizer, which passes a list of scopes on as the text `[one two]`."""
    if name in SCOPE_CLAIMS and isinstance(value, str) and value.startswith("[") and value.endswith("]"):
        return value[1:-1].split()
    return value


_NOT_CLAIMS = ("claims", "jwt", "lambda", "iam", "integrationLatency")


def _identities(context: Mapping[str, object], trust_session_names: bool) -> Iterator[str]:
    authorizer = _object(context, "authorizer")
    identity = _object(context, "identity")
    if authorizer:
        token, jwt, *others = _claims(authorizer)
        if token or jwt:
            yield from _text(token or jwt, "sub")
            return
        for name in ("sub", "principalId"):
            for source in others:
                yield from _text(source, name)
    yield from _cognito_identity(authorizer, identity)
    principals = (_principal(found, trust_session_names) for found in _unique_ids(authorizer, identity))
    yield from filter(None, principals)
    yield from _text(identity, "apiKeyId")


def _claims(authorizer: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """Everywhere an authorizer's findings stand.

    Cognito on a REST API, a JWT authorizer and a Lambda authorizer on an HTTP API, a Lambda authorizer on a REST API.
    """
    yield _object(authorizer, "claims")
    yield _object(_object(authorizer, "jwt"), "claims")
    yield _object(authorizer, "lambda")
    yield authorizer


def _cognito_identity(authorizer: Mapping[str, object], identity: Mapping[str, object]) -> Iterator[str]:
    # Everyone who comes through a Cognito identity pool has the same role. Only the identity's id tells them apart.
    if authorizer:
        yield from _text(_object(_object(authorizer, "iam"), "cognitoIdentity"), "identityId")
    yield from _text(identity, "cognitoIdentityId")


def _unique_ids(authorizer: Mapping[str, object], identity: Mapping[str, object]) -> Iterator[str]:
    """The caller's unique id, as HTTP APIs and function URLs tell it, and REST APIs.

    Not the ARN: a user who is made anew under the name of one who was deleted has the same, and would have their tasks.
    """
    if authorizer:
        iam = _object(authorizer, "iam")
        yield from _text(iam, "userId")
        yield from _text(iam, "callerId")
    yield from _text(identity, "user")
    yield from _text(identity, "caller")


def _principal(unique_id: str, trust_session_names: bool) -> str:
    """The owner for a unique id (IAM User Guide, "IAM policy elements: Variables and tags", column `aws:userid`).

    A user's is `AIDA…`, the root user's the account's number. A role's session has `AROA…:session name`, and one of
    `GetFederationToken` `account:name`: the caller chooses such a name, so that it says nothing of who that is.
    """
    known, colon, _ = unique_id.partition(":")
    if not colon or (trust_session_names and known.startswith(ROLE)):
        return unique_id
    return f"{known}:" if known.isdigit() else known  # the number alone is the root user


def _object(members: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = members.get(name)
    return value if type(value) is dict or isinstance(value, Mapping) else {}


def _text(members: Mapping[str, object], name: str) -> Iterator[str]:
    value = members.get(name)
    if isinstance(value, str) and value:
        yield value
