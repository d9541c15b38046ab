"""Invariants 5, 6 and 11: what a process told its client, held against what was written."""

from typing import TYPE_CHECKING

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.json import dumps
from mcp_baton.protocol.jsonrpc import INVALID_REQUEST
from mcp_baton.server.running.runner import NOT_BEGUN
from tests.simulation.journal import Called, Process

if TYPE_CHECKING:
    from tests.simulation.invariants import Judge


def check_answer(judge: "Judge", process: Process) -> None:
    """What is told at this moment: what was acknowledged is there."""
    if "unknown" in {process.meta.get("recorded"), process.meta.get("persisted")}:
        judge.world.struck.add("an answer said that it is not known what was kept")
    match process.kind:
        case "call":
            _check_call(judge, process)
        case "start" | "resume" | "work":
            _check_run(judge, process)


def check_last(judge: "Judge", process: Process) -> None:
    """What has to hold in the end, when every late write has been made: what was told as not recorded is not there."""
    if process.kind == "call" and process.meta.get("recorded") is False:
        for call in process.calls:
            if call.serial in judge.placed:
                judge.wrong(6, f"{process.name} is told that call #{call.serial} is not recorded, and it is")
    # What came last is not a call if there was no time left to begin one.
    called_last = NOT_BEGUN not in dumps(process.meta.get("pause_reason"))
    if process.is_run and process.meta.get("persisted") is False and process.calls and called_last:
        last = process.calls[-1]
        for number, place in judge.placed.get(last.serial, ()):
            at = next((at for at, sent in enumerate(process.requests) if number in (sent.written or ())), None)
            if at is None or not any(sent.heard and sent.operation == "UpdateItem" for sent in process.requests[at:]):
                judge.wrong(6, f"{process.name} is told that {place} is not kept, and it is, by write #{number}")


def _check_call(judge: "Judge", process: Process) -> None:
    if process.meta.get("recorded") is True and not process.meta.get("oversized"):
        _check_placed(judge, process, [call for call in process.calls if call.heard])


def _check_run(judge: "Judge", process: Process) -> None:
    meta = process.meta
    if isinstance(process.answer, ProtocolError):
        if process.answer.code == INVALID_REQUEST:
            judge.claims.refused(process)
        if process.calls:
            judge.wrong(11, f"{process.name} is refused, and called tools")
        return
    if "task_id" not in meta or meta.get("persisted") in {False, "unknown"} or meta.get("oversized"):
        return
    _check_placed(judge, process, [call for call in process.calls if call.returned])


def _check_placed(judge: "Judge", process: Process, calls: list[Called]) -> None:
    for call in calls:
        if call.serial not in judge.placed:
            judge.wrong(5, f"{process.name} is told that call #{call.serial} of {call.tool} is kept, and it is not")
