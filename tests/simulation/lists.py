"""Simulations of a workflow with a list. Clients also supply its elements one by one (docs/workflows.md, Lists)."""

from functools import cache
from typing import Any, cast

from mcp_baton import ListStep, Server, ToolStep, constant, item, prompt_arg
from mcp_baton.protocol.json import Json
from mcp_baton.tasks.dynamodb.lists import chunk_in, record_in
from mcp_baton.tasks.record import ELEMENTS_PREFIX, ITEMS_PREFIX, RESULT_PREFIX
from mcp_baton.tasks.texts import is_zipped, unzipped
from mcp_baton.workflow.steps.step import Step
from tests.simulation.dynamodb.database import Change, Key
from tests.simulation.dynamodb.paths import Item
from tests.simulation.heads import reasons_of, serial_in, steps_of, value_of, variables_of
from tests.simulation.invariants import Judge
from tests.simulation.journal import Process, ToolCall
from tests.simulation.servers import Plan, look, mail, server_of
from tests.simulation.world import World

NAMES = ["ann", "bob", "cy", "dora"]
STEP = "mails"


@cache
def listing_server(parallel: int) -> Server:
    steps: list[Step] = [
        ToolStep("look", {"key": prompt_arg("key")}, tool=look, checkpoint=True),
        ListStep(STEP, {"to": item()}, tool=mail, each=constant(NAMES), parallel=parallel, checkpoint=parallel == 2),
        ToolStep("last", {"key": prompt_arg("key")}, tool=look),
    ]
    return server_of({"list": steps})


class ListJudge(Judge):
    def _check_head(self, number: int, change: Change, process: Process | None, now_ms: float) -> None:
        super()._check_head(number, change, process, now_ms)
        assert change.after is not None
        before, after = self._results(change.before), self._results(change.after)
        for index, value in after.items():
            call = self.world.calls[(serial_in(value) or 0) - 1]
            self.placed.setdefault(call.serial, [(number, f"{STEP}[{index}]")])
            named = call.process.named_step.partition("/")[2]
            if call.tool != "mail" or (named != str(index) and call.arguments["to"] != NAMES[index]):
                self.wrong(19, f"write #{number} stores call #{call.serial} {call.arguments} as element {index}")
        for index, value in before.items():
            new_value = after.get(index)
            process = None if new_value is None else self.world.calls[(serial_in(new_value) or 0) - 1].process
            if new_value != value and not (process and (process.is_run or process.named_step)):
                self.wrong(19, f"write #{number} replaces the result {value} of element {index} by {new_value}")

    def _check_pause(self, before: Item, after: Item) -> None:
        """Accept that the pause reason of an unfinished list is removed when the elements that it names have
        results."""
        reason = dict(reasons_of(before)).get(STEP, {})
        indexes = [int(entry["M"]["index"]["N"]) for entry in reason.get("failedItems", {"L": []})["L"]]
        if not indexes or not self._results(after).keys() >= set(indexes):
            super()._check_pause(before, after)

    def _check_placed(self, process: Process, calls: list[ToolCall]) -> None:
        """Check that calls are stored. Of two calls of one element, one result is stored. A failed call's error is in
        the pause reason."""
        names = {self.world.calls[serial - 1].arguments.get("to") for serial in self.placed}
        named = [self.world.calls[serial - 1].process.named_step.partition("/")[2] for serial in self.placed]
        names |= {NAMES[int(index)] for index in named if index}
        is_element = "/" in process.named_step
        calls = [call for call in calls if call.has_result or not is_element]
        other_calls = [call for call in calls if call.tool != "mail" or call.arguments["to"] not in NAMES]
        list_calls = [call for call in calls if call.has_result and call not in other_calls]
        super()._check_placed(process, other_calls + [call for call in list_calls if call.arguments["to"] not in names])

    def _results(self, head: Item | None) -> dict[int, Json]:
        """Return the stored results by element, of the unfinished or the completed list."""
        if head is None:
            return {}
        variables = variables_of(head)
        if ITEMS_PREFIX + STEP in variables:
            elements = value_of(head, ELEMENTS_PREFIX + STEP, self.world.stored)
            if elements != NAMES or self._completed(head):
                self.wrong(19, f"the elements are {elements}")
            return self._record_results(variables[ITEMS_PREFIX + STEP])
        if not self._completed(head):
            return {}
        if record_in(cast("Any", variables[RESULT_PREFIX + STEP])):
            results = self._record_results(variables[RESULT_PREFIX + STEP])
        else:
            value = value_of(head, RESULT_PREFIX + STEP, self.world.stored)
            results = dict(enumerate(value)) if isinstance(value, list) else {}
        if len(results) != len(NAMES):
            self.wrong(19, f"the results are {results}")
        return results

    def _record_results(self, attribute: Any) -> dict[int, Json]:
        """Return the results in the record of a list, by element, from its head and its chunks."""
        record = record_in(attribute)
        assert record is not None
        chunks = []
        for number in record.chunks:
            self.world.incidents.add("results of a list were stored in a chunk")
            pieces = [item for key, item in self.world.database.items.items() if self._is_piece(key, record.id, number)]
            data = b"".join(bytes(item["data"]["B"]) for item in sorted(pieces, key=lambda item: item["sk"]["S"]))
            chunks.append(chunk_in((unzipped(data) if is_zipped(data) else data).decode()))
        results = record.in_order(chunks)
        if any(results[index] is None for index in record.done):
            self.wrong(19, f"the results {results} lack one of {sorted(record.done)}")
        return {index: results[index] for index in record.done}

    @staticmethod
    def _is_piece(key: Key, list_id: str, number: int) -> bool:
        return key[0].endswith(f"#{list_id}") and key[1].startswith(f"{number:06}#")

    def _completed(self, head: Item) -> bool:
        return steps_of(head).get(STEP) == "completed"


class ListWorld(World):
    judge_type = ListJudge

    def _set_up(self) -> None:
        super()._set_up()
        self.plan = Plan("list", tuple(("mail", {"to": name}) for name in [*NAMES, "zoe"]))
        self.parallel = self.rng.choice([1, 2, 3])

    def names_of(self, tool: str) -> list[str]:
        return [f"{STEP}/{index}" for index in range(len(NAMES))] if tool == "mail" else super().names_of(tool)

    def server(self, *, edited: bool) -> Server:  # noqa: ARG002 - this simulation has only one version of the workflow
        return listing_server(self.parallel)
