"""The template with the resources of docs/events.md (tests/deployed/test_starts.py deploys it)."""

import os
import subprocess
from pathlib import Path

from tests.event_docs import with_event_resources
from tests.template.conftest import SAM


def test_the_resources_for_events_are_valid(source: str, tmp_path: Path) -> None:
    template = tmp_path / "template.yaml"
    template.write_text(with_event_resources(source))

    process = subprocess.run(
        [SAM / "sam", "validate", "--lint", "--region", "us-east-1", "--template", template],
        env={**os.environ, "SAM_CLI_TELEMETRY": "0"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert process.returncode == 0, process.stdout + process.stderr
