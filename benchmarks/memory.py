"""The memory and the processor time of other processes, from Linux's `/proc`."""

import os
from pathlib import Path
from typing import Literal


def resident_mb(process: int, figure: Literal["VmRSS", "VmHWM"]) -> float:
    """The memory of a process in MB: now (`VmRSS`), or at most until now (`VmHWM`). NaN without `/proc`."""
    status = Path(f"/proc/{process}/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{figure}:")), float("nan"))


def processor_s(process: int) -> float:
    """The processor time of a process until now, in seconds. NaN without `/proc`."""
    stat = Path(f"/proc/{process}/stat")
    if not stat.exists():
        return float("nan")
    # The second field is the command's name in parentheses, which can contain blanks.
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
