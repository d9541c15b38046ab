"""The approval that a call would request: what people see of the call, and the digest that binds the approval to it
(docs/approvals.md, What an approval covers)."""

import sys
from collections.abc import Mapping
from hmac import digest as keyed_digest
from typing import Any, cast

from msgspec.structs import replace

from mcp_baton.approvals.notifying import NOTIFY_AGAIN_MS
from mcp_baton.approvals.record import ApprovalRecord, ApprovalState
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.keys import canonical_text, digest_of
from mcp_baton.tasks.record import SALT
from mcp_baton.tools.approval import HIDDEN_DEFAULT, HIDDEN_SECRET, Approval
from mcp_baton.tools.calls import ToolCall
from mcp_baton.tools.outcomes import Prepared
from mcp_baton.tools.quoting import visible as show
from mcp_baton.tools.schema.sent_values import without_secrets
from mcp_baton.tools.schema.signature import Signature
from mcp_baton.tools.shortening import shortened_arguments
from mcp_baton.tools.tool import Tool
from mcp_baton.workflow.execution import Execution
from mcp_baton.workflow.secrets import hidden_in


def new_request(
    execution: Execution, owner: str, name: str, approval: Approval, prepared: Prepared, call: ToolCall
) -> ApprovalRecord:
    """Return the approval of a call as it would be requested now."""
    tool = execution.server.tools[name]
    arguments = tool.input.complete(prepared.arguments, prepared.bound)
    visible = _without_secrets(tool, arguments, prepared.arguments, call)
    readable = _in_order(tool.signature, visible)
    now_ms = execution.now_ms()
    request = ApprovalRecord(
        approval_id="",
        digest="",
        state=ApprovalState.WAITING,
        tool=name,
        arguments=cast("JsonObject", show(shortened_arguments(readable))),
        message=approval.question(name, readable),
        audience=approval.audience,
        owner=owner,
        asked_ms=now_ms,
        until_ms=min(now_ms + round(approval.expires.total_seconds() * 1000), _task_ends_ms(execution, call)),
        task_id=None if call.task is None else call.task.task_id,
        workflow=call.workflow.name if call.workflow else None,
        step=call.name,
        by_requester=approval.by_requester,
        job_id=execution.job_id,
        notify_ms=now_ms + NOTIFY_AGAIN_MS if execution.services.notifies else 0,
        base_url=execution.base_url,
    )
    # In a task with secrets, every argument has a keyed digest: which of them are hidden may change with the
    # definition, and a decision about the same call must stay valid.
    has_secrets = call.task is not None and SALT in call.task.variables
    keyed_names = [name for name, value in arguments.items() if has_secrets or visible[name] != value]
    keyed_digests = {name: _keyed_digest(arguments[name], execution, call) for name in keyed_names}
    digest = digest_of(
        {
            "owner": owner,
            "tool": name,
            "inputSchema": tool.input_schema,
            "arguments": {**arguments, **keyed_digests},
            "workflow": request.workflow,
            "step": request.step,
            "definition": call.step.fingerprint if call.step else None,
            "task": request.task_id,
            "audience": request.audience,
            "message": approval.message,
        }
    )
    return replace(request, digest=digest)


def _keyed_digest(value: Json, execution: Execution, call: ToolCall) -> str:
    """Return a digest of an argument that may be secret. Approvers cannot compute it, because they do not know the key:
    the task's salt; for a call in a request that is not a step of a task with a salt, the key that signs states.
    Workers cannot read that key."""
    salt = None if call.task is None else call.task.variables.get(SALT)
    if call.task is not None and (salt is not None or call.step is not None or execution.job_id is not None):
        key = f"{salt} {call.task.task_id}".encode()
    else:
        seal = execution.services.seal
        key = b"" if seal.is_temporary else next(iter(seal.keys()))
    return keyed_digest(key, canonical_text(value).encode(), "sha256").hex()


def _task_ends_ms(execution: Execution, call: ToolCall) -> int:
    """Return when the task of a call expires at the latest, epoch milliseconds. Workers extend the lifetimes of their
    tasks."""
    task = call.task
    if task is None:
        return sys.maxsize
    longest_ms = 0 if execution.job_id is None else execution.services.settings.max_ttl_ms
    return task.created_ms + max(task.ttl_ms, longest_ms)


def _without_secrets(tool: Tool, arguments: JsonObject, sent: JsonObject, call: ToolCall) -> dict[str, Json]:
    """Return the arguments without the secrets of the workflow and those of the parameters' types."""
    # Secrets are looked for in values of their own, because those of the tool may be readable only once.
    bound: Mapping[str, Any] = {} if tool.input.is_plain else tool.input.bind(sent)
    secret_names = call.hidden
    if call.workflow is not None and call.step is not None:
        secret_names |= hidden_in(arguments, call.step.arguments, call.workflow.secrets)
    visible: dict[str, Json] = {}
    converted = {parameter.published_name: bound.get(parameter.name) for parameter in tool.signature.parameters}
    for name, value in arguments.items():
        if name in secret_names:
            visible[name] = HIDDEN_SECRET
            continue
        schema = {} if tool.input.is_plain else tool.input.schema_of(name)
        visible[name] = call.secrets.hide(without_secrets(value, converted.get(name), schema, HIDDEN_SECRET))
    return visible


def _in_order(signature: Signature, arguments: JsonObject) -> dict[str, Json]:
    """Return an argument for each parameter, in their order. A default that is created for each call is not known."""
    names = (parameter.published_name for parameter in signature.parameters)
    return {name: arguments.get(name, HIDDEN_DEFAULT) for name in names}
