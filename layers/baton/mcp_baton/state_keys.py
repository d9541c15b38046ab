"""The keys that sign request states, in a secret of AWS Secrets Manager: docs/deploying.md, "State key".

The version `AWSCURRENT` signs, `AWSPREVIOUS` is still accepted. Neither stands in the function's environment, where
whoever may look at the function would read it.
"""

import logging
import time
from collections.abc import Callable, Iterator
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
LOOK_AGAIN_S: Final = 10
"""How often, at most, a signature that no known key made has the secret read: forged ones cost no more than that."""


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
        self._latest: tuple[bytes, ...] = ()
        self._looked_at: float | None = None

    def __call__(self) -> Iterator[bytes]:
        """The key that signs, then those that are accepted as well, then what a rotation may just have brought.

        Raises:
            KeyUnavailable: the secret cannot be read, or holds no key.
        """
        yield self._current()
        now = self._clock()
        if self._looked_at is None or now - self._looked_at >= LOOK_AGAIN_S:
            self._latest = tuple(key for key in (self._current(anew=True), self._previous()) if key is not None)
            self._looked_at = now
        yield from self._latest

    def _current(self, *, anew: bool = False) -> bytes:
        key = self._read("AWSCURRENT", max_age_s=MAX_AGE_S, anew=anew)
        if key is None or len(key) < KEY_CHARACTERS:
            raise self._unavailable(f"it is not there, or holds no key of {KEY_CHARACTERS} characters or more")
        return key

    def _previous(self) -> bytes | None:
        # Not kept by Powertools, which knows values by their secret alone: it would be taken for the current one.
        return self._read("AWSPREVIOUS", max_age_s=0, anew=True)

    def _read(self, stage: str, *, max_age_s: int, anew: bool) -> bytes | None:
        """A version's key; `None` where the secret has no such version, as before its first rotation."""
        try:
            value = self._open().get(self._secret, max_age=max_age_s, force_fetch=anew, VersionStage=stage)
        except Exception as error:
            if _is_missing(error):
                return None
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
