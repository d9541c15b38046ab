"""The keys that sign request states, in a secret of AWS Secrets Manager: docs/deploying.md, "State key".

The version `AWSCURRENT` signs, `AWSPREVIOUS` is still accepted. Neither stands in the function's environment, where
whoever may look at the function would read it.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from mcp_baton.protocol.state import KeyUnavailable
from mcp_baton.settings import KEY_CHARACTERS
from mcp_baton.telemetry import INTERNAL_ERRORS, SILENT, Telemetry

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.parameters import SecretsProvider
    from botocore.client import BaseClient

logger = logging.getLogger(__name__)

MAX_AGE_S: Final = 300
"""How long a process goes on signing with a key, seconds, before it reads the secret again."""
GRACE_S: Final = 600
"""How much longer, seconds, known keys are used while Secrets Manager does not answer."""
LOOK_AGAIN_S: Final = 10
"""How often, at most, a signature that no known key made has the secret read: forged ones cost no more than that. After
a failure the secret is not read again for as long: each request would wait for the client's time limit."""


class SecretKeys:
    """The keys in a secret. Implements `protocol.state.Keys`.

    Args:
        secret: The secret's ARN.
        connect: Makes the client of Secrets Manager when it is first needed.
        telemetry: Where a secret that cannot be read is counted.
        clock: Seconds, from any beginning.
    """

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
        self._signs: tuple[bytes, float] | None = None
        self._latest: tuple[bytes, ...] = ()
        self._looked_at: float | None = None
        self._failed_at: float | None = None

    def __call__(self) -> Iterator[bytes]:
        """The key that signs, then those that are accepted as well, then what a rotation may just have brought.

        Raises:
            KeyUnavailable: the secret cannot be read, or holds no key.
        """
        yield self._signing()
        now = self._clock()
        if self._looked_at is None or now - self._looked_at >= LOOK_AGAIN_S:
            try:
                latest = [self._current(), self._read("AWSPREVIOUS")]
            except KeyUnavailable:
                if self._looked_at is not None and now - self._looked_at < MAX_AGE_S + GRACE_S:
                    yield from self._latest
                # None of these has made the signature, but a key that cannot be read may have.
                raise
            self._latest = tuple(key for key in latest if key is not None)
            self._looked_at = now
        yield from self._latest

    def _signing(self) -> bytes:
        """The key that signs; while the secret cannot be read, the one that was read last."""
        now = self._clock()
        if self._signs is None or now - self._signs[1] >= MAX_AGE_S + GRACE_S:
            return self._current()
        if now - self._signs[1] >= MAX_AGE_S:
            with suppress(KeyUnavailable):
                return self._current()
        return self._signs[0]

    def _current(self) -> bytes:
        key = self._read("AWSCURRENT")
        if key is None or len(key) < KEY_CHARACTERS:
            raise self._unavailable(f"it is not there, or holds no key of {KEY_CHARACTERS} characters or more")
        self._signs = key, self._clock()
        return key

    def _read(self, stage: str) -> bytes | None:
        """A version's key; `None` where the secret has no such version, as before its first rotation.

        Powertools keeps nothing: it knows values by their secret alone, and would take the previous key for the current
        one.
        """
        if self._failed_at is not None and self._clock() - self._failed_at < LOOK_AGAIN_S:
            raise KeyUnavailable
        try:
            value = self._open().get(self._secret, force_fetch=True, VersionStage=stage)
        except Exception as error:
            if _is_missing(error):
                return None
            self._failed_at = self._clock()
            raise self._unavailable("it cannot be read", error) from error
        return value.encode() if isinstance(value, str) else bytes(value or b"")

    def _open(self) -> "SecretsProvider":
        if self._provider is None:
            from aws_lambda_powertools.utilities.parameters import SecretsProvider

            self._provider = SecretsProvider(boto3_client=self._connect())
        return self._provider

    def _unavailable(self, why: str, error: Exception | None = None) -> KeyUnavailable:
        logger.error("BATON_STATE_KEY_SECRET=%s: %s", self._secret, why, exc_info=error)
        self._telemetry.add(INTERNAL_ERRORS)
        return KeyUnavailable()


def _is_missing(error: Exception) -> bool:
    """Whether Secrets Manager says that there is no such version. Powertools raises an error of its own instead."""
    from botocore.exceptions import ClientError

    cause = error.__context__
    return isinstance(cause, ClientError) and cause.response["Error"]["Code"] == "ResourceNotFoundException"
