"""An OpenID Connect issuer with its own keys, which serves over TLS and signs access tokens."""

import datetime
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, override

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

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
        """Return the document that the issuer publishes at this path."""
        public_key: dict[str, Any] = jwt.get_algorithm_by_name("RS256").to_jwk(self._key.public_key(), as_dict=True)
        documents: dict[str, dict[str, Any]] = {
            "/.well-known/openid-configuration": {"issuer": self.url, "jwks_uri": f"{self.url}/keys"},
            "/keys": {"keys": [{**public_key, "kid": KEY_ID, "alg": "RS256", "use": "sig"}]},
        }
        return documents.get(path)


@contextmanager
def running_issuer(folder: Path) -> Iterator[Issuer]:
    """Run an issuer that listens on all addresses, so that containers reach it."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(_certificate(folder))
    server = ThreadingHTTPServer(("0.0.0.0", 0), _Handler)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    _Handler.issuer = Issuer(server.server_port, folder)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield _Handler.issuer
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    issuer: Issuer

    def do_GET(self) -> None:
        document = self.issuer.document(self.path)
        body = json.dumps(document).encode()
        self.send_response(404 if document is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


def _certificate(folder: Path) -> Path:
    """Create a self-signed certificate for `HOST`. Return the path of a file with the certificate and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, HOST)])
    now = datetime.datetime.now(datetime.UTC)
    uses = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "crl_sign"), False
    )
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.KeyUsage(digital_signature=True, key_cert_sign=True, encipher_only=False, decipher_only=False, **uses),
            critical=True,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    public = certificate.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "issuer.pem").write_bytes(public)
    path = folder.with_name(f"{folder.name}-key.pem")
    path.write_bytes(private + public)
    return path
