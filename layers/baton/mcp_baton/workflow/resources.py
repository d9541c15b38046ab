"""The resources that a step fetches, before or after its tool."""

import logging
from collections.abc import Sequence
from typing import Final

from mcp_baton.tools.content import ResourceContent
from mcp_baton.tools.outcomes import Failed, Failure, ResourceUnavailable
from mcp_baton.workflow.host import Host
from mcp_baton.workflow.remaining import uris_of
from mcp_baton.workflow.resolve import KnownValues
from mcp_baton.workflow.step_run import Content, StepRun, UnreadResource
from mcp_baton.workflow.steps.step import Step

logger = logging.getLogger(__name__)

INTERNAL: Final = "internal error; the server's log has the details"


def fetch_before(this: StepRun, known: KnownValues, host: Host) -> Failed | None:
    """Fetch the resources that do not need the tool's output, up to the first one that fails. Return the failure.

    A resource whose URI is not known yet is left out; `KnownValues.missing_uri` says why.
    """
    for resource in this.step.resources:
        uri = None if this.step.read_after(resource) else known.uri_of(resource, this.step)
        if not isinstance(uri, str):
            continue
        result = _read(uri, host)
        if isinstance(result, ResourceUnavailable):
            this.unread = uri if result.kind is not Failure.OUT_OF_TIME else None
            return Failed(str(result), kind=result.kind, error_id=result.error_id)
        this.resources += tuple(result)
        this.read_resources |= {resource}
    return None


def fetch_all(resources: Sequence[str], step: Step, known: KnownValues, host: Host) -> tuple[Content, ...]:
    """Fetch these resources of a step whose tool has run. A resource that cannot be read is replaced by the reason."""
    contents: list[Content] = []
    for resource in resources:
        uri = known.uri_of(resource, step)
        if not isinstance(uri, str):
            contents.append(UnreadResource(uris_of(step, known)[resource], "a value in its URI is not known"))
            continue
        result = _read(uri, host) if host.may_start() else ResourceUnavailable("too little time is left")
        contents.extend([UnreadResource(uri, str(result))] if isinstance(result, ResourceUnavailable) else result)
    return tuple(contents)


def _read(uri: str, host: Host) -> Sequence[ResourceContent] | ResourceUnavailable:
    try:
        return host.read(uri)
    except ResourceUnavailable as error:
        return error
    except Exception:
        logger.exception("reading the resource %s failed", uri)
        return ResourceUnavailable(INTERNAL)
