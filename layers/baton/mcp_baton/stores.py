"""The store with the parts of all features. The imports are inside the properties, because most requests need few."""

from typing import TYPE_CHECKING

from mcp_baton.tasks.dynamodb.store import DynamoDBTaskStore

if TYPE_CHECKING:
    from mcp_baton.approvals.items import DynamoDBApprovalStore
    from mcp_baton.background.items import DynamoDBJobStore
    from mcp_baton.callbacks.items import DynamoDBCallbackStore
    from mcp_baton.questions.items import DynamoDBAnswerStore


class DynamoDBStore(DynamoDBTaskStore, frozen=True, eq=False):
    """A `TaskStore`."""

    @property
    def answers(self) -> "DynamoDBAnswerStore":
        from mcp_baton.questions.items import DynamoDBAnswerStore

        return DynamoDBAnswerStore(self.table)

    @property
    def jobs(self) -> "DynamoDBJobStore":
        from mcp_baton.background.items import DynamoDBJobStore

        return DynamoDBJobStore(self)

    @property
    def approvals(self) -> "DynamoDBApprovalStore":
        from mcp_baton.approvals.items import DynamoDBApprovalStore

        return DynamoDBApprovalStore(self.table, self.limits.audit_days)

    @property
    def callbacks(self) -> "DynamoDBCallbackStore":
        from mcp_baton.callbacks.items import DynamoDBCallbackStore

        return DynamoDBCallbackStore(self.table)
