"""The twin of AWS that the tests deploy to: MiniStack, taught what the template uses and it does not know.

- A REST API's Lambda integration in streaming mode, to which MiniStack answers 500. The function's streamed answer
  (prelude, eight NUL bytes, body) becomes the API's, and comes whole, at its end: that it flows on AWS is what
  `tests/runtime` shows of the runtime, and `tests/template` of the integration.
- Which API key a request came with, which API Gateway tells the function; and the API's domain name, with which the
  function makes addresses.
- Gateway responses that stand in an API's definition.
- That an alias has settings of its own for asynchronous invocations: it reads the function's alone.
- That the reserved concurrency of a function also limits its aliases: it limits the unpublished function alone.
- That it stands for AWS, which is called over TLS: bucket and queue refuse whoever comes without.
- That containers share a layer, which is read-only: it copies the layer into each of them.
- That a container which is done with has nothing to finish: it asks each to stop, and waits.

A process of its own: `python twin.py`, with MiniStack's own variables (`GATEWAY_PORT`, `LAMBDA_EXECUTOR=docker`).
"""

import json
import sys
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

from docker.errors import NotFound
from docker.types import Mount
from ministack.core.responses import get_region
from ministack.services import apigateway_v1, lambda_svc

from ministack import app

STREAMING_SUFFIX = "/response-streaming-invocations"
PRELUDE_END = bytes(8)

type ProxyAnswer = tuple[dict[str, Any] | None, str | None]
"""A proxy response or what went wrong."""


def teach_streaming() -> None:
    """Have MiniStack's REST APIs take integrations in streaming mode."""
    reference_in, shaped = apigateway_v1._extract_lambda_ref_from_integration_uri, apigateway_v1._lambda_proxy_response

    def function_reference(uri: str) -> str:
        if uri.endswith(STREAMING_SUFFIX):
            uri = f"{uri.removesuffix(STREAMING_SUFFIX)}/invocations"
        reference: str = reference_in(uri)
        return reference

    def proxy_answer(result: dict[str, Any]) -> ProxyAnswer:
        body = result.get("body")
        answer = body.encode("utf-8", "surrogateescape") if isinstance(body, str) else body
        if isinstance(answer, bytes) and PRELUDE_END in answer:
            return streamed_answer(answer), None
        whole: ProxyAnswer = shaped(result)
        return whole

    apigateway_v1._extract_lambda_ref_from_integration_uri = function_reference
    apigateway_v1._lambda_proxy_response = proxy_answer


def streamed_answer(answer: bytes) -> dict[str, Any]:
    head, _, body = answer.partition(PRELUDE_END)
    prelude = json.loads(head)
    headers = {name: [value] for name, value in prelude.get("headers", {}).items()}
    headers.update(prelude.get("multiValueHeaders", {}))
    if cookies := prelude.get("cookies"):
        headers["Set-Cookie"] = cookies
    return {"statusCode": prelude["statusCode"], "multiValueHeaders": headers, "body": body.decode()}


def teach_api_keys() -> None:
    """Have requests to methods that need an API key tell the function which one they came with."""
    event_of = apigateway_v1._build_lambda_event_v1

    def event_with_key(*request: Any, **more: Any) -> dict[str, Any]:
        _, _, _, resource, _, method, headers, *_ = request
        event: dict[str, Any] = event_of(*request, **more)
        if resource["resourceMethods"].get(method, {}).get("apiKeyRequired"):
            key = apigateway_v1._resolve_api_key(headers["x-api-key"])
            event["requestContext"]["identity"].update(apiKeyId=key["id"], apiKey=key["value"])
        return event

    apigateway_v1._build_lambda_event_v1 = event_with_key


def teach_domain_names() -> None:
    """Have requests tell the function the API's domain name, as API Gateway does."""
    event_of = apigateway_v1._build_lambda_event_v1

    def event_with_domain_name(api_id: str, *request: Any, **more: Any) -> dict[str, Any]:
        event: dict[str, Any] = event_of(api_id, *request, **more)
        event["requestContext"]["domainName"] = f"{api_id}.execute-api.{get_region()}.amazonaws.com"
        return event

    apigateway_v1._build_lambda_event_v1 = event_with_domain_name


def teach_gateway_responses() -> None:
    """Have the import of an API's definition keep its gateway responses."""
    import_api = apigateway_v1._import_rest_api

    def import_with_responses(spec: dict[str, Any], *more: Any) -> str:
        api_id: str = import_api(spec, *more)
        for kind, response in (spec.get("x-amazon-apigateway-gateway-responses") or {}).items():
            apigateway_v1._put_gateway_response(api_id, kind, response)
        return api_id

    apigateway_v1._import_rest_api = import_with_responses


def teach_asynchronous_invocations() -> None:
    """Have asynchronous invocations keep to the settings of the one alias that is invoked so."""
    invoke = lambda_svc.invoke_async_with_retry

    def invoke_alias(function: dict[str, Any], event: dict[str, Any]) -> None:
        name = function["config"]["FunctionName"]
        [settings] = lambda_svc._functions[name]["event_invoke_configs"].values()
        invoke({**function, "event_invoke_config": settings}, event)

    lambda_svc.invoke_async_with_retry = invoke_alias


def teach_reserved_concurrency() -> None:
    """Limit the invocations of all aliases and versions by the reserved concurrency of their function."""

    def reserved(_: dict[str, Any], config: dict[str, Any]) -> int | None:
        limit = lambda_svc._functions[config["FunctionName"]].get("concurrency")
        return None if limit is None else int(limit)

    lambda_svc._reserved_concurrency = reserved


def teach_tls() -> None:
    """Have policies take every request for one over TLS, which a loopback address does without."""
    pin = app.pin_request_origin

    def pin_as_if_encrypted(source_ip: str, secure_transport: bool) -> None:
        pin(source_ip, True)

    app.pin_request_origin = pin_as_if_encrypted


def teach_layers() -> None:
    """Have a container see its function's one layer at `/opt`, read-only, in the place of a copy."""
    spawn, parse_flags = lambda_svc._spawn_lambda_container_impl, lambda_svc._parse_docker_flags
    folders: ContextVar[list[str]] = ContextVar("folders")

    def extracted(layer: Any) -> str:
        folder: str = lambda_svc._docker_extracted_dir(lambda_svc._resolve_layer_zip(layer), "layer")
        return folder

    def spawn_with_layer(config: dict[str, Any], *more: Any) -> Any:
        # A second attempt, on another platform, is given what the first was.
        if "mounted" not in config:
            mounted = [extracted(layer) for layer in config.get("Layers") or []]
            config = {**config, "Layers": [], "mounted": mounted}
        folders.set(config["mounted"])
        return spawn(config, *more)

    def flags_with_layer(flags: str) -> dict[str, Any]:
        parsed: dict[str, Any] = parse_flags(flags)
        layers = [Mount("/opt", folder, type="bind", read_only=True) for folder in folders.get()]
        return {**parsed, "mounts": [*parsed.get("mounts", []), *layers]}

    lambda_svc._spawn_lambda_container_impl = spawn_with_layer
    lambda_svc._parse_docker_flags = flags_with_layer


def teach_endings() -> None:
    """Have containers that are done with end at once, not asked to and waited for."""

    def end(entry: dict[str, Any]) -> None:
        with suppress(NotFound):
            entry["container"].remove(force=True, v=True)

    lambda_svc._kill_pool_entry = end


if __name__ == "__main__":
    teach_streaming()
    teach_api_keys()
    teach_domain_names()
    teach_gateway_responses()
    teach_asynchronous_invocations()
    teach_reserved_concurrency()
    teach_tls()
    teach_layers()
    teach_endings()
    sys.exit(app.main())
