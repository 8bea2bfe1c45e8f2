"""How long processes have had the processor (Linux), which on a busy machine is less than how long they have run."""

import os
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def seconds(session):
    """Processor seconds of a session's processes and of their children that have ended; `None` where the system does not tell."""
    total, found = 0, False
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name in parentheses may hold anything; what follows it is numbers.
            fields = entry.read_text(encoding="utf-8", errors="replace").rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue  # it has just ended
        if int(fields[3]) == session:
            found = True
            total += sum(int(ticks) for ticks in fields[11:15])
    return total / TICKS if found else None
