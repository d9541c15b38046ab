"""Who a request belongs to (contract section 9). Pure.

Only API Gateway's own notes (`requestContext`) are read: what its authorizer, IAM or its API keys vouch for. Headers,
query and body never are, since the client writes those.
"""

from collections.abc import Iterator, Mapping

ANONYMOUS = "anonymous"


def resolve_owner(request_context: Mapping[str, object], *, allow_anonymous: bool) -> str | None:
    """The owner: claim `sub`, else `client_id`, else the IAM principal, else the API key's id, else anonymous.

    A Lambda authorizer's `principalId` counts as a principal. A value that is not a non-empty string is as good as
    absent.

    Returns:
        The identity; `"anonymous"` for nobody in particular, where that is allowed; otherwise `None`.
    """
    found = next(_identities(request_context), None)
    if found is not None:
        return found
    return ANONYMOUS if allow_anonymous else None


def _identities(context: Mapping[str, object]) -> Iterator[str]:
    authorizer = _object(context, "authorizer")
    identity = _object(context, "identity")
    claims = list(_claims(authorizer))
    for name in ("sub", "client_id", "principalId"):
        for source in claims:
            yield from _text(source, name)
    yield from _iam_principal(authorizer, identity)
    yield from _text(identity, "apiKeyId")


def _claims(authorizer: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """Everywhere an authorizer's findings stand.

    Cognito on a REST API, a JWT authorizer and a Lambda authorizer on an HTTP API, a Lambda authorizer on a REST API.
    """
    yield _object(authorizer, "claims")
    yield _object(_object(authorizer, "jwt"), "claims")
    yield _object(authorizer, "lambda")
    yield authorizer


def _iam_principal(authorizer: Mapping[str, object], identity: Mapping[str, object]) -> Iterator[str]:
    iam = _object(authorizer, "iam")
    # Everyone who comes through a Cognito identity pool has the same role and the same session name, hence the same
    # ARN. Only the identity's id tells them apart.
    yield from _text(_object(iam, "cognitoIdentity"), "identityId")
    yield from _text(identity, "cognitoIdentityId")
    yield from _text(iam, "userArn")
    yield from _text(identity, "userArn")


def _object(members: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = members.get(name)
    return value if isinstance(value, Mapping) else {}


def _text(members: Mapping[str, object], name: str) -> Iterator[str]:
    value = members.get(name)
    if isinstance(value, str) and value:
        yield value
