"""Notifications of approvals that wait for a person: functions of the author and an SNS topic (docs/approvals.md)."""

import logging
from secrets import token_urlsafe
from typing import Final, cast

from msgspec.structs import replace

from mcp_baton.approvals.items import approvals_of
from mcp_baton.approvals.record import ApprovalRecord, ApprovalRequest
from mcp_baton.exceptions import StoreError
from mcp_baton.protocol.http import APPROVAL_LINKS_PATH
from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.tasks.ids import text_digest
from mcp_baton.telemetry import NOTIFICATIONS_FAILED
from mcp_baton.tools.templates import copy_json
from mcp_baton.workflow.execution import Execution

logger = logging.getLogger(__name__)

NOTIFY_AGAIN_MS: Final = 60_000
"""If a process dies before it has notified people, another process does so after this time."""


def notify(execution: Execution, record: ApprovalRecord) -> None:
    """Notify people of an approval that this request or job has requested. A failure is logged and counted, and the
    next process that reads the waiting approval tries again."""
    try:
        _notify(execution, record)
    except Exception:
        logger.exception("approval %s: people could not be notified; it is tried again", record.approval_id)
        execution.services.telemetry.add(NOTIFICATIONS_FAILED)


def _notify(execution: Execution, record: ApprovalRecord) -> None:
    services, store, now_ms = execution.services, execution.store, execution.now_ms()
    if store is None:
        return
    if record.notify_ms < now_ms:  # the process that has requested the approval died
        retry_ms = now_ms + NOTIFY_AGAIN_MS
        if not approvals_of(store).notified(record, retry_ms):
            return
        record = replace(record, notify_ms=retry_ms)
    shown, link, errors = record.to_json(), _link(execution, record), list[Exception]()
    for listener in services.server.approval_listeners:
        try:
            # A listener may change what it gets.
            listener(ApprovalRequest(cast("JsonObject", copy_json(shown)), link))
        except SystemExit as error:
            errors.append(RuntimeError(f"sys.exit({error.code!r})"))
        except Exception as error:  # noqa: BLE001 - `notify` logs it; the others must not depend on this one
            errors.append(error)
    if services.publisher is not None:
        members: dict[str, Json] = {"approval": shown}
        services.publisher.publish(dumps(members if link is None else {**members, "link": link}))
    if errors:
        raise ExceptionGroup("functions of on_approval failed", errors)
    try:
        approvals_of(store).notified(record, 0)
    except StoreError:
        logger.warning("approval %s: people may be notified again", record.approval_id, exc_info=True)


def _link(execution: Execution, record: ApprovalRecord) -> str | None:
    """Create a link that decides this approval. Only a digest of its token is stored."""
    base_url = record.base_url or execution.base_url
    if not execution.services.settings.approval_links or execution.store is None:
        return None
    if not base_url:  # an event has requested it
        logger.warning("approval %s: its notification has no link; set PublicUrl (BATON_BASE_URL)", record.approval_id)
        return None
    token = token_urlsafe(32)
    approvals_of(execution.store).add_link(record, text_digest(token))
    return f"{base_url}{APPROVAL_LINKS_PATH}{token}"
