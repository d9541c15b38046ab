"""Reads a job's item for the judge, without Baton's own reading code."""

from collections.abc import Mapping
from dataclasses import dataclass

from tests.simulation.dynamodb.paths import Attribute, Item
from tests.simulation.heads import claim_of, status_of


@dataclass(frozen=True, slots=True)
class Head:
    """A job's state in its item.

    Attributes:
        until_ms: When the claim ends, epoch milliseconds; 0 after it was released.
        allowed: How many attempts may begin.
        due_ms: When the job may be dispatched again, epoch milliseconds.
        listed_ms: From when on sweeps find the job, epoch milliseconds; `None` if it is not in the outbox.
    """

    status: str
    holder: str
    started: int
    until_ms: int
    allowed: int
    dispatches: int
    due_ms: int
    questions: Mapping[str, Attribute]
    answers: Mapping[str, Attribute]
    listed_ms: int | None

    @property
    def open_keys(self) -> frozenset[str]:
        return frozenset(self.questions.keys() - self.answers.keys())


def head_in(item: Item) -> Head:
    claim = claim_of(item)
    assert claim is not None
    return Head(
        status_of(item),
        *claim,
        allowed=int(item["allowed"]["N"]),
        dispatches=int(item["dispatches"]["N"]),
        due_ms=int(item["due"]["N"]),
        questions=questions_in(item),
        answers=item["answers"]["M"],
        listed_ms=int(item["listed_at"]["S"].partition("#")[0]) if "listed_in" in item else None,
    )


def questions_in(item: Item) -> Mapping[str, Attribute]:
    questions: Mapping[str, Attribute] = item["asked"]["M"]
    return questions
