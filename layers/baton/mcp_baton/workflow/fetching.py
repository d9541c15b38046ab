"""Fetching a step's resources: before its tool, after it, and once more for a resume (docs/workflows.md).

Whatever goes wrong with one of them is told in words; nothing is raised.
"""

import logging
from collections.abc import Sequence

from msgspec import Struct

from mcp_baton.workflow.definition import Step, Workflow
from mcp_baton.workflow.handoff import preview_uris
from mcp_baton.workflow.host import FetchedResource, Host, ResourceUnavailable
from mcp_baton.workflow.resolve import Known, resolve_uri
from mcp_baton.workflow.run import Content, UnreadResource

logger = logging.getLogger(__name__)

INTERNAL = "internal error; the server's log has the details"


class Fetched(Struct, frozen=True):
    """What was fetched before a step's tool.

    Attributes:
        contents: The contents, in order.
        read: Which of the step's `resources` these are, as the step has them.
        error: Why the next one could not be fetched; `None` when all went well.
        uri: The URI of the one that could not be fetched.
        error_id: Finds the error in the server's log, if its text is hidden from clients.
    """

    contents: tuple[FetchedResource, ...]
    read: frozenset[str]
    error: str | None = None
    uri: str | None = None
    error_id: str | None = None


NOTHING_FETCHED = Fetched((), frozenset())


def fetch_before(step: Step, workflow: Workflow, known: Known, host: Host) -> Fetched:
    """Fetch what can be fetched before the tool, up to the first resource that fails.

    One whose URI is not known yet is passed over: `decide` says why.
    """
    if not step.resources:
        return NOTHING_FETCHED
    contents: list[FetchedResource] = []
    read: set[str] = set()
    for resource in step.resources:
        uri = None if step.read_after(resource) else resolve_uri(resource, step, workflow, known)
        if not isinstance(uri, str):
            continue
        found = _read(uri, host)
        if isinstance(found, ResourceUnavailable):
            return Fetched(tuple(contents), frozenset(read), str(found), uri, found.error_id)
        contents.extend(found)
        read.add(resource)
    return Fetched(tuple(contents), frozenset(read))


def fetch_after(step: Step, workflow: Workflow, known: Known, host: Host) -> tuple[Content, ...]:
    """Fetch the resources that need the output of the step's tool, which has been called."""
    return _fetch_all([it for it in step.resources if step.read_after(it)], step, workflow, known, host)


def fetch_again(step: Step, workflow: Workflow, known: Known, host: Host) -> tuple[Content, ...]:
    """Fetch the resources of a step that an earlier call has completed."""
    return _fetch_all(step.resources, step, workflow, known, host)


def _fetch_all(
    resources: Sequence[str], step: Step, workflow: Workflow, known: Known, host: Host
) -> tuple[Content, ...]:
    contents: list[Content] = []
    for resource in resources:
        uri = resolve_uri(resource, step, workflow, known)
        if not isinstance(uri, str):
            shown = preview_uris(step, workflow, known)[resource]
            contents.append(UnreadResource(shown, "a value in its URI is not known"))
            continue
        found = _read(uri, host) if host.may_start() else ResourceUnavailable("too little time is left")
        contents.extend([UnreadResource(uri, str(found))] if isinstance(found, ResourceUnavailable) else found)
    return tuple(contents)


def _read(uri: str, host: Host) -> Sequence[FetchedResource] | ResourceUnavailable:
    """The contents at a URI, or why they cannot be had."""
    try:
        return host.read(uri)
    except ResourceUnavailable as error:
        return error
    except Exception:
        logger.exception("the resource %s broke", uri)
        return ResourceUnavailable(INTERNAL)
