"""What the features add to runs. The imports are inside the methods, because most calls need no feature."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from mcp_baton.tasks.store import TaskStore
    from mcp_baton.tools.approval import Approval
    from mcp_baton.tools.calls import ToolCall
    from mcp_baton.tools.outcomes import Failed, Prepared
    from mcp_baton.tools.running.caller import Grant
    from mcp_baton.workflow.execution import Execution


class AllFeatures:
    """Implements `tools.running.caller.Features`."""

    def guard(
        self, execution: "Execution", tool: str, approval: "Approval", prepared: "Prepared", call: "ToolCall"
    ) -> "Failed | Grant | None":
        from mcp_baton.approvals.gate import refusal_without_approval

        return refusal_without_approval(execution, tool, approval, prepared, call)

    def callback_url(self, execution: "Execution", call: "ToolCall", step: str) -> str:
        from mcp_baton.callbacks.endpoint import callback_url

        return callback_url(execution, call, step)

    def waiting_approvals(self, store: "TaskStore", task_id: str) -> "Collection[str]":
        from mcp_baton.approvals.items import approvals_of

        return approvals_of(store).waiting(task_id)
