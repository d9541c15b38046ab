"""What a worker knows of the client whose call it makes: its era, and what it can be asked for. Nothing else of what
came with the request is kept (docs/background.md, On whose behalf)."""

from typing import Final

from mcp_baton.protocol.envelope import STATELESS_REVISIONS, Envelope, Era
from mcp_baton.protocol.json import JsonObject
from mcp_baton.tasks.work import Work

ASKED_FOR: Final = ("elicitation", "sampling", "roots")
"""The capabilities by which a client says what it can be asked for (MCP client/elicitation, sampling, roots)."""


def declared(envelope: Envelope) -> JsonObject | None:
    """What a client has declared that it can be asked for; `None` where that is not known."""
    if not envelope.is_known:
        return None
    return {name: envelope.capabilities[name] for name in ASKED_FOR if name in envelope.capabilities}


def envelope_of(work: Work, token: str) -> Envelope:
    """The surroundings of a worker's request.

    Args:
        work: What it has to do.
        token: Under which the function's progress is taken.
    """
    era = Era.STATELESS if work.revision in STATELESS_REVISIONS else Era.HANDSHAKE
    known = work.capabilities is not None
    return Envelope(era, work.revision, {}, work.capabilities or {}, token, None, is_known=known)
