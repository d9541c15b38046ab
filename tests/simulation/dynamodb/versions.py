"""A table that keeps every version of its items. Eventually consistent reads may return old versions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.simulation.dynamodb.database import Change, Database, Key
from tests.simulation.dynamodb.paths import Item


@dataclass(frozen=True, slots=True)
class Version:
    """An item after a write.

    Attributes:
        number: The number of the write, counted over all items.
        at_ms: The time of the write, epoch milliseconds.
        item: The item; `None` before its creation and after its deletion.
    """

    number: int
    at_ms: float
    item: Item | None


@dataclass(slots=True, kw_only=True)
class VersionedDatabase(Database):
    """The table of a simulation.

    Attributes:
        lag_ms: Returns a random age for the data of an eventually consistent read.
    """

    now_ms: Callable[[], float]
    lag_ms: Callable[[], float]
    versions: dict[Key, list[Version]] = field(default_factory=dict)
    writes: int = 0

    def visible(self, *, consistent: bool) -> Mapping[Key, Item]:
        """Return the items that a read sees: the current ones, or all of them as they were some time ago."""
        lag_ms = 0.0 if consistent else self.lag_ms()
        if not lag_ms:
            return self.items
        until_ms = self.now_ms() - lag_ms
        old_items = {
            key: next((version.item for version in reversed(versions) if version.at_ms <= until_ms), None)
            for key, versions in self.versions.items()
        }
        return {key: item for key, item in old_items.items() if item is not None}

    def since(self, key: Key, writes: int) -> list[Version]:
        """Return the versions of an item that were current at any time since write number `writes`."""
        versions = self.versions.get(key, [])
        earlier = [version for version in versions if version.number < writes]
        return [earlier[-1] if earlier else Version(-1, float("-inf"), None), *versions[len(earlier) :]]

    def keep(self, change: Change) -> None:
        self.versions.setdefault(change.key, []).append(Version(self.writes, self.now_ms(), change.after))
        self.writes += 1
