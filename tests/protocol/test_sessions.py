"""The session id of the handshake era. It encodes which capabilities a client has declared."""

import re
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_baton.protocol.envelope import (
    APPS,
    CAPABILITIES,
    RANDOM_BYTES,
    capabilities_in,
    classify,
    session_id,
    shows_apps,
)
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.protocol.jsonrpc import RequestMessage
from mcp_baton.tools.asking import declares

RANDOM = bytes(range(RANDOM_BYTES))
ALL_SETS = [set(names) for count in range(len(CAPABILITIES) + 1) for names in combinations(CAPABILITIES, count)]
REACHABLE = [names for names in ALL_SETS if "sampling" in names or "sampling.tools" not in names]


def says(capabilities: JsonObject, capability: str) -> bool:
    return shows_apps(capabilities) if capability == APPS else declares(capabilities, capability)


@pytest.mark.parametrize("declared", REACHABLE, ids=lambda declared: "+".join(sorted(declared)))
def test_an_id_encodes_the_declared_capabilities(declared: set[str]) -> None:
    capabilities_read = capabilities_in(session_id(declared, RANDOM))

    assert capabilities_read is not None
    assert {capability for capability in CAPABILITIES if says(capabilities_read, capability)} == declared


def test_an_id_is_short_random_and_valid_in_a_header() -> None:
    identifier = session_id(CAPABILITIES, RANDOM)

    assert re.fullmatch(r"[A-Za-z0-9_-]{24}", identifier)
    assert identifier != session_id(CAPABILITIES, bytes(RANDOM_BYTES))


@pytest.mark.parametrize(
    "unreadable",
    [
        "",
        "123",
        "é",
        "a" * 200,
        session_id((), RANDOM)[:-1],
        session_id((), RANDOM) + "A",
        session_id((), RANDOM) + "==",
        "Ag" + session_id((), RANDOM)[2:],
        "Af8" + session_id((), RANDOM)[3:],
    ],
)
def test_an_invalid_id_reveals_nothing(unreadable: str) -> None:
    assert capabilities_in(unreadable) is None


@given(st.text(st.characters(max_codepoint=255)) | st.text("AQEfgh-_", min_size=24, max_size=24))
def test_any_text_is_a_valid_id_or_none(text: str) -> None:
    result = capabilities_in(text)

    declared = [capability for capability in CAPABILITIES if result is not None and says(result, capability)]
    assert result is None or capabilities_in(session_id(declared, RANDOM)) == result


@pytest.mark.parametrize(
    ("header", "is_known"),
    [({}, False), ({"mcp-session-id": "nonsense"}, False), ({"mcp-session-id": session_id((), RANDOM)}, True)],
    ids=["none", "unreadable", "an id"],
)
def test_a_client_with_a_valid_id_is_known(header: dict[str, str], is_known: bool) -> None:
    assert classify(RequestMessage(1, "tools/list", {}), header).is_known is is_known


def test_an_id_is_ignored_in_the_2026_era() -> None:
    meta: dict[str, Json] = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"roots": {}},
    }
    headers = {
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/list",
        "mcp-session-id": session_id(CAPABILITIES, RANDOM),
    }
    envelope = classify(RequestMessage(1, "tools/list", {"_meta": meta}), headers)

    assert (envelope.capabilities, envelope.is_known) == ({"roots": {}}, True)
