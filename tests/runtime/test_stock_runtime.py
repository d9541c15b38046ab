import sys

from emulators.runtime_api import RuntimeApi
from tests.runtime.conftest import Start


def test_a_handler_cannot_stream_under_awss_own_runtime(api: RuntimeApi, start: Start) -> None:
    start("plain.whole", [sys.executable, "-m", "awslambdaric", "plain.whole"])
    answer = api.invoke({"a": 1}).wait()
    assert answer.json() == {
        "event": {"a": 1},
        "can_stream": False,
        "request_id": "00000000-0000-4000-8000-000000000001",
    }
