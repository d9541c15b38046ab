"""Spans as X-Ray segments."""

import importlib
import json
from typing import Any

import pytest
from aws_lambda_powertools import Tracer

from mcp_baton.observability import XRayTraces
from mcp_baton.telemetry import Span

TRACE = "Root=1-67891233-abcdef012345678912345678;Parent=463ac35c9f6413ad;Sampled=1"


class Daemon:
    def __init__(self) -> None:
        self.received: list[dict[str, Any]] = []

    def send_entity(self, entity: Any) -> None:
        self.received.append(json.loads(entity.serialize()))


@pytest.fixture(autouse=True)
def daemon(monkeypatch: pytest.MonkeyPatch) -> Daemon:
    """The daemon. The SDK behaves as in a Lambda function."""
    sdk = importlib.import_module("aws_xray_sdk.core")  # has no types
    launcher = importlib.import_module("aws_xray_sdk.core.lambda_launcher")
    daemon = Daemon()
    vars(sdk.xray_recorder.emitter)["_socket"].close()  # the SDK opens it on import and never closes it
    monkeypatch.setenv("LAMBDA_TASK_ROOT", "/var/task")
    monkeypatch.setenv("_X_AMZN_TRACE_ID", TRACE)
    monkeypatch.setattr(Tracer, "_config", dict.fromkeys(vars(Tracer)["_config"]) | {"auto_patch": True})
    monkeypatch.setattr(sdk.xray_recorder, "_context", launcher.LambdaContext())
    monkeypatch.setattr(sdk.xray_recorder, "_emitter", daemon)
    return daemon


@pytest.mark.parametrize(
    ("name", "segment_name"),
    [
        ("tool issue_refund", "tool issue_refund"),
        ("resource docs://{topic}{?page}", "resource docs://_topic___page_"),
        ('prompt Grüße, "Kim"! <b>(*);$~^\'', "prompt Grüße_ _Kim__ _b_________"),
        ("tool a_.:/%&#=+\\-@z", "tool a_.:/%&#=+\\-@z"),
        ("tool " + "x" * 300, "tool " + "x" * 195),
    ],
)
def test_a_name_contains_only_characters_that_x_ray_accepts(daemon: Daemon, name: str, segment_name: str) -> None:
    XRayTraces("shop").report([Span(name, {}, 1.0, 2.0)], "gateway-1", cold_start=False)
    assert [subsegment["name"] for subsegment in daemon.received] == [segment_name]


@pytest.mark.parametrize("auto_patch", [None, False])
def test_a_tools_tracer_decides_whether_it_patches_libraries(
    monkeypatch: pytest.MonkeyPatch, auto_patch: bool | None
) -> None:
    patched_modules: list[object] = []
    monkeypatch.setattr(Tracer, "patch", lambda _, modules=None: patched_modules.append(modules))
    if auto_patch is not None:
        Tracer(auto_patch=auto_patch)
    XRayTraces("shop").report([Span("work", {}, 1.0, 2.0)], "gateway-1", cold_start=False)
    assert [modules for modules in patched_modules if modules != ()] == []
    assert Tracer().auto_patch is (auto_patch is None)
    assert patched_modules[-1:] == ([None] if auto_patch is None else [])
