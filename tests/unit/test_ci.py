"""`.ci/run` and `.ci/get-docker`: where Docker is missing it is brought along, or its absence is the last word.

The scripts run in a folder of their own, with commands on the path that only note that they were called.
"""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

CI = Path(__file__).parents[2] / ".ci"
WITHIN_S = 60
STEPS = "check test setup-tests setup-containers test-containers"
REST_PASSED = "── the rest passed; NOT RUN for want of Docker: make test-containers. "
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may start a daemon, and gets as far as that")

MAKEFILE = f'{STEPS}:\n\t@echo "made $@"; sleep $(or $(SLEEPS_$@),0); test "$@" != "$(FAILS)"\n.PHONY: {STEPS}\n'
ANSWERED = '#!/bin/sh\ntest -e daemon-answers && exit 0\necho "no Docker daemon answers" >&2\nexit 1\n'
"""The question that the tests ask of Docker."""
NOTED = '#!/bin/sh\necho "${0##*/} $*" >>"$NOTES"\n'
DAEMON = """\
while [ $# -gt 1 ]; do [ "$1" = --pidfile ] && echo $$ >"$2"; shift; done
touch daemon-answers
exec sleep 600
"""


@dataclass(frozen=True, slots=True)
class Checkout:
    """A repository with nothing but `.ci`, and the commands that its scripts find.

    Attributes:
        folder: Where it is.
    """

    folder: Path

    def command(self, name: str, does: str = "exit 0\n") -> None:
        """Put a command on the path that notes its calls and does this."""
        write_program(self.folder / "bin" / name, NOTED + does)

    def run(self, script: str, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        """Run a script as CI does, nobody at the keyboard; ends when nothing holds its pipes any more."""
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        inherited = {name: value for name, value in os.environ.items() if name not in ("CI", "DOCKER_HOST")}
        return subprocess.run(
            [self.folder / ".ci" / script, *arguments],
            env={**inherited, "PATH": path, "NOTES": str(self.folder / "notes"), **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=WITHIN_S,
        )

    def get_docker(self, **environment: str) -> "subprocess.CompletedProcess[str]":
        """Run `.ci/get-docker`."""
        return self.run("get-docker", str(self.folder / ".tools" / "docker"), **environment)

    def called(self, *names: str) -> list[str]:
        """The calls of these commands, with their arguments."""
        notes = self.folder / "notes"
        calls = notes.read_text().splitlines() if notes.exists() else []
        return [call for call in calls if call.split(" ", 1)[0] in names]

    @property
    def daemon(self) -> Path:
        """The program of the daemon that was started, while it runs."""
        pid = (self.folder / ".tools" / "docker" / "dockerd.pid").read_text().strip()
        return Path(f"/proc/{pid}/exe")


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Checkout]:
    """Docker is installed, no daemon answers, none runs, and the kernel can make containers."""
    shutil.copytree(CI, tmp_path / ".ci")
    (tmp_path / "Makefile").write_text(MAKEFILE)
    (tmp_path / "bin").mkdir()
    write_program(tmp_path / "tests" / "deployed" / ".venv" / "bin" / "python", ANSWERED)
    checkout = Checkout(tmp_path)
    # `find` looks for daemons that run, `rm` for what dead ones left: this machine's are none of the tests' business.
    for name in ("apt-get", "find", "mount", "mountpoint", "rm", "systemctl", "unshare"):
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


def made(done: "subprocess.CompletedProcess[str]") -> list[str]:
    """The targets that were made: those in containers, which are made beside the others, come last."""
    targets = [line.removeprefix("made ") for line in done.stdout.splitlines() if line.startswith("made ")]
    return [target for target in targets if not target.startswith("setup-")]


def test_a_daemon_that_answers_is_used_as_it_is(checkout: Checkout) -> None:
    (checkout.folder / "daemon-answers").touch()

    done = checkout.run("run", CI="1")

    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "── everything passed")
    assert made(done) == ["check", "test", "test-containers"]
    assert checkout.called("apt-get", "dockerd", "systemctl", "unshare") == []


def test_told_not_to_be_ci_nothing_is_installed_or_started_and_the_last_line_says_what_was_not_run(
    checkout: Checkout,
) -> None:
    done = checkout.run("run", CI="")

    assert (done.returncode, made(done)) == (0, ["check", "test"])
    last = done.stdout.splitlines()[-1]
    assert last.startswith(f"{REST_PASSED}no Docker daemon answers (CI is empty")
    assert checkout.called("apt-get", "dockerd", "systemctl") == []


LOCAL = "DynamoDB Local needs Java 17 or newer, which is missing"


@pytest.mark.parametrize(
    ("note", "said"),
    [
        ("not-audited", "NOT AUDITED: advisories about 70 locked packages"),
        ("left-out", f"LEFT OUT: {LOCAL}"),
    ],
)
@pytest.mark.parametrize("answers", [True, False], ids=["with Docker", "without Docker"])
def test_advisories_that_nobody_told_and_engines_that_were_left_out_are_in_the_last_line(
    checkout: Checkout, note: str, said: str, answers: bool
) -> None:
    (checkout.folder / ".tools").mkdir()
    (checkout.folder / ".tools" / note).write_text(f"{said.partition(': ')[2]}\n")
    if answers:
        (checkout.folder / "daemon-answers").touch()

    done = checkout.run("run", CI="")

    last = done.stdout.splitlines()[-1]
    assert (done.returncode, last.startswith("── everything passed")) == (0, answers)
    assert last.endswith(said)


@needs_root
def test_a_kernel_that_makes_no_containers_is_named_and_nothing_is_changed(checkout: Checkout) -> None:
    checkout.command("unshare", "echo 'unshare failed: Operation not permitted' >&2\nexit 1\n")

    done = checkout.run("run", CI="true")

    assert (done.returncode, made(done)) == (0, ["check", "test"])
    assert f"{REST_PASSED}this machine's kernel" in done.stdout.splitlines()[-1]
    assert "Operation not permitted" in done.stdout.splitlines()[-1]
    assert checkout.called("apt-get", "dockerd", "systemctl") == []


@needs_root
def test_a_daemon_is_started_used_and_stopped_though_nobody_says_that_this_is_ci(checkout: Checkout) -> None:
    done = checkout.run("run")

    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "── everything passed")
    assert made(done) == ["check", "test", "test-containers"]
    assert len(checkout.called("dockerd")) == 1
    assert checkout.called("apt-get") == []
    assert not checkout.daemon.exists()


@needs_root
def test_a_failing_test_fails_the_run_and_the_daemon_is_stopped_all_the_same(checkout: Checkout) -> None:
    done = checkout.run("run", CI="true", FAILS="test-containers")

    assert done.returncode != 0
    assert made(done)[-1] == "test-containers"
    assert not checkout.daemon.exists()


@pytest.mark.parametrize("step", ["check", "test"])
def test_what_fails_beside_the_tests_in_containers_stops_them_and_shows_what_they_printed(
    checkout: Checkout, step: str
) -> None:
    (checkout.folder / "daemon-answers").touch()

    # As tests do that have something to take away.
    slow = "120 & trap 'sleep 1; touch ended; exit 1' TERM; wait"
    done = checkout.run("run", CI="1", FAILS=step, **{f"SLEEPS_{step}": "2", "SLEEPS_test-containers": slow})

    assert done.returncode != 0
    assert made(done)[-1] == "test-containers"
    assert "── stopped: the tests in containers" in done.stdout
    assert (checkout.folder / "ended").exists()


@needs_root
def test_a_daemon_that_does_not_come_up_fails_the_run_with_its_log(checkout: Checkout) -> None:
    checkout.command("dockerd", "echo 'no such device' >&2\nexit 1\n")

    done = checkout.run("run", CI="true")

    assert (done.returncode, made(done)) == (1, ["check", "test"])
    assert "no such device" in done.stdout
    plainest = [call for call in checkout.called("dockerd") if "--storage-driver=vfs" in call]
    assert (len(checkout.called("dockerd")), len(plainest)) == (2, 1)


@needs_root
def test_a_daemon_that_fails_on_its_storage_is_started_with_the_plainest_and_holds_no_pipe(checkout: Checkout) -> None:
    checkout.command("dockerd", 'case "$*" in *vfs*) ;; *) exit 1 ;; esac\n' + DAEMON)

    done = checkout.get_docker(CI="1")

    assert (done.returncode, done.stdout) == (0, "")
    assert checkout.daemon.exists()


@needs_root
def test_what_is_missing_is_installed_from_fresh_lists(checkout: Checkout) -> None:
    installed = checkout.folder / "bin" / "dockerd"
    installed.rename(checkout.folder / "package")
    checkout.command("apt-get", f"[ $1 = update ] || mv package {installed}\n")

    done = checkout.get_docker(CI="1", BASH_ENV=without_dockerd(checkout))

    assert done.returncode == 0, done.stderr
    update, install = checkout.called("apt-get")
    assert update == "apt-get update"
    assert install.startswith("apt-get install --yes ")
    assert install.endswith(" docker.io")


@needs_root
def test_an_installation_that_fails_fails_the_run_with_its_log(checkout: Checkout) -> None:
    checkout.command("apt-get", "echo 'E: Unable to locate package docker.io'\nexit 100\n")
    (checkout.folder / "bin" / "dockerd").unlink()

    done = checkout.run("run", CI="1", BASH_ENV=without_dockerd(checkout))

    assert (done.returncode, made(done)) == (1, ["check", "test"])
    assert "Unable to locate package" in done.stdout


def without_dockerd(checkout: Checkout) -> str:
    """A file that has bash find no `dockerd` but the checkout's: this machine may have one."""
    hiding = checkout.folder / "hiding.bash"
    hiding.write_text('command() { [[ $2 != dockerd || -e bin/dockerd ]] && builtin command "$@"; }\n')
    return str(hiding)


@needs_root
def test_a_daemon_elsewhere_that_does_not_answer_is_a_failure(checkout: Checkout) -> None:
    done = checkout.get_docker(CI="1", DOCKER_HOST="tcp://docker:2375")

    assert done.returncode == 1
    assert "tcp://docker:2375" in done.stderr
    assert checkout.called("apt-get", "dockerd") == []


def test_uv_is_brought_by_its_hashes(checkout: Checkout) -> None:
    checkout.command("python3")

    done = checkout.run("get-uv", "brought")

    assert done.returncode == 0, done.stderr
    [bringing] = [call for call in checkout.called("python3") if "pip install" in call]
    assert bringing.endswith(f" --require-hashes --requirement {checkout.folder}/.ci/uv.txt --target brought")


def test_builds_that_bring_uv_themselves_bring_the_same() -> None:
    locked = re.findall(r"^uv==(\S+) ", (CI / "uv.txt").read_text(), re.MULTILINE)
    builds = [path.read_text() for path in CI.parent.glob("*/*/Makefile")]

    assert len(builds) == 3
    assert [re.findall(r"^UV_VERSION := (\S+)$", text, re.MULTILINE) for text in builds] == [locked] * 3
