"""The MCP endpoint: it answers HTTP requests (docs/http.md). Only the task store has state between two requests."""

import logging

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.envelope import REVISION_WITHOUT_HEADER, Envelope, Era, classify
from mcp_baton.protocol.http import APPROVAL_LINKS_PATH, CALLBACKS_PATH, HttpRequest, HttpResponse
from mcp_baton.protocol.json import JsonObject
from mcp_baton.protocol.jsonrpc import (
    HTTP_STATUS,
    Malformed,
    Message,
    Notification,
    RequestMessage,
    Response,
    error_message,
    parse_body,
    result_message,
)
from mcp_baton.server.access import ForeignPage, caller_of, early_answer, is_approvals
from mcp_baton.server.methods import METHODS, Method, call_method
from mcp_baton.server.methods.lifecycle import complete_result
from mcp_baton.tasks.record import TaskRecord
from mcp_baton.telemetry import INTERNAL_ERRORS
from mcp_baton.tools.asking import InputRequired
from mcp_baton.tools.content import result_without_links
from mcp_baton.tools.running.tool_threads import CallerGone
from mcp_baton.transport.exchange import Exchange, json_response, refusal
from mcp_baton.workflow.request import Request
from mcp_baton.workflow.services import Services

logger = logging.getLogger(__name__)


class Endpoint:
    """Answers MCP requests. Implements `protocol.http.Application`.

    Args:
        services: The services of the process.
        call_method: Returns a request's result. Tests and the local server replace it by a function that sees each
            request and its result.
    """

    def __init__(self, services: Services, *, call_method: Method = call_method) -> None:
        self._services = services
        self._call_method = call_method
        self._warned = False

    def __call__(self, request: HttpRequest, exchange: Exchange) -> HttpResponse | None:
        caller = caller_of(request.headers, self._services.settings)
        if isinstance(caller, ForeignPage):
            return refusal(403, "Forbidden: this origin or host is not on the server's allow-list")
        if caller is not None:
            exchange.add_headers(caller.headers)
        early_response = early_answer(request, caller, self._services.settings)
        if early_response:
            return early_response
        if is_approvals(request.path):
            from mcp_baton.approvals import api

            return api.answer(self._services, request, exchange)
        if request.path.startswith(APPROVAL_LINKS_PATH):
            from mcp_baton.approvals import link

            return link.answer(self._services, request, exchange)
        if request.path.startswith(CALLBACKS_PATH):
            from mcp_baton.callbacks import endpoint as callbacks

            return callbacks.answer(self._services, request, exchange)
        try:
            message = parse_body(request.body)
        except ProtocolError as error:
            return json_response(HTTP_STATUS[error.code], error_message(None, error))
        return self._answer(message, request, exchange)

    def work(self, event: JsonObject, exchange: Exchange) -> JsonObject:
        from mcp_baton.background.worker import work

        with self._services.telemetry.receive("process task", event):
            return work(self._services, event, exchange)

    def callback(self, event: JsonObject, exchange: Exchange) -> JsonObject:
        from mcp_baton.callbacks.endpoint import deliver_event

        return deliver_event(self._services, event, exchange)

    def start(self, event: object, exchange: Exchange) -> JsonObject:
        from mcp_baton.background.start_events import start_workflows

        return start_workflows(self._services, event, exchange)

    def sweep(self, _event: JsonObject, exchange: Exchange) -> JsonObject:
        from mcp_baton.background.sweep import sweep

        return sweep(self._services, exchange)

    def _answer(self, message: Message, request: HttpRequest, exchange: Exchange) -> HttpResponse | None:
        match message:
            case Malformed(message_id, error):
                return json_response(HTTP_STATUS[error.code], error_message(message_id, error))
            case Response():  # to a question of a request that still runs, perhaps in another process
                from mcp_baton.questions.deliver_answer import deliver_answer

                server, store = self._services.for_caller(request.claims, exchange)
                return deliver_answer(store, request.owner, message, server.hides, self._dispatch)
        try:
            envelope = classify(message, request.headers)
        except ProtocolError as error:
            message_id = message.id if isinstance(message, RequestMessage) else None
            return json_response(HTTP_STATUS[error.code], error_message(message_id, error))
        if isinstance(message, Notification):
            return HttpResponse(202)  # `initialized`, for example: without a session there is nothing to note
        return self._serve(self._request(message, envelope, request, exchange))

    def _request(
        self, message: RequestMessage, envelope: Envelope, request: HttpRequest, exchange: Exchange
    ) -> Request:
        """Make the MCP request of an HTTP request."""
        wants_messages = envelope.progress_token is not None or envelope.log_level is not None
        exchange.choose_form(
            streams=wants_messages or message.method == "subscriptions/listen",
            may_stream=envelope.era is Era.HANDSHAKE,
            takes_stream=request.accepts("text/event-stream"),
            takes_json=request.accepts("application/json"),
        )
        server, store = self._services.for_caller(request.claims, exchange)
        return Request(
            services=self._services,
            server=server,
            store=store,
            owner=request.owner,
            claims=request.claims,
            envelope=envelope,
            exchange=exchange,
            message=message,
            headers=request.headers,
            began_s=self._services.clock(),
            base_url=self._services.settings.base_url or request.base_url,
            arrived_ms=request.arrived_ms,
        )

    def _dispatch(self, task: TaskRecord) -> bool:
        from mcp_baton.workflow.dispatching import dispatch

        return dispatch(self._services, task)

    def _serve(self, request: Request) -> HttpResponse | None:
        message, envelope, exchange = request.message, request.envelope, request.exchange
        try:
            result = self._result(request)
        except ProtocolError as error:
            return exchange.error(_status(envelope, error), error_message(message.id, error))
        except CallerGone:
            return None
        except (Exception, SystemExit):  # code of the author may end the process
            logger.exception("request %s: %s failed", exchange.request_id, message.method)
            self._services.telemetry.add(INTERNAL_ERRORS)
            return exchange.error(200, error_message(message.id, request.internal_error("Internal error")))
        if request.notifications:
            self._services.later(request.notify)
        final_result = complete_result(request, result) if envelope.era is Era.STATELESS else result
        if envelope.revision == REVISION_WITHOUT_HEADER:
            final_result = result_without_links(final_result)
        return exchange.result(result_message(message.id, final_result))

    def _result(self, request: Request) -> JsonObject:
        """Call the method, in a span whose parent is the client's span."""
        name, details = _span_details(request)
        with self._services.telemetry.receive(name, request.envelope.meta, request.headers, **details) as span:
            try:
                result = self._call_method(request)
            except InputRequired as questions:
                if self._services.seal.is_temporary and not self._warned:
                    self._warned = True
                    logger.warning(
                        "BATON_STATE_KEY is not set: a round that reaches another process than the one before will be "
                        "refused. Set it to 32 random characters or more."
                    )
                return questions.result
            span.failed = result.get("isError") is True
            return result


def _span_details(request: Request) -> tuple[str, dict[str, str]]:
    """Return the name and the attributes of a request's span, without names that the server does not know."""
    method, name, server = request.message.method, request.params.get("name"), request.server
    attributes = {
        "mcp.method.name": method if method in METHODS[request.envelope.era] else "_OTHER",
        "mcp.protocol.version": request.envelope.revision,
        "jsonrpc.request.id": str(request.message.id),
        "baton.correlation_id": request.exchange.request_id,
    }
    definitions = server.tools if method == "tools/call" else server.prompts if method == "prompts/get" else None
    if definitions is None or not isinstance(name, str) or not (name in definitions or name in server.workflows):
        return attributes["mcp.method.name"], attributes
    if method == "prompts/get":
        return f"{method} {name}", {**attributes, "gen_ai.prompt.name": name}
    return f"{method} {name}", {**attributes, "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}


def _status(envelope: Envelope, error: ProtocolError) -> int:
    """Return the HTTP status of an error. Clients of the handshake era treat other statuses than 200 as transport
    errors."""
    return HTTP_STATUS.get(error.code, 200) if envelope.era is Era.STATELESS else 200
