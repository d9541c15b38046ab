"""Pages of a list over several shards."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.tasks.dynamodb.items import shard_names, task_id_of
from mcp_baton.tasks.dynamodb.listing import MOST_QUERIES_PER_SHARD, Page, merged_page

type Table = dict[str, list[tuple[int, bool]]]
"""By shard, its tasks: the time of creation, and whether the task is listed."""


def id_of(number: int) -> str:
    return f"{number:04}"


def item_of(number: int) -> Item:
    return {"sk": {"S": f"TASK#{id_of(number)}"}}


class Shards:
    """Tasks in shards, read like DynamoDB: a limited number of items per read, filtered after the read."""

    def __init__(self, table: Table, read_limit: int) -> None:
        self.table = {name: sorted(tasks, reverse=True) for name, tasks in table.items()}
        self.read_limit = read_limit
        self.reads = 0

    def read(self, shard: str, cursor: str | None) -> Page:
        self.reads += 1
        remaining = [task for task in self.table[shard] if cursor is None or id_of(task[0]) < cursor]
        page = remaining[: self.read_limit]
        end = id_of(page[-1][0]) if len(remaining) > self.read_limit else None
        return Page([item_of(number) for number, is_listed in page if is_listed], end)

    def page(self, cursor: str | None, count: int) -> Page:
        return merged_page(list(self.table), cursor, count, self.read)


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
def test_the_pages_of_a_list_contain_every_task_once_newest_first(table: Table, read_limit: int, count: int) -> None:
    shards = Shards(table, read_limit)
    ids_read: list[str] = []
    page = shards.page(None, count)
    while True:
        assert len(page.items) <= count
        ids_read += ids(page.items)
        if page.end is None:
            break
        page = shards.page(page.end, count)
    numbers = sorted((number for tasks in table.values() for number, numbers in tasks if numbers), reverse=True)
    assert ids_read == [id_of(number) for number in numbers]


def test_a_page_is_filled_after_expired_tasks() -> None:
    table: Table = {"00": [(number, number < 6) for number in range(10)]}
    assert ids(Shards(table, read_limit=3).page(None, 3).items) == ["0005", "0004", "0003"]


def test_a_page_with_too_many_reads_is_short_and_has_a_cursor() -> None:
    table: Table = {"00": [(number, number == 0) for number in range(100)]}
    shards = Shards(table, read_limit=3)
    page = shards.page(None, 3)
    assert page.items == []
    assert page.end is not None
    assert shards.reads == MOST_QUERIES_PER_SHARD


def test_only_the_shard_with_missing_tasks_is_read_again() -> None:
    table: Table = {
        "00": [(number, True) for number in range(100, 140)],
        "01": [(number, True) for number in range(40)],
    }
    shards = Shards(table, read_limit=5)
    assert len(shards.page(None, 10).items) == 10
    assert shards.reads == 3
