"""Limits processes to a share of one processor with a control group, as Lambda does by a function's memory.

From 1,769 MB, a Lambda function has a whole processor. Below that, its share is proportional to its memory
(https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html). During initialisation it has a whole one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

WHOLE_MB = 1_769
"""The memory that comes with a whole processor."""

_PERIOD_US = 20_000
_VERSION_1 = Path("/sys/fs/cgroup/cpu")
_VERSION_2 = Path("/sys/fs/cgroup")
_NAME = "baton-benchmark"


class NoShares(Exception):
    """This machine does not support control groups with a quota. The message contains the reason."""


class Share:
    """A control group. Its processes have no limit until `limit` is called.

    Raises:
        NoShares: this machine does not support it.
    """

    def __init__(self) -> None:
        is_version_1 = (_VERSION_1 / "cpu.cfs_quota_us").exists()
        self._group = (_VERSION_1 if is_version_1 else _VERSION_2) / _NAME
        self._quota = self._group / ("cpu.cfs_quota_us" if is_version_1 else "cpu.max")
        self._period = self._group / "cpu.cfs_period_us" if is_version_1 else None
        try:
            self._group.mkdir(exist_ok=True)
        except OSError as error:
            raise NoShares(f"no control group can be made in {self._group.parent}: {error}") from error
        if not self._quota.exists():
            self.remove()
            raise NoShares(f"{self._group.parent} has no `cpu` controller for the groups in it")

    def add(self, process: int) -> None:
        """Add a process, including the processes that it starts later."""
        (self._group / "cgroup.procs").write_text(str(process))

    def limit(self, share: float) -> None:
        """Limit all processes of the group together to this share of one processor."""
        quota_us = int(share * _PERIOD_US)
        if self._period is None:
            self._quota.write_text(f"{quota_us} {_PERIOD_US}")
        else:
            self._period.write_text(str(_PERIOD_US))
            self._quota.write_text(str(quota_us))

    def remove(self) -> None:
        """Remove the group, which must be empty."""
        self._group.rmdir()


@contextmanager
def share() -> Iterator[Share]:
    """Create a group, and remove it when its processes have ended.

    Raises:
        NoShares: this machine does not support it.
    """
    group = Share()
    try:
        yield group
    finally:
        group.remove()
