"""The AWS emulator that the tests deploy to: MiniStack with patches for features of AWS that the template uses.

- Lambda integrations of REST APIs in streaming mode, to which MiniStack answers 500. The patch turns the function's
  streamed response (prelude, eight NUL bytes, body) into the API's response. It arrives whole, at the end:
  `tests/runtime` tests streaming in the runtime, and `tests/template` the integration.
- The API key of a request and the API's domain name in the function's event. The function builds addresses from the
  domain name.
- Gateway responses in an API's definition.
- Mock integrations in an API's definition, and their templates.
- HTTP APIs that forward to a REST API under its AWS address, with a part of the path.
- Settings of an alias for asynchronous invocations. MiniStack reads only the function's.
- Rules and schedules invoke functions asynchronously, with retries and dead letters. MiniStack invokes them once.
- Schedules are checked each second. MiniStack checks them every ten.
- The reserved concurrency of a function also limits its aliases. MiniStack limits only the unpublished function.
- Requests count as made over TLS. The policy of the queue denies others.
- Policies are checked for the ECS service that is updated, and for the sender of a mail. MiniStack checks the cluster,
  and no sender.
- Layers are mounted read-only and shared by containers. MiniStack copies the layer into each container.
- Containers are removed at once. MiniStack asks each to stop, and waits.
- Templates are parsed by libyaml, in a seventh of the time.

Runs as its own process: `python emulator.py`, with MiniStack's variables (`GATEWAY_PORT`, `LAMBDA_EXECUTOR=docker`).
"""

import json
import os
import re
import sys
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import airspeed
import yaml
from docker.errors import NotFound
from docker.types import Mount
from ministack.core import iam_actions
from ministack.core.responses import get_region
from ministack.services import apigateway, apigateway_v1, eventbridge, lambda_svc, scheduler
from ministack.services.cloudformation import engine

from ministack import app

STREAMING_SUFFIX = "/response-streaming-invocations"
PRELUDE_END = bytes(8)

type ProxyAnswer = tuple[dict[str, Any] | None, str | None]
"""A proxy response, or an error message."""


def patch_streaming() -> None:
    """Support integrations in streaming mode in REST APIs."""
    original_reference = apigateway_v1._extract_lambda_ref_from_integration_uri
    original_response = apigateway_v1._lambda_proxy_response

    def function_reference(uri: str) -> str:
        if uri.endswith(STREAMING_SUFFIX):
            uri = f"{uri.removesuffix(STREAMING_SUFFIX)}/invocations"
        reference: str = original_reference(uri)
        return reference

    def proxy_answer(result: dict[str, Any]) -> ProxyAnswer:
        body = result.get("body")
        data = body.encode("utf-8", "surrogateescape") if isinstance(body, str) else body
        if isinstance(data, bytes) and PRELUDE_END in data:
            return streamed_answer(data), None
        response: ProxyAnswer = original_response(result)
        return response

    apigateway_v1._extract_lambda_ref_from_integration_uri = function_reference
    apigateway_v1._lambda_proxy_response = proxy_answer


def streamed_answer(data: bytes) -> dict[str, Any]:
    head, _, body = data.partition(PRELUDE_END)
    prelude = json.loads(head)
    headers = {name: [value] for name, value in prelude.get("headers", {}).items()}
    headers.update(prelude.get("multiValueHeaders", {}))
    if cookies := prelude.get("cookies"):
        headers["Set-Cookie"] = cookies
    return {"statusCode": prelude["statusCode"], "multiValueHeaders": headers, "body": body.decode()}


def patch_api_keys() -> None:
    """Add the API key of a request to the function's event, if the method needs a key."""
    event_of = apigateway_v1._build_lambda_event_v1

    def event_with_key(*request: Any, **options: Any) -> dict[str, Any]:
        _, _, _, resource, _, method, headers, *_ = request
        event: dict[str, Any] = event_of(*request, **options)
        if resource["resourceMethods"].get(method, {}).get("apiKeyRequired"):
            key = apigateway_v1._resolve_api_key(headers["x-api-key"])
            event["requestContext"]["identity"].update(apiKeyId=key["id"], apiKey=key["value"])
        return event

    apigateway_v1._build_lambda_event_v1 = event_with_key


def patch_domain_names() -> None:
    """Add the API's domain name to the function's event, as API Gateway does."""
    event_of = apigateway_v1._build_lambda_event_v1

    def event_with_domain_name(api_id: str, *request: Any, **options: Any) -> dict[str, Any]:
        event: dict[str, Any] = event_of(api_id, *request, **options)
        event["requestContext"]["domainName"] = f"{api_id}.execute-api.{get_region()}.amazonaws.com"
        return event

    apigateway_v1._build_lambda_event_v1 = event_with_domain_name


def patch_gateway_responses() -> None:
    """Keep the gateway responses of an imported API definition."""
    import_api = apigateway_v1._import_rest_api

    def import_with_responses(spec: dict[str, Any], *arguments: Any) -> str:
        api_id: str = import_api(spec, *arguments)
        for kind, response in (spec.get("x-amazon-apigateway-gateway-responses") or {}).items():
            apigateway_v1._put_gateway_response(api_id, kind, response)
        return api_id

    apigateway_v1._import_rest_api = import_with_responses


def patch_mock_integrations() -> None:
    """Keep the responses of the mock integrations of an imported API definition, and render their templates, with the
    variables of the context that the stack's template uses.
    """
    import_operation, execute = apigateway_v1._import_operation, apigateway_v1.handle_execute
    mock = apigateway_v1._invoke_mock_v1
    request_of: ContextVar[tuple[str, str]] = ContextVar("request_of")

    def import_with_responses(api_id: str, resource_id: str, method: str, operation: Any, *rest: Any) -> None:
        import_operation(api_id, resource_id, method, operation, *rest)
        definition = operation["x-amazon-apigateway-integration"]
        if definition["type"] == "mock":
            integration = apigateway_v1._resources[api_id][resource_id]["resourceMethods"][method]["methodIntegration"]
            integration["requestTemplates"] = definition["requestTemplates"]
            integration["integrationResponses"] = {
                status: {**response, "selectionPattern": status} for status, response in definition["responses"].items()
            }

    async def execute_in_context(api_id: str, stage: str, method: str, path: str, *request: Any) -> Any:
        request_of.set((api_id, f"/{stage}{path}"))
        return await execute(api_id, stage, method, path, *request)

    def rendered_mock(integration: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        status, headers, body = mock(integration)
        api_id, path = request_of.get()
        context = {"domainName": f"{api_id}.execute-api.{get_region()}.amazonaws.com", "path": path}
        return status, headers, airspeed.Template(body.decode()).merge({"context": context}).encode()

    apigateway_v1._import_operation = import_with_responses
    apigateway_v1.handle_execute = execute_in_context
    apigateway_v1._invoke_mock_v1 = rendered_mock


def patch_forwarding() -> None:
    """Forward requests for a REST API's AWS address to this emulator. Put the end of the path into the address."""
    forward = apigateway._invoke_http_proxy

    async def forward_here(integration: dict[str, Any], path: str, *request: Any) -> Any:
        match = re.fullmatch(
            r"https://(\w+)\.execute-api\.[\w.-]+\.amazonaws\.com(/.*)\{proxy\}", integration["integrationUri"]
        )
        assert match, integration
        url = f"http://127.0.0.1:{os.environ['GATEWAY_PORT']}/_aws/execute-api/{match[1]}{match[2]}"
        return await forward({**integration, "integrationUri": url}, f"/{path.rpartition('.well-known/')[2]}", *request)

    apigateway._invoke_http_proxy = forward_here


def patch_asynchronous_invocations() -> None:
    """Apply an alias's settings to asynchronous invocations, also to those of rules and schedules. Each function has at
    most one alias with settings.
    """
    invoke = lambda_svc.invoke_async_with_retry

    def invoke_alias(function: dict[str, Any], event: dict[str, Any]) -> None:
        name = function["config"]["FunctionName"]
        settings: Any = next(iter(lambda_svc._functions[name].get("event_invoke_configs", {}).values()), {})
        invoke({**function, "event_invoke_config": settings}, event)

    def invoke_target(arn: str, payload: str) -> None:
        function, config, _ = lambda_svc._get_func_record_for_ref(arn)
        invoke_alias(lambda_svc._execution_record_for_config(function, config), json.loads(payload))

    lambda_svc.invoke_async_with_retry = invoke_alias
    eventbridge._dispatch_to_lambda = invoke_target
    scheduler._SCHEDULE_TICK_INTERVAL = 1


def patch_reserved_concurrency() -> None:
    """Limit the invocations of all aliases and versions by the reserved concurrency of their function."""

    def reserved_concurrency(_: dict[str, Any], config: dict[str, Any]) -> int | None:
        limit = lambda_svc._functions[config["FunctionName"]].get("concurrency")
        return None if limit is None else int(limit)

    lambda_svc._reserved_concurrency = reserved_concurrency


def patch_tls() -> None:
    """Let policies treat every request as made over TLS, though the emulator's loopback address has none."""
    pin = app.pin_request_origin

    def pin_as_if_encrypted(source_ip: str, secure_transport: bool) -> None:
        pin(source_ip, True)

    app.pin_request_origin = pin_as_if_encrypted


def patch_permissions() -> None:
    """Check `ecs:UpdateService` for the ARN of the service, and `ses:SendEmail` for the sender's, as AWS does."""
    arn_of = iam_actions.extract_resource_arn

    def resource_arn(service: str, method: str, path: str, headers: Any, body: bytes, *rest: Any) -> str:
        if service == "ses" and path == "/v2/email/outbound-emails":
            _, region, account = rest
            return f"arn:aws:ses:{region}:{account}:identity/{json.loads(body)['FromEmailAddress']}"
        arn: str = arn_of(service, method, path, headers, body, *rest)
        if service == "ecs" and headers.get("x-amz-target", "").endswith(".UpdateService"):
            return f"{arn.replace(':cluster/', ':service/')}/{json.loads(body)['service']}"
        return arn

    iam_actions.extract_resource_arn = resource_arn


def patch_layers() -> None:
    """Mount a function's layer at `/opt`, read-only, instead of copying it."""
    spawn, parse_flags = lambda_svc._spawn_lambda_container_impl, lambda_svc._parse_docker_flags
    folders: ContextVar[list[str]] = ContextVar("folders")

    def extract_layer(layer: Any) -> str:
        folder: str = lambda_svc._docker_extracted_dir(lambda_svc._resolve_layer_zip(layer), "layer")
        return folder

    def spawn_with_layer(config: dict[str, Any], *rest: Any) -> Any:
        # A second attempt, for another platform, receives the config of the first.
        if "mounted" not in config:
            layer_folders = [extract_layer(layer) for layer in config.get("Layers") or []]
            config = {**config, "Layers": [], "mounted": layer_folders}
        folders.set(config["mounted"])
        return spawn(config, *rest)

    def flags_with_layer(flags: str) -> dict[str, Any]:
        options: dict[str, Any] = parse_flags(flags)
        layers = [Mount("/opt", folder, type="bind", read_only=True) for folder in folders.get()]
        return {**options, "mounts": [*options.get("mounts", []), *layers]}

    lambda_svc._spawn_lambda_container_impl = spawn_with_layer
    lambda_svc._parse_docker_flags = flags_with_layer


def patch_endings() -> None:
    """Remove containers at once, without asking them to stop."""

    def remove_container(entry: dict[str, Any]) -> None:
        with suppress(NotFound):
            entry["container"].remove(force=True, v=True)

    lambda_svc._kill_pool_entry = remove_container


def patch_templates() -> None:
    """Parse templates with libyaml."""
    constructors = {"yaml_constructors": engine.CfnLoader.yaml_constructors}
    engine.CfnLoader = type("CfnLoader", (yaml.CSafeLoader,), constructors)


if __name__ == "__main__":
    patch_streaming()
    patch_api_keys()
    patch_domain_names()
    patch_gateway_responses()
    patch_mock_integrations()
    patch_forwarding()
    patch_asynchronous_invocations()
    patch_reserved_concurrency()
    patch_tls()
    patch_permissions()
    patch_layers()
    patch_endings()
    patch_templates()
    sys.exit(app.main())
