"""Longer lifetimes of tasks, and of the values outside their heads (docs/storage.md)."""

from mcp_baton.exceptions import ClaimLost, Conflict, StoreUnavailable
from mcp_baton.tasks.dynamodb.attributes import attributes
from mcp_baton.tasks.dynamodb.expressions import Update, guarded_update, require_claim
from mcp_baton.tasks.dynamodb.heads import values_in
from mcp_baton.tasks.dynamodb.items import DAY_S, KEPT_UNTIL, MARGIN_S, number, whole_s
from mcp_baton.tasks.dynamodb.lists import record_in
from mcp_baton.tasks.dynamodb.task_items import TaskItems, has_claim, stored_item
from mcp_baton.tasks.dynamodb.values import pointer_in
from mcp_baton.tasks.ids import new_token
from mcp_baton.tasks.record import TaskRecord


def extend(tasks: TaskItems, task: TaskRecord, ttl_ms: int, least_ms: int) -> TaskRecord:
    """Make a task expire `ttl_ms` from now, if it does not live for `least_ms` already. See `JobStore.extend`."""
    now_ms, end_s, created_ms = tasks.now_ms(), number(stored_item(task), "expires_at"), task.created_ms
    longest_ms = max(task.ttl_ms, tasks.limits.max_ttl_ms)
    lifetime_ms = min(max(task.ttl_ms, now_ms + ttl_ms - created_ms), longest_ms)
    if end_s * 1000 >= now_ms + least_ms or lifetime_ms <= task.ttl_ms:
        return task
    expires_s = max(end_s, whole_s(created_ms + lifetime_ms))
    kept_s = _kept_until_s(tasks, task, expires_s)
    expires_s = min(expires_s, kept_s or expires_s)
    lifetime_ms = min(lifetime_ms, expires_s * 1000 - created_ms)
    if lifetime_ms <= task.ttl_ms:
        return task
    update = guarded_update(now_ms, new_token())
    if task.claim is not None:
        require_claim(update, task.claim)
    update.require("expires_at", "<", expires_s)
    update.set("expires_at", expires_s)
    update.set("ttl_ms", lifetime_ms)
    if kept_s is None:
        update.require_missing(KEPT_UNTIL)
    elif kept_s != number(stored_item(task), KEPT_UNTIL):
        # Another request may have stored values since, which are not kept so long.
        update.require("version", "=", task.version)
        update.set(KEPT_UNTIL, kept_s)
    try:
        current = _update_counted(tasks, task, update, expires_s, lifetime_ms)
    except Conflict as conflict:
        current = conflict.current  # it may live longer already
    if task.claim is not None and not has_claim(current, task.claim):
        raise ClaimLost(current)
    return current


def _kept_until_s(tasks: TaskItems, task: TaskRecord, expires_s: int) -> int | None:
    """Until when the values outside the head are kept, epoch seconds, after they were kept longer if the task is to
    live until `expires_s`; `None` if there are none.

    If they could not be kept longer, the task lives only as long as they do.
    """
    head = stored_item(task)
    if KEPT_UNTIL not in head:
        return None
    kept_s = number(head, KEPT_UNTIL)
    if kept_s >= expires_s + MARGIN_S:
        return kept_s  # values that other requests store meanwhile are kept at least as long
    from mcp_baton.tasks.dynamodb.outside import chunk_keys, keep, keys_of

    values = values_in(head).values()
    keys = keys_of(task.owner, task.task_id, filter(None, map(pointer_in, values)))
    try:
        for record in filter(None, map(record_in, values)):
            keys += chunk_keys(tasks.table, task.owner, task.task_id, record)
    except StoreUnavailable:
        return kept_s
    return expires_s + DAY_S if keep(tasks.table, keys, expires_s + DAY_S) else kept_s


def _update_counted(tasks: TaskItems, task: TaskRecord, update: Update, expires_s: int, lifetime_ms: int) -> TaskRecord:
    """Make a write that extends a task, and count the task by its new end.

    During the write it is counted at both ends. Whoever ends the task removes the count at the end that the item has,
    so no count is left over.
    """
    counter, old_item = tasks.live_tasks(), stored_item(task)
    new_item = old_item | attributes(expires_at=expires_s, ttl_ms=lifetime_ms)
    if counter is None or counter.has_same_span(old_item, new_item):
        return tasks.update(task.owner, task.task_id, update)
    counter.prolong(task.owner, task.task_id, new_item)
    try:
        extended_task = tasks.update(task.owner, task.task_id, update)
    except Exception:
        counter.leave(task.owner, task.task_id, new_item)
        raise
    counter.leave(task.owner, task.task_id, old_item)
    return extended_task
