"""The values of a board, of which none is fetched that is kept outside the task's item."""

from collections.abc import Iterable, Iterator
from typing import Any

from mcp_baton.protocol.json import Json, dumps
from mcp_baton.server.workflows.board import inside, parts_of
from mcp_baton.tasks.record import PROGRESS, TaskRecord, TaskStatus
from mcp_baton.tasks.values import StoredValues, Weight
from mcp_baton.workflow.plan import Plan

NEVER = "2026-01-01T00:00:00.000Z"


class Kept(StoredValues):
    """Values, some of which cannot be read without another request."""

    def __init__(self, values: dict[str, Json], outside: set[str]) -> None:
        self._values = values
        self._outside = outside

    def __getitem__(self, name: str) -> Json:
        assert name not in self._outside, f"{name} was fetched"
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def weight(self, name: str) -> Weight:
        return Weight(len(dumps(self._values[name])), name in self._outside)

    def holds(self, _name: str, _text: bytes) -> bool | None:
        return None

    def text(self, name: str) -> Iterator[str]:
        yield dumps(self[name])

    def read_ahead(self, _names: Iterable[str]) -> None:
        raise AssertionError("values were fetched")


class NoTools:
    """Implements `handoff.Requirements`."""

    def required(self, _tool: str) -> frozenset[str]:
        return frozenset()

    def carries(self, _size: int) -> bool:
        return True


def test_a_short_value_that_is_kept_outside_is_named_and_not_fetched() -> None:
    names = ("near", "far")
    steps: Any = [{"name": name, "tool": "t", "status": "completed"} for name in names]
    progress: Json = {"goal": "", "steps": steps, "schemaVersion": 1}
    values: dict[str, Json] = {PROGRESS: progress, **{f"_workflow.result.{name}": name for name in names}}
    far = {"_workflow.result.far"}
    task = TaskRecord("o", "id", TaskStatus.WORKING, NEVER, NEVER, 1, 1, Kept(values, far))
    plan = Plan(inside(task), None, lambda _: None, lambda _, arguments: arguments)

    near, other = parts_of(task, plan, NoTools())
    assert (near.value, near.size) == ("near", 6)
    assert other.value is None
    assert other.note == {"bytes": 5, "uri": "baton://tasks/id/_workflow.result.far"}
    assert inside(task).variables.keys() == values.keys() - far
