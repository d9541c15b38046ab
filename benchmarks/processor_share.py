"""A share of one processor for a process, by a control group's quota: what Lambda gives a function by its memory.

Lambda's functions have a whole processor from 1,769 MB on and a share below, in proportion
(https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html); while they are initialised, a whole one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

WHOLE_MB = 1_769
"""Memory that comes with a whole processor."""

_PERIOD_US = 20_000
_VERSION_1 = Path("/sys/fs/cgroup/cpu")
_VERSION_2 = Path("/sys/fs/cgroup")
_NAME = "baton-benchmark"


class NoShares(Exception):
    """This machine makes no control groups with a quota; says why."""


class Share:
    """A control group whose processes have as much as they like until `limit` is called.

    Raises:
        NoShares: there can be none here.
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
        """Take a process in, with all that it starts."""
        (self._group / "cgroup.procs").write_text(str(process))

    def limit(self, share: float) -> None:
        """From now on the processes together have this share of one processor."""
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
    """A group that is removed when its processes have ended.

    Raises:
        NoShares: there can be none here.
    """
    made = Share()
    try:
        yield made
    finally:
        made.remove()
