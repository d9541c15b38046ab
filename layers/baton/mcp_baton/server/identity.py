"""Whether a caller is served: it has an identity, and one that its tasks can be kept under (docs/http.md)."""

from typing import Final

MAX_OWNER_BYTES: Final = 2_000
"""Of an owner's name as it is stored: DynamoDB's partition keys have 2,048 bytes, and hold more than the name."""

_SHORT: Final = 160
"""Characters that cannot be too many bytes, however they are stored: at most 12 each, in quotation marks."""

NOBODY: Final = (
    "Forbidden: this call has no identity, so nothing was run. For the operator: give the API an authorizer (template "
    "parameter Auth), or let everybody in with BATON_ALLOW_ANONYMOUS=on"
)
NO_HEADER: Final = (
    "Forbidden: this call has no identity, so nothing was run. Send the header that --owner-header names, once and "
    "with a value"
)


def forbidden(owner: str | None, *, local: bool) -> str | None:
    """Why a caller is refused; `None` when it is not.

    Args:
        owner: The identity, `None` for a caller without one.
        local: Whether the server is one on the developer's machine.
    """
    if owner is None:
        return NO_HEADER if local else NOBODY
    size = 0 if len(owner) <= _SHORT else _stored_size(owner)
    if size > MAX_OWNER_BYTES:
        return (
            f"Forbidden: the caller's identity has {size} bytes, and no more than {MAX_OWNER_BYTES} can be kept, so "
            "nothing was run. For the operator: have the authorizer give a shorter `sub` or principal"
        )
    return None


def _stored_size(owner: str) -> int:
    from mcp_baton.tasks.attributes import to_text

    return len(to_text(owner).encode())
