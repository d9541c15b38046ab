import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from emulators.delivery import PATIENCE_S
from emulators.runtime_api import RuntimeApi
from mcp_baton.settings import SWITCH, Settings
from tests.runtime.conftest import FUNCTIONS, LAYER, Start


def test_modules_load_once_without_http_client_and_polling_uses_no_thread(api: RuntimeApi, start: Start) -> None:
    start("plain.inspected", AWS_EXECUTION_ENV="AWS_Lambda_python3.13")
    facts: Any = api.invoke({}).wait().json()
    assert (facts["same_class"], facts["http"]) == (True, [])
    assert (facts["threads"], facts["threaded_polling"]) == (1, False)


def test_sigterm_stops_a_waiting_function_at_once(api: RuntimeApi, start: Start) -> None:
    function = start("plain.streamed")
    api.invoke({"parts": ["a"]}).wait()
    assert function.stop() == -signal.SIGTERM


def test_a_waiting_function_that_handles_sigterm_receives_it(api: RuntimeApi, start: Start, tmp_path: Path) -> None:
    signal_file = tmp_path / "stopped"
    function = start("signalled.handler", STOPPED_FILE=str(signal_file))
    api.invoke({}).wait()
    api.polled.clear()
    api.invoke({}).wait()
    assert api.polled.wait(PATIENCE_S)
    assert function.stop() == 0
    assert signal_file.read_text() == "SIGTERM"


def test_snapstart_hooks_run_before_the_first_stream(api: RuntimeApi, start: Start) -> None:
    start("restored.handler", AWS_LAMBDA_INITIALIZATION_TYPE="snap-start")
    assert api.invoke({}).wait().streamed == b"before snapshot, after restore"
    assert api.reports.get_nowait() == ("/2018-06-01/runtime/restore/next", b"")


def test_the_wrapper_starts_the_streaming_runtime_with_the_same_interpreter_and_options(
    api: RuntimeApi, start: Start, wrapper: Path
) -> None:
    task_root = {"LAMBDA_TASK_ROOT": str(FUNCTIONS), "LAMBDA_RUNTIME_DIR": "/var/runtime", "PYTHONPATH": "/usr/own"}
    start("plain.inspected", [str(wrapper), sys.executable, "-X", "dev", "/var/runtime/bootstrap.py"], **task_root)
    facts: Any = api.invoke({}).wait().json()
    layer = wrapper.parent / "python"
    packages = layer / "lib" / Path(sys.executable).name / "site-packages"
    assert facts["path"][:5] == [str(FUNCTIONS), str(packages), str(layer), "/usr/own", "/var/runtime"]
    assert facts["flags"] == [True, True]


@pytest.mark.parametrize(
    "variable",
    [
        {"BATON_STREAMING": " No "},
        {"AWS_SAM_LOCAL": "true"},
        {"AWS_LAMBDA_MAX_CONCURRENCY": "8"},
    ],
)
def test_the_wrapper_starts_the_given_command_if_streaming_is_not_possible(
    start: Start, wrapper: Path, variable: dict[str, str]
) -> None:
    function = start("plain.whole", [str(wrapper), "/bin/echo", "bootstrap.py"], **variable)
    assert function.process.wait(PATIENCE_S) == 0
    assert function.log.read_text() == "bootstrap.py\n"


def test_the_wrapper_runs_within_the_wrapper_of_an_opentelemetry_layer(start: Start, wrapper: Path) -> None:
    other_wrapper = wrapper.parent / "otel-instrument"
    other_wrapper.write_text('#!/bin/bash\necho instrumented\nexport ORIG_HANDLER=$_HANDLER\nexec "$@"\n')
    other_wrapper.chmod(0o755)
    function = start("plain.whole", [str(wrapper), "/bin/echo", "bootstrap.py"], BATON_STREAMING="off")
    assert function.process.wait(PATIENCE_S) == 0
    assert function.log.read_text() == "instrumented\nbootstrap.py\n"


@pytest.mark.parametrize("switch", [*SWITCH, *(f" {word.upper()} " for word in SWITCH), "", "  "])
def test_the_wrapper_and_the_settings_parse_the_switch_alike(start: Start, wrapper: Path, switch: str) -> None:
    function = start("plain.whole", [str(wrapper), "/bin/echo", "bootstrap.py"], BATON_STREAMING=switch)
    function.process.wait(PATIENCE_S)
    is_given_command = function.log.read_text() == "bootstrap.py\n"
    assert is_given_command is not Settings.from_environment({"BATON_STREAMING": switch}).streaming


def test_the_wrapper_is_executable() -> None:
    assert os.access(LAYER / "mcp_baton" / "transport" / "runtime" / "baton-runtime", os.X_OK)
