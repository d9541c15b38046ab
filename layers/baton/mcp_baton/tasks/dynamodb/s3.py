"""Large values in S3: keys, how long objects are kept, and one request for each object (docs/storage.md)."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Protocol

from mcp_baton.exceptions import StoreUnavailable
from mcp_baton.tasks.dynamodb.table import LazyClient
from mcp_baton.telemetry import SILENT, STORE_ERRORS, Telemetry

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

RETENTION_DAYS = (2, 8, 31, 401)
"""How long an object can be kept, days. `template.yaml` has a lifecycle rule for each."""

DAY_MS = 86_400_000
LONGEST_TTL_MS = (RETENTION_DAYS[-1] - 1) * DAY_MS
"""The longest lifetime of a task whose objects certainly outlive it, milliseconds."""

MISSING = frozenset({"NoSuchKey", "AccessDenied"})
"""S3 returns `AccessDenied` for a missing object if the caller may not list the bucket. Baton may not."""


class ObjectMissing(Exception):
    """There is no object with this key, or it may not be read. Without the right to list, S3 does not say which."""


class ObjectTooLarge(Exception):
    """The object is larger than what was written under its key. Nothing of it was read."""


class ObjectStore(Protocol):
    """A bucket in S3, or a test's. Both methods raise `StoreUnavailable`."""

    def put(self, key: str, data: bytes, digest: bytes) -> None:
        """Write an object. No object with other content has its key. S3 rejects data with another SHA-256."""

    def get(self, key: str, limit: int) -> bytes:
        """Read an object of at most `limit` bytes. Raises `ObjectMissing`, `ObjectTooLarge`."""


class S3ObjectStore:
    """An `ObjectStore` in one bucket. A missing object counts as a failure in the telemetry."""

    def __init__(self, bucket: str, connect: "Callable[[], S3Client]", telemetry: Telemetry = SILENT) -> None:
        self._bucket = bucket
        self._telemetry = telemetry
        self._connection = LazyClient(connect)

    def put(self, key: str, data: bytes, digest: bytes) -> None:
        from base64 import b64encode

        checksum = b64encode(digest).decode()
        with self._request("PutObject") as client:
            client.put_object(Bucket=self._bucket, Key=key, Body=data, ChecksumSHA256=checksum)

    def get(self, key: str, limit: int) -> bytes:
        with self._request("GetObject") as client:
            answer = client.get_object(Bucket=self._bucket, Key=key)
            with closing(answer["Body"]) as body:
                if answer["ContentLength"] > limit:
                    raise ObjectTooLarge(f"{answer['ContentLength']} bytes")
                return body.read()

    def delete_all(self, prefix: str) -> int:
        """Delete the objects whose keys begin with a prefix. Returns their number."""
        deleted = 0
        with self._request("DeleteObjects") as client:
            pages = client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=prefix, PaginationConfig={"PageSize": 100}
            )
            for page in pages:
                keys = [entry["Key"] for entry in page.get("Contents", ())]
                if not keys:
                    break
                answer = client.delete_objects(Bucket=self._bucket, Delete={"Objects": [{"Key": key} for key in keys]})
                for error in answer.get("Errors", ()):
                    raise StoreUnavailable(f"S3 did not delete {error.get('Key')}: {error.get('Code')}")
                deleted += len(keys)
        return deleted

    @contextmanager
    def _request(self, operation: str) -> "Iterator[S3Client]":
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            client = self._connection.client()
            began_s, failed = time.perf_counter(), True
            try:
                yield client
                failed = False
            finally:
                duration_s = time.perf_counter() - began_s
                self._telemetry.add_request("S3", operation, duration_s, failed=failed, bucket_name=self._bucket)
        except ClientError as error:
            self._telemetry.add(STORE_ERRORS)
            code, message = error.response["Error"]["Code"], error.response["Error"]["Message"]
            if operation == "GetObject" and code in MISSING:
                raise ObjectMissing(f"{code}: {message}") from error
            raise StoreUnavailable(f"S3 refused: {code}: {message}") from error
        except BotoCoreError as error:
            self._telemetry.add(STORE_ERRORS)
            raise StoreUnavailable(f"S3 did not answer: {type(error).__name__}: {error}") from error
