"""An OpenID Connect issuer with its own keys, which serves over TLS and signs access tokens."""

import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jwt
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa

from emulators.answering import Answer, Request, answering
from tests.clients.certificate import self_signed

HOST = "issuer.test"
"""The host name of this machine within containers, and the name in its certificate."""
CERTIFICATE_FOLDER = "/var/issuer"
"""The folder of the certificate within containers."""
KEY_ID = "first"


class Issuer:
    """An issuer on a port of this machine.

    Attributes:
        url: Its issuer identifier, which is also its address for containers.
        folder: Holds `issuer.pem`, the certificate that containers trust.
    """

    def __init__(self, port: int, folder: Path) -> None:
        self.url = f"https://{HOST}:{port}"
        self.folder = folder
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    @property
    def docker_flags(self) -> str:
        """The `docker run` flags with which a container resolves and trusts this issuer."""
        return (
            f"--add-host {HOST}:host-gateway --volume {self.folder}:{CERTIFICATE_FOLDER}:ro "
            f"--env SSL_CERT_FILE={CERTIFICATE_FOLDER}/issuer.pem"
        )

    def sign(self, subject: str, **changes: Any) -> str:
        """Return an access token for this subject. `changes` adds or replaces claims."""
        now = int(time.time())
        claims = {"iss": self.url, "sub": subject, "scope": "openid", "iat": now, "exp": now + 3600, **changes}
        return jwt.encode(claims, self._key, algorithm="RS256", headers={"kid": KEY_ID})

    def document(self, path: str) -> dict[str, Any] | None:
        public_key: dict[str, Any] = jwt.get_algorithm_by_name("RS256").to_jwk(self._key.public_key(), as_dict=True)
        documents: dict[str, dict[str, Any]] = {
            "/.well-known/openid-configuration": {"issuer": self.url, "jwks_uri": f"{self.url}/keys"},
            "/keys": {"keys": [{**public_key, "kid": KEY_ID, "alg": "RS256", "use": "sig"}]},
        }
        return documents.get(path)


@contextmanager
def running_issuer(folder: Path) -> Iterator[Issuer]:
    """Run an issuer that listens on all addresses, so that containers reach it."""
    certificate, key = self_signed(x509.DNSName(HOST))
    (folder / "issuer.pem").write_bytes(certificate)
    with_key = folder.with_name(f"{folder.name}-key.pem")
    with_key.write_bytes(certificate + key)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(with_key)

    def answer(request: Request) -> Answer:
        document = issuer.document(request.target)
        return Answer.json(document, 404 if document is None else 200)

    with answering(answer, tls, "0.0.0.0") as address:
        issuer = Issuer(int(address.rpartition(":")[2]), folder)
        yield issuer
