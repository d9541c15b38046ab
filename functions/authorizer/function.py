"""The composition root of the authorizer: it reads the environment once, when the function starts.

| variable | meaning |
|---|---|
| `JWT_ISSUER` | the issuer's URL |
| `JWT_AUDIENCES` | the accepted audiences, separated by blanks |
| `JWT_ALGORITHMS` | the accepted algorithms, separated by blanks |
| `JWT_SCOPES` | a token needs one of these scopes, separated by blanks; if empty, none |
| `JWT_JWKS_URL` | the URL of the keys; if empty, the issuer's metadata names it |
| `PUBLIC_URL` | the URL before `/mcp` as clients see it; if empty, it is taken from the request |
"""

import os
from collections.abc import Mapping

from authorizer import Authorizer
from issuer import IssuerKeys
from tokens import Rules, TokenVerifier


def authorizer(env: Mapping[str, str]) -> Authorizer:
    """Make the authorizer of these settings.

    Raises:
        ValueError: a setting is invalid.
        KeyError: a setting is missing.
    """
    rules = Rules(
        issuer=env["JWT_ISSUER"],
        audiences=frozenset(env["JWT_AUDIENCES"].split()),
        scopes=frozenset(env["JWT_SCOPES"].split()),
        algorithms=frozenset(env["JWT_ALGORITHMS"].split()),
    )
    keys = IssuerKeys(rules.issuer, env["JWT_JWKS_URL"])
    return Authorizer(TokenVerifier(rules, keys), rules.scopes, env["PUBLIC_URL"])


lambda_handler = authorizer(os.environ)
