"""Random plans over all features end as the model of the language says.

A failing plan is shrunk and printed as code. `make model` tries many more.
"""

import logging
from collections.abc import Iterator

import pytest

from tests.model.coverage import PICTURE, pairs_of_seeds, picture
from tests.model.driver import fast_connections
from tests.model.examples import EXAMPLES, Example
from tests.model.kills import drive_with_kills, random_plan_to_kill
from tests.model.random_plans import random_plan
from tests.model.shrink import difference, report, shrunk

CHUNKS, CHUNK = 4, 50


@pytest.fixture(autouse=True)
def _fast(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.CRITICAL + 1)
    with fast_connections():
        yield


@pytest.mark.parametrize("first", range(0, CHUNKS * CHUNK, CHUNK))
def test_random_plans_end_as_in_the_model(first: int) -> None:
    for seed in range(first, first + CHUNK):
        if difference(*random_plan(seed)):
            pytest.fail(f"seed {seed}\n{report(*shrunk(*random_plan(seed)))}", pytrace=False)


@pytest.mark.parametrize("first", range(0, CHUNKS // 2 * CHUNK, CHUNK))
def test_random_plans_whose_functions_are_killed_end_as_without_kills(first: int) -> None:
    assert sum([drive_with_kills(*random_plan_to_kill(seed)) for seed in range(first, first + CHUNK)]) > CHUNK / 2


@pytest.mark.parametrize("example", [pytest.param(example, id=example.name) for example in EXAMPLES])
def test_a_plan_that_once_differed_ends_as_in_the_model(example: Example) -> None:
    text = difference(example.plan, example.world)
    assert not text, text


def test_the_picture_of_the_feature_pairs_is_current_and_each_pair_occurs_often() -> None:
    pairs = pairs_of_seeds(5000)
    assert min(pairs.values()) >= 50
    assert PICTURE.read_text() == picture(pairs), "run `python -m tests.model.coverage`"
