"""Pages of a list over several shards."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.tasks.dynamodb.items import shard_names, task_id_of
from mcp_baton.tasks.dynamodb.listing import MOST_QUERIES_PER_SHARD, Page, merged_page

type Table = dict[str, list[tuple[int, bool]]]
"""By shard, its tasks: the time of creation, and whether the task is listed."""


def named(number: int) -> str:
    return f"{number:04}"


def item_of(number: int) -> Item:
    return {"sk": {"S": f"TASK#{named(number)}"}}


class Shards:
    """Tasks in shards, read like DynamoDB: a limited number of items per read, filtered after the read."""

    def __init__(self, table: Table, most: int) -> None:
        self.table = {name: sorted(tasks, reverse=True) for name, tasks in table.items()}
        self.most = most
        self.reads = 0

    def read(self, shard: str, after: str | None) -> Page:
        self.reads += 1
        below = [task for task in self.table[shard] if after is None or named(task[0]) < after]
        page = below[: self.most]
        end = named(page[-1][0]) if len(below) > self.most else None
        return Page([item_of(number) for number, listed in page if listed], end)

    def page(self, after: str | None, wanted: int) -> Page:
        return merged_page(list(self.table), after, wanted, self.read)


def ids(items: Sequence[Item]) -> list[str]:
    return [task_id_of(item) for item in items]


@st.composite
def tables(draw: st.DrawFn) -> Table:
    shards = shard_names(draw(st.sampled_from([1, 2, 8])))
    table: Table = {shard: [] for shard in shards}
    for number in draw(st.sets(st.integers(0, 300), max_size=60)):
        table[draw(st.sampled_from(shards))].append((number, draw(st.booleans())))
    return table


@given(tables(), st.integers(1, 12), st.integers(1, 9))
def test_the_pages_of_a_list_contain_every_task_once_newest_first(table: Table, most: int, wanted: int) -> None:
    shards = Shards(table, most)
    seen: list[str] = []
    page = shards.page(None, wanted)
    while True:
        assert len(page.items) <= wanted
        seen += ids(page.items)
        if page.end is None:
            break
        page = shards.page(page.end, wanted)
    listed = sorted((number for tasks in table.values() for number, listed in tasks if listed), reverse=True)
    assert seen == [named(number) for number in listed]


def test_a_page_is_filled_after_expired_tasks() -> None:
    table: Table = {"00": [(number, number < 6) for number in range(10)]}
    assert ids(Shards(table, most=3).page(None, 3).items) == ["0005", "0004", "0003"]


def test_a_page_with_too_many_reads_is_short_and_has_a_cursor() -> None:
    table: Table = {"00": [(number, number == 0) for number in range(100)]}
    shards = Shards(table, most=3)
    page = shards.page(None, 3)
    assert page.items == []
    assert page.end is not None
    assert shards.reads == MOST_QUERIES_PER_SHARD


def test_only_the_shard_with_missing_tasks_is_read_again() -> None:
    table: Table = {
        "00": [(number, True) for number in range(100, 140)],
        "01": [(number, True) for number in range(40)],
    }
    shards = Shards(table, most=5)
    assert len(shards.page(None, 10).items) == 10
    assert shards.reads == 3
