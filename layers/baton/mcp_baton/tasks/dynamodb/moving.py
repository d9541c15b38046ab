"""Values of one write on their way out of the head, within the time that the write has (docs/storage.md)."""

import logging
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct

from mcp_baton.exceptions import StoreUnavailable
from mcp_baton.tasks.dynamodb.attributes import Attribute, text_bytes
from mcp_baton.tasks.dynamodb.outside import (
    DAY_MS,
    LONGEST_TTL_MS,
    MARGIN_S,
    ObjectStore,
    Outside,
    retention_days,
)
from mcp_baton.tasks.dynamodb.placing import BUNDLE_BYTES, Place, cheapest_outside
from mcp_baton.tasks.dynamodb.pointers import (
    Bundle,
    Part,
    bundled,
    digest_of,
    object_key,
    piece_key,
    pointer_in,
    stored_form,
)
from mcp_baton.tasks.dynamodb.together import together
from mcp_baton.tasks.texts import VALUE_BYTES

logger = logging.getLogger(__name__)

BUCKET_S = 1.2
"""How long S3 is waited for. Where it fails, the same values then go to items of their own."""


class Target(Struct, frozen=True):
    """The task whose values are written.

    Attributes:
        expires_s: When the task expires, epoch seconds. Its values are kept for a day more, at least.
        now_ms: The time of the write, epoch milliseconds.
    """

    owner: str
    task_id: str
    expires_s: int
    now_ms: int

    @property
    def lives_ms(self) -> int:
        """For how long the task lives from now on. Its head expires at a whole second, which may be up to one later."""
        return max(self.expires_s * 1000 - 999 - self.now_ms, 0)

    def kept_until_s(self, days: int) -> int:
        """When what is written now is deleted at the earliest, epoch seconds; `days` as in `Pointer`."""
        return (self.now_ms + days * DAY_MS) // 1000 if days else self.expires_s + DAY_MS // 1000


class Mover:
    """Moves values of one write out of the head. Once S3 has failed, this write does not ask it again.

    Args:
        outside: Where values go.
        target: The task.
        until_s: The moment on `monotonic` after which nothing is begun and nothing waited for.
        monotonic: Seconds, from any moment on.

    Attributes:
        failed: Whether a value could not be written anywhere.
    """

    def __init__(self, outside: Outside, target: Target, until_s: float, monotonic: Callable[[], float]) -> None:
        self._table = outside.table
        # A task that lives longer than any object has its values in items.
        self._bucket = outside.bucket if target.lives_ms <= LONGEST_TTL_MS else None
        self._target = target
        self._written = outside.written
        self._until_s = until_s
        self._monotonic = monotonic
        self.failed = False

    @property
    def has_bucket(self) -> bool:
        """Whether there is a bucket, and it has not failed."""
        return self._bucket is not None

    def takes(self, value: Attribute) -> bool:
        """Whether a value can be kept outside: it is not there yet, and there is a place for one of its length."""
        return pointer_in(value) is None and (self.has_bucket or text_bytes(value) <= VALUE_BYTES)

    def move(self, values: Mapping[str, Attribute]) -> dict[str, Attribute]:
        """Write values outside, each once.

        Returns:
            The pointers for those that are there, by name. One that is missing could not be written.
        """
        parts = [Part(name, text_bytes(value), stored_form(value)) for name, value in values.items()]
        digests = {part.name: digest_of(part.data) for part in parts}
        owner, task_id = self._target.owner, self._target.task_id
        pointers: dict[str, Attribute] = {}
        for name, digest in digests.items():
            written = self._written.pointer(owner, task_id, digest)
            known = None if written is None else pointer_in(written)
            if written is not None and known is not None and known.until_s >= self._target.expires_s + MARGIN_S:
                pointers[name] = written
        new = [part for part in parts if part.name not in pointers]
        readable = bundled([part for part in new if part.text_bytes <= VALUE_BYTES])
        unreadable = bundled([part for part in new if part.text_bytes > VALUE_BYTES])
        for part, pointer in (*self._put(readable), *self._put_unreadable(unreadable)):
            self._written.note(owner, task_id, digests[part.name], pointer)
            pointers[part.name] = pointer
        return pointers

    def _put(self, bundles: Sequence[Bundle]) -> Iterator[tuple[Part, Attribute]]:
        left, sizes = bundles, [len(bundle.data) for bundle in bundles]
        if self._bucket is not None and cheapest_outside(sizes, bucket=True) is Place.BUCKET:
            left = yield from self._put_objects(self._bucket, bundles)
        if left:
            yield from self._done(left, self._put_items(left), 0)

    def _put_unreadable(self, bundles: Sequence[Bundle]) -> Iterator[tuple[Part, Attribute]]:
        """Values that are never read back: in S3 they are there for people, in the table for nobody."""
        if self._bucket is not None and bundles:
            yield from self._put_objects(self._bucket, bundles)

    def _done(
        self, bundles: Sequence[Bundle], failures: Sequence[Exception | None], days: int
    ) -> Generator[tuple[Part, Attribute], None, list[Bundle]]:
        failed = []
        for bundle, failure in zip(bundles, failures, strict=True):
            if failure is None:
                yield from bundle.pointers(days, self._target.kept_until_s(days))
            else:
                failed.append(bundle)
                if not isinstance(failure, StoreUnavailable):
                    raise failure
                self._note_failure(bundle, failure, in_bucket=bool(days))
        return failed

    def _note_failure(self, bundle: Bundle, failure: Exception, *, in_bucket: bool) -> None:
        where = "S3" if in_bucket else "items of their own"
        task_id, size = self._target.task_id, len(bundle.data)
        logger.error("task %s: values of %d bytes could not be kept in %s", task_id, size, where, exc_info=failure)
        if in_bucket:
            self._bucket = None
        else:
            self.failed = True

    def _put_objects(
        self, bucket: ObjectStore, bundles: Sequence[Bundle]
    ) -> Generator[tuple[Part, Attribute], None, list[Bundle]]:
        owner, task_id, days = self._target.owner, self._target.task_id, retention_days(self._target.lives_ms)
        jobs = [partial(bucket.put, object_key(owner, task_id, b.name, days), b.data, b.digest) for b in bundles]
        until_s = min(self._until_s, self._monotonic() + BUCKET_S)
        return (yield from self._done(bundles, together(jobs, until_s, self._monotonic), days))

    def _put_items(self, bundles: Sequence[Bundle]) -> list[Exception | None]:
        """What went wrong with each bundle; one is written when all its pieces are."""
        target, jobs, of = self._target, list[Callable[[], None]](), list[int]()
        for place, bundle in enumerate(bundles):
            for piece, start in enumerate(range(0, len(bundle.data), BUNDLE_BYTES)):
                key = piece_key(target.owner, target.task_id, bundle.name, piece)
                content: Attribute = {"B": bundle.data[start : start + BUNDLE_BYTES]}
                expires: Attribute = {"N": str(target.kept_until_s(0))}
                jobs.append(partial(self._table.put_value, {**key, "expires_at": expires, "data": content}))
                of.append(place)
        failures: list[Exception | None] = [None for _ in bundles]
        for place, failure in zip(of, together(jobs, self._until_s, self._monotonic), strict=True):
            failures[place] = failures[place] or failure
        return failures
