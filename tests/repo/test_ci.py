"""The scripts in `.ci`. They run in a separate folder, with commands on the path that only record their calls."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import pytest

CI = Path(__file__).parents[2] / ".ci"
WITHIN_S = 120
STEPS = "check test setup-tests setup-containers test-containers test-frameworks"
REST_PASSED = "── the rest passed; NOT RUN, because Docker is missing: make test-containers. "
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a daemon")

MAKEFILE = f'{STEPS}:\n\t@echo "made $@"; sleep $(or $(SLEEPS_$@),0); test "$@" != "$(FAILS)"\n.PHONY: {STEPS}\n'
DOCKER_CHECK = '#!/bin/sh\ntest -e daemon-answers && exit 0\necho "no Docker daemon answers" >&2\nexit 1\n'
"""Checks whether Docker answers."""
RECORD_CALL = '#!/bin/sh\necho "${0##*/} $*" >>"$NOTES"\n'
DAEMON = """\
while [ $# -gt 1 ]; do [ "$1" = --pidfile ] && echo $$ >"$2"; shift; done
touch daemon-answers
exec sleep 600
"""


@dataclass(frozen=True, slots=True)
class Checkout:
    """A repository that only contains `.ci`, and the commands on its path."""

    folder: Path

    def command(self, name: str, script: str = "exit 0\n") -> None:
        """Put a command on the path that records its calls and runs this script."""
        write_program(self.folder / "bin" / name, RECORD_CALL + script)

    def run(self, script: str, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        """Run a script as CI does, without a terminal. This returns when all its pipes are closed."""
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        variables = {name: value for name, value in os.environ.items() if name not in ("CI", "DOCKER_HOST")}
        return subprocess.run(
            [self.folder / ".ci" / script, *arguments],
            env={**variables, "PATH": path, "NOTES": str(self.folder / "notes"), **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=WITHIN_S,
        )

    def calls_of(self, *names: str) -> list[str]:
        notes = self.folder / "notes"
        calls = notes.read_text().splitlines() if notes.exists() else []
        return [call for call in calls if call.split(" ", 1)[0] in names]

    @property
    def daemon(self) -> Path:
        """The executable of the daemon that was started; it exists while the daemon runs."""
        pid = (self.folder / ".tools" / "docker" / "dockerd.pid").read_text().strip()
        return Path(f"/proc/{pid}/exe")


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Checkout]:
    """Docker and Chromium are installed, no daemon runs, and the kernel allows containers."""
    shutil.copytree(CI, tmp_path / ".ci")
    (tmp_path / "Makefile").write_text(MAKEFILE)
    (tmp_path / "bin").mkdir()
    write_program(tmp_path / "tests" / "deployed" / ".venv" / "bin" / "python", DOCKER_CHECK)
    checkout = Checkout(tmp_path)
    # `find` searches for running daemons and `rm` deletes files of dead ones. Both must not touch this machine.
    for name in ("apt-get", "chromium", "find", "mount", "mountpoint", "rm", "systemctl", "unshare"):
        checkout.command(name)
    checkout.command("dockerd", DAEMON)
    yield checkout
    pidfile = tmp_path / ".tools" / "docker" / "dockerd.pid"
    if pidfile.exists() and os.path.lexists(checkout.daemon):
        os.kill(int(pidfile.read_text()), signal.SIGKILL)


def write_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def targets_of(process: "subprocess.CompletedProcess[str]") -> list[str]:
    """Return the targets that were made. Those that run beside the others come last."""
    targets = [line.removeprefix("made ") for line in process.stdout.splitlines() if line.startswith("made ")]
    return [target for target in targets if not target.startswith("setup-")]


def test_a_running_daemon_is_used(checkout: Checkout) -> None:
    (checkout.folder / "daemon-answers").touch()

    process = checkout.run("run", CI="1")

    assert (process.returncode, process.stdout.splitlines()[-1]) == (0, "── everything passed")
    assert targets_of(process) == ["check", "test", "test-containers", "test-frameworks"]
    assert checkout.calls_of("apt-get", "dockerd", "systemctl", "unshare") == []


def test_outside_ci_nothing_is_installed_and_the_last_line_names_skipped_tests(checkout: Checkout) -> None:
    process = checkout.run("run", CI="")

    assert (process.returncode, targets_of(process)) == (0, ["check", "test", "test-frameworks"])
    last = process.stdout.splitlines()[-1]
    assert last.startswith(f"{REST_PASSED}no Docker daemon answers (CI is empty")
    assert checkout.calls_of("apt-get", "dockerd", "systemctl") == []


@pytest.mark.parametrize("has_docker", [True, False], ids=["with Docker", "without Docker"])
def test_the_last_line_names_missing_engines(checkout: Checkout, has_docker: bool) -> None:
    (checkout.folder / ".tools").mkdir()
    (checkout.folder / ".tools" / "left-out").write_text("DynamoDB Local needs Java\n")
    if has_docker:
        (checkout.folder / "daemon-answers").touch()

    process = checkout.run("run", CI="")

    last = process.stdout.splitlines()[-1]
    assert (process.returncode, last.startswith("── everything passed")) == (0, has_docker)
    assert last.endswith("LEFT OUT: DynamoDB Local needs Java")


@needs_root
def test_a_daemon_is_started_and_stopped_by_default(checkout: Checkout) -> None:
    process = checkout.run("run")

    assert (process.returncode, process.stdout.splitlines()[-1]) == (0, "── everything passed")
    assert targets_of(process) == ["check", "test", "test-containers", "test-frameworks"]
    assert len(checkout.calls_of("dockerd")) == 1
    assert checkout.calls_of("apt-get") == []
    assert not checkout.daemon.exists()


@pytest.mark.parametrize("step", ["check", "test"])
def test_a_failure_stops_the_container_tests_and_prints_their_output(checkout: Checkout, step: str) -> None:
    (checkout.folder / "daemon-answers").touch()

    # This imitates tests that clean up. The step fails when they have started.
    slow = "120 & trap 'sleep 1; touch ended; exit 1' TERM; touch started; wait"
    waiting = "0; until test -e started; do sleep 0.05; done"
    process = checkout.run("run", CI="1", FAILS=step, **{f"SLEEPS_{step}": waiting, "SLEEPS_test-containers": slow})

    assert process.returncode != 0
    assert targets_of(process)[-1] == "test-containers"
    assert "── stopped the container tests and those with agent frameworks" in process.stdout
    assert (checkout.folder / "ended").exists()


@needs_root
def test_a_daemon_that_does_not_start_fails_the_run_with_its_log(checkout: Checkout) -> None:
    checkout.command("dockerd", "echo 'no such device' >&2\nexit 1\n")

    process = checkout.run("run", CI="true")

    assert (process.returncode, targets_of(process)) == (1, ["check", "test", "test-frameworks"])
    assert "no such device" in process.stdout
    vfs_calls = [call for call in checkout.calls_of("dockerd") if "--storage-driver=vfs" in call]
    assert (len(checkout.calls_of("dockerd")), len(vfs_calls)) == (2, 1)


@needs_root
@pytest.mark.parametrize(("status", "package"), [(0, "chromium-headless-shell"), (1, "chromium")])
def test_the_browser_is_the_smallest_that_the_system_has(checkout: Checkout, status: int, package: str) -> None:
    checkout.command("apt-cache", f"exit {status}\n")
    bin_folder = checkout.folder / "bin"
    (bin_folder / "chromium").unlink()
    for name in ("bash", "mkdir", "timeout"):
        (bin_folder / name).symlink_to(str(shutil.which(name)))

    process = checkout.run("get-chromium", ".tools/chromium", CI="true", CHROMIUM="", PATH=str(bin_folder))

    assert process.returncode == 0, process.stderr
    assert checkout.calls_of("apt-get")[-1].endswith(package)


def test_uv_is_installed_by_its_hashes(checkout: Checkout) -> None:
    checkout.command("python3")

    process = checkout.run("get-uv", "brought")

    assert process.returncode == 0, process.stderr
    [install_call] = [call for call in checkout.calls_of("python3") if "pip install" in call]
    assert install_call.endswith(f" --require-hashes --requirement {checkout.folder}/.ci/uv.txt --target brought")


def test_pytest_leaves_out_no_folder_with_tests(pytestconfig: pytest.Config) -> None:
    """By default, pytest leaves out folders such as `build` and `dist`."""
    folders = set[str]()
    for folder, names, files in (CI.parent / "tests").walk():
        names[:] = [name for name in names if name != "node_modules" and name[0] != "."]
        if any(fnmatch(file, "test_*.py") for file in files):
            folders |= set(folder.relative_to(CI.parent).parts)

    patterns = pytestconfig.getini("norecursedirs")
    assert "build" in folders
    assert [name for name in folders for pattern in patterns if fnmatch(name, pattern)] == []
