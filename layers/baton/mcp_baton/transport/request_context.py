"""The owner, the claims and the correlation id of a request (docs/http.md).

They come only from `requestContext`, which API Gateway fills with the results of its authorizer, IAM or its API keys.
Headers, query and body are not used, because the client controls them. The correlation id is in Baton's log lines, in
API Gateway's access log and in the response.
"""

from collections.abc import Iterator, Mapping

from mcp_baton.protocol.http import ANONYMOUS, GROUPS_CLAIM, SCOPE_CLAIMS


def resolve_owner(request_context: Mapping[str, object], *, allow_anonymous: bool) -> str | None:
    """Return the owner: the claim `sub`, else the IAM principal, else the id of the API key, else anonymous.

    The `principalId` of a Lambda authorizer counts as a principal. Empty values and other types than strings count as
    absent. For a caller with a token, only the token's `sub` counts.

    Returns:
        The owner; `None` for an unauthenticated caller if `allow_anonymous` is false.
    """
    return next(_identities(request_context), ANONYMOUS if allow_anonymous else None)


def correlation_id(request_context: object, context: object) -> str:
    """Return API Gateway's request id, else Lambda's request id, else a new id.

    API Gateway's id is also in its access log and in the header `x-amzn-RequestId` of the response. Neither argument is
    validated.
    """
    api_id = request_context.get("requestId") if isinstance(request_context, Mapping) else None
    candidates = (api_id, getattr(context, "aws_request_id", None))
    request_id = next((candidate for candidate in candidates if isinstance(candidate, str) and candidate), None)
    if request_id is not None:
        return request_id
    from uuid import uuid4

    return str(uuid4())


def claims_in(request_context: Mapping[str, object]) -> Mapping[str, object]:
    """Return the caller's claims: those of a token, or the context of a Lambda authorizer.

    A request has only one authorizer, so all claims are in the first place that has any.
    """
    authorizer = _object(request_context, "authorizer")
    cognito_claims, jwt_claims = _object(authorizer, "claims"), _object(_object(authorizer, "jwt"), "claims")
    if jwt_claims and not cognito_claims:
        return {name: _split_scopes(name, value) for name, value in jwt_claims.items()}
    # The context of a Lambda authorizer: on an HTTP API in a member of its own, on a REST API next to members of API
    # Gateway.
    nested_claims = cognito_claims or _object(authorizer, "lambda")
    return nested_claims or {name: value for name, value in authorizer.items() if name not in _NOT_CLAIMS}


def base_url(request_context: Mapping[str, object]) -> str:
    """Return the address of the API without a slash at the end; empty if the event does not contain it.

    API Gateway fills `domainName` with the host name that the client has reached, and has certificates only for its own
    names. A custom domain has a base path instead of the stage: for links, set BATON_BASE_URL.
    """
    domain, stage = request_context.get("domainName"), request_context.get("stage")
    if not isinstance(domain, str) or not domain:
        return ""
    is_default = not isinstance(stage, str) or stage == "$default"
    return f"https://{domain}" if is_default else f"https://{domain}/{stage}"


def source_address(request_context: Mapping[str, object]) -> str | None:
    """Return the IP address of the caller: in `identity` of a REST API, in `http` of other APIs."""
    for member in ("identity", "http"):
        for address in _text(_object(request_context, member), "sourceIp"):
            return address
    return None


def arrival_ms(request_context: Mapping[str, object]) -> int | None:
    """Return when API Gateway received the request, epoch milliseconds: in one member of REST APIs, in another one of
    HTTP APIs."""
    times = (request_context.get(member) for member in ("requestTimeEpoch", "timeEpoch"))
    return next((time for time in times if type(time) is int), None)


def _split_scopes(name: str, value: object) -> object:
    """Return a claim. The JWT authorizer of an HTTP API writes a list of scopes or groups as `[one two]`."""
    if (
        name in (*SCOPE_CLAIMS, GROUPS_CLAIM)
        and isinstance(value, str)
        and value.startswith("[")
        and value.endswith("]")
    ):
        return value[1:-1].split()
    return value


_NOT_CLAIMS = ("claims", "jwt", "lambda", "iam", "integrationLatency")


def _identities(context: Mapping[str, object]) -> Iterator[str]:
    authorizer = _object(context, "authorizer")
    identity = _object(context, "identity")
    if authorizer:
        # Of Cognito on a REST API, or of a JWT authorizer on an HTTP API.
        token = _object(authorizer, "claims") or _object(_object(authorizer, "jwt"), "claims")
        if token:
            yield from _text(token, "sub")
            return
        # The context of a Lambda authorizer, on an HTTP API or a REST API.
        for name in ("sub", "principalId"):
            yield from _text(_object(authorizer, "lambda"), name)
            yield from _text(authorizer, name)
    # All callers of a Cognito identity pool have the same role. Only the id of the identity distinguishes them.
    if authorizer:
        yield from _text(_object(_object(authorizer, "iam"), "cognitoIdentity"), "identityId")
    yield from _text(identity, "cognitoIdentityId")
    yield from filter(None, map(_principal, _unique_ids(authorizer, identity)))
    yield from _text(identity, "apiKeyId")


def _unique_ids(authorizer: Mapping[str, object], identity: Mapping[str, object]) -> Iterator[str]:
    """Yield the caller's unique id: of HTTP APIs and function URLs, then of REST APIs.

    The ARN is not used: a new user with the name of a deleted user has the same ARN, and would get that user's tasks.
    """
    if authorizer:
        iam = _object(authorizer, "iam")
        yield from _text(iam, "userId")
        yield from _text(iam, "callerId")
    yield from _text(identity, "user")
    yield from _text(identity, "caller")


def _principal(unique_id: str) -> str:
    """Return the owner for a unique id (IAM User Guide, "IAM policy elements: Variables and tags", `aws:userid`).

    The id of a user is `AIDA…`, that of the root user is the account number. A session of a role has `AROA…:session
    name`, a session of `GetFederationToken` has `account:name`. Callers choose these names, so they prove nothing.
    """
    prefix, colon, _ = unique_id.partition(":")
    return f"{prefix}:" if colon and prefix.isdigit() else prefix  # the number alone is the root user


def _object(members: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = members.get(name)
    return value if type(value) is dict or isinstance(value, Mapping) else {}


def _text(members: Mapping[str, object], name: str) -> Iterator[str]:
    value = members.get(name)
    if isinstance(value, str) and value:
        yield value
