"""The keys that sign request states, from AWS Secrets Manager (docs/deploying.md).

The version `AWSCURRENT` signs; `AWSPREVIOUS` is still accepted. The keys are not in the function's environment, because
everyone who may view the function's configuration could read them there.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from mcp_baton.protocol.state import KeyUnavailable
from mcp_baton.settings import MIN_STATE_KEY_CHARS
from mcp_baton.telemetry import INTERNAL_ERRORS, SILENT, Telemetry

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.parameters import SecretsProvider
    from botocore.client import BaseClient

logger = logging.getLogger(__name__)

MAX_KEY_AGE_S: Final = 300
"""How long a process signs with a key before it reads the secret again, seconds."""
UNREACHABLE_GRACE_S: Final = 600
"""How much longer known keys are used while Secrets Manager does not answer, seconds."""
MIN_READ_INTERVAL_S: Final = 10
"""The shortest time between two reads because of unknown signatures, and after a failure, seconds. It limits the cost
of forged signatures, and the number of requests that wait for the client's timeout."""


class SecretKeys:
    """The keys in a secret. Implements `protocol.state.Keys`. `secret` is the secret's ARN."""

    def __init__(
        self,
        secret: str,
        connect: "Callable[[], BaseClient]",
        *,
        telemetry: Telemetry = SILENT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._secret = secret
        self._connect = connect
        self._telemetry = telemetry
        self._clock = clock
        self._provider: SecretsProvider | None = None
        self._signing_key: tuple[bytes, float] | None = None
        self._latest: tuple[bytes, ...] = ()
        self._read_at: float | None = None
        self._failed_at: float | None = None

    def __call__(self) -> Iterator[bytes]:
        """Yield the key that signs, then the other accepted keys, then those of a recent rotation. Raises
        `KeyUnavailable` if the secret cannot be read, or contains no key."""
        yield self._signing()
        now = self._clock()
        if self._read_at is None or now - self._read_at >= MIN_READ_INTERVAL_S:
            try:
                latest = [self._current(), self._read("AWSPREVIOUS")]
            except KeyUnavailable:
                if self._read_at is not None and now - self._read_at < MAX_KEY_AGE_S + UNREACHABLE_GRACE_S:
                    yield from self._latest
                # None of these keys made the signature, but a key that cannot be read may have.
                raise
            self._latest = tuple(key for key in latest if key is not None)
            self._read_at = now
        yield from self._latest

    def _signing(self) -> bytes:
        """Return the key that signs. While the secret cannot be read, return the last one."""
        now = self._clock()
        if self._signing_key is None or now - self._signing_key[1] >= MAX_KEY_AGE_S + UNREACHABLE_GRACE_S:
            return self._current()
        if now - self._signing_key[1] >= MAX_KEY_AGE_S:
            with suppress(KeyUnavailable):
                return self._current()
        return self._signing_key[0]

    def _current(self) -> bytes:
        key = self._read("AWSCURRENT")
        if key is None or len(key) < MIN_STATE_KEY_CHARS:
            raise self._unavailable(f"it does not exist, or has no key of {MIN_STATE_KEY_CHARS} characters or more")
        self._signing_key = key, self._clock()
        return key

    def _read(self, stage: str) -> bytes | None:
        """Return the key of a version; `None` if the version does not exist, as before the first rotation.

        The cache of Powertools is not used: it does not distinguish versions of a secret.
        """
        if self._failed_at is not None and self._clock() - self._failed_at < MIN_READ_INTERVAL_S:
            raise KeyUnavailable
        try:
            value = self._open().get(self._secret, force_fetch=True, VersionStage=stage)
        except Exception as error:
            # Powertools wraps the error of Secrets Manager.
            from botocore.exceptions import ClientError

            cause = error.__context__
            if isinstance(cause, ClientError) and cause.response["Error"]["Code"] == "ResourceNotFoundException":
                return None
            self._failed_at = self._clock()
            raise self._unavailable("it cannot be read", error) from error
        return value.encode() if isinstance(value, str) else bytes(value or b"")

    def _open(self) -> "SecretsProvider":
        if self._provider is None:
            from aws_lambda_powertools.utilities.parameters import SecretsProvider

            self._provider = SecretsProvider(boto3_client=self._connect())
        return self._provider

    def _unavailable(self, reason: str, error: Exception | None = None) -> KeyUnavailable:
        logger.error("BATON_STATE_KEY_SECRET=%s: %s", self._secret, reason, exc_info=error)
        self._telemetry.add(INTERNAL_ERRORS)
        return KeyUnavailable()
