"""The units of `benchmarks/metering.py`: those computed from item sizes equal those that DynamoDB Local reports."""

from dataclasses import replace

import pytest

from costs.metering import Unmetered, Usage
from costs.places import Place
from costs.workloads import TYPICAL, Driver, Kind, Workload, chain, text_of, value, zipped_share
from mcp_baton.local.dynamodb import create_table

# Computed sizes are a few bytes too large (numbers with trailing zeros). No item here is close to a whole unit.
WIDE = replace(TYPICAL, name="wide", value_bytes=25_000, before=4, by_client=2, polls=1)


def units(usage: Usage) -> tuple[float, ...]:
    return usage.writes, usage.reads, usage.requests, usage.http


@pytest.mark.parametrize(("workload", "kind"), [(TYPICAL, "JSON"), (WIDE, "opaque")])
def test_sizes_give_the_units_that_dynamodb_local_reports(
    dynamodb_place: Place, size_place: Place, workload: Workload, kind: Kind
) -> None:
    usages = [Driver(place, workload, kind).run_to_end() for place in (dynamodb_place, size_place)]

    assert units(usages[0]) == units(usages[1])
    assert usages[0].writes > 0


def test_a_list_costs_the_same_both_ways(dynamodb_place: Place, size_place: Place) -> None:
    pages: list[Usage] = []
    for place in (dynamodb_place, size_place):
        driver = Driver(place, chain(10, 2_000, paused=True), "JSON")
        for _ in range(4):
            driver.run()
        pages.append(driver.page())

    assert units(pages[0]) == units(pages[1])
    assert pages[0].reads > 0


def test_a_write_whose_condition_fails_is_billed_by_the_stored_item(place: Place) -> None:
    create_table(place.dynamodb, "refused")
    key = {"pk": {"S": "a"}, "sk": {"S": "b"}}
    place.dynamodb.put_item(TableName="refused", Item={**key, "text": {"S": "x" * 5_000}})
    place.meter.take()

    with pytest.raises(place.counted.exceptions.ConditionalCheckFailedException):
        place.counted.put_item(
            TableName="refused",
            Item=key,
            ConditionExpression="attribute_not_exists(pk)",
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )

    usage = place.meter.take()
    assert (usage.writes, usage.requests, usage.keys) == (5, 1, {"a": (5, 0)})


def test_a_request_that_cannot_be_metered_is_refused(place: Place) -> None:
    with pytest.raises(Unmetered, match="Scan"):
        place.counted.scan(TableName="any")


@pytest.mark.parametrize(("kind", "share"), [("JSON", 0.25), ("opaque", 0.76)])
def test_values_have_the_given_size_and_compression(kind: Kind, share: float) -> None:
    assert [len(text_of(value(kind, size, 1))) for size in (100, 2_048, 20_480)] == [100, 2_048, 20_480]
    assert zipped_share(kind, 20_480) == pytest.approx(share, abs=0.01)
