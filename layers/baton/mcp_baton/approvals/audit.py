"""The audit log of approvals: one line for each change (docs/approvals.md, Audit)."""

import logging

from mcp_baton.approvals.record import ApprovalRecord

logger = logging.getLogger(__name__)


def audit(record: ApprovalRecord, change: str) -> None:
    """Log a change of an approval, without the call's arguments and without the message that quotes them."""
    members = {name: value for name, value in record.to_json().items() if name not in ("arguments", "message")}
    logger.info("approval %s: %s", record.approval_id, change, extra={"audit": True, "approval": members})
