"""Secrets Manager for tests: moto within this process, and simulated failures."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from threading import Lock
from typing import Any

import botocore.session
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.config import Config
from botocore.exceptions import ConnectionClosedError
from moto.core.botocore_stubber import BotocoreStubber, MockRawResponse

SECRETS = count(1)
DISPATCH = Lock()


@dataclass(slots=True)
class Vault:
    """A secret. Tests change it directly, without the code under test.

    Attributes:
        client: A client whose requests moto answers within this process.
        reads: The stages that were read, in order.
        silent: Whether requests fail without a response.
    """

    client: Any
    arn: str = ""
    reads: list[str] = field(default_factory=list)
    silent: bool = False

    def put(self, key: str | bytes) -> None:
        """Put a new value. The current value becomes the previous one."""
        self.client.put_secret_value(SecretId=self.arn, **_value(key))

    @contextmanager
    def hushed(self) -> Iterator[None]:
        """Let requests fail without a response."""
        self.silent = True
        try:
            yield
        finally:
            self.silent = False

    def take(self) -> list[str]:
        """Return the stages that were read since the last call."""
        stages, self.reads = self.reads, []
        return stages

    def note(self, params: dict[str, Any], **_: object) -> None:
        self.reads.append(params["VersionStage"])
        if self.silent:
            raise ConnectionClosedError(endpoint_url="https://secretsmanager")


def new_vault(key: str | bytes) -> Vault:
    """Return a new secret with this value."""
    session = botocore.session.Session()
    session.set_credentials("local", "local")
    client: Any = session.create_client(
        "secretsmanager", region_name="us-east-1", config=Config(retries={"total_max_attempts": 1})
    )
    vault = Vault(client)
    answered_by_moto(client, "secretsmanager")
    vault.arn = client.create_secret(Name=f"state-key-{next(SECRETS)}", **_value(key))["ARN"]
    client.meta.events.register("provide-client-params.secretsmanager.GetSecretValue", vault.note)
    return vault


def _value(key: str | bytes) -> dict[str, Any]:
    return {"SecretString": key} if isinstance(key, str) else {"SecretBinary": key}


def answered_by_moto(client: Any, service: str) -> None:
    """Let moto answer a client's requests within this process. Other clients are not affected."""
    stub = BotocoreStubber()

    def respond(request: AWSPreparedRequest, **_: object) -> AWSResponse:
        with DISPATCH:
            moto_response = stub.process_request(request)
        if moto_response is None:
            raise NotImplementedError(f"moto does not answer {request.method} {request.url}")
        status, body = moto_response[0], moto_response[2]
        headers: Any = moto_response[1]
        return AWSResponse(request.url, status, headers, MockRawResponse(body))

    client.meta.events.register_last(f"before-send.{service}", respond)
