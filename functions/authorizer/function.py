"""The composition root of the authorizer: reads the environment, once, while the function starts.

| variable | meaning |
|---|---|
| `JWT_ISSUER` | the issuer's URL |
| `JWT_AUDIENCES` | what a token may be for, separated by blanks |
| `JWT_ALGORITHMS` | allowed signatures, separated by blanks |
| `JWT_SCOPES` | a token needs one of these, separated by blanks; empty asks for none |
| `JWT_JWKS_URL` | where the keys are; empty asks the issuer |
| `PUBLIC_URL` | the URL before `/mcp` as clients see it; empty takes it from the request |
"""

import os
from collections.abc import Mapping

from authorizer import Authorizer
from issuer import IssuerKeys
from tokens import Rules, TokenVerifier


def authorizer(env: Mapping[str, str]) -> Authorizer:
    """The authorizer that these settings describe.

    Raises:
        ValueError: a setting cannot be used.
        KeyError: one is missing.
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
