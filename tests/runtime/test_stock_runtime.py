import sys

from tests.runtime.conftest import Start
from tests.runtime.fake_runtime_api import FakeRuntimeApi


def test_under_awss_own_runtime_a_handler_finds_no_stream(api: FakeRuntimeApi, start: Start) -> None:
    start("plain.whole", [sys.executable, "-m", "awslambdaric", "plain.whole"])
    answer = api.invoke({"a": 1}).wait()
    assert answer.json() == {
        "event": {"a": 1},
        "can_stream": False,
        "request_id": "00000000-0000-4000-8000-000000000001",
    }
