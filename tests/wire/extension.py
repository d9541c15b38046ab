"""Models of the results of the tasks extension `io.modelcontextprotocol/tasks`, which has no official models.

They follow SEP-2663, because no published package contains the extension's schema.
"""

from typing import Annotated, Literal

from mcp_types import ErrorData, InputRequest
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel


class Base(BaseModel):
    """The members of every result. Other members are forbidden."""

    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=to_camel)

    meta: dict[str, JsonValue] = Field(alias="_meta", default={})


class Acknowledgement(Base):
    """The answer to `tasks/update` and `tasks/cancel`. It contains nothing about the task."""

    result_type: Literal["complete"]


class Task(Base):
    """The members of every task."""

    task_id: Annotated[str, Field(min_length=1)]
    status_message: str = ""
    created_at: Annotated[AwareDatetime, Field(strict=False)]
    last_updated_at: Annotated[AwareDatetime, Field(strict=False)]
    ttl_ms: Annotated[int, Field(gt=0)] | None
    poll_interval_ms: Annotated[int, Field(gt=0)] | None = None


class Created(Task):
    """A new task instead of a tool's result. It has neither a result nor questions yet."""

    result_type: Literal["task"]
    status: Literal["working", "input_required", "completed", "failed", "cancelled"]


class Working(Task):
    """A task that runs or was cancelled."""

    result_type: Literal["complete"]
    status: Literal["working", "cancelled"]


class Asking(Task):
    """A task that waits for the client's answers."""

    result_type: Literal["complete"]
    status: Literal["input_required"]
    input_requests: dict[str, InputRequest]


class Completed(Task):
    """A completed task, with the result that the call would have returned."""

    result_type: Literal["complete"]
    status: Literal["completed"]
    result: dict[str, JsonValue]


class Failed(Task):
    """A task that ended with a protocol error."""

    result_type: Literal["complete"]
    status: Literal["failed"]
    error: ErrorData


type TaskState = Annotated[Working | Asking | Completed | Failed, Field(discriminator="status")]
"""The answer to `tasks/get`."""
