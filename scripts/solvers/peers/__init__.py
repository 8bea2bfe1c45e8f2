"""The solvers that `exact` is compared with, one file each.

A peer is a module with

- `TITLE`, and `version()`;
- `READS`, the file it is driven through: `cfn`, `wcnf` or `json` (a model built here from the instance);
- `VARIANTS`, option sets by name; a peer's time is that of its best one;
- `load(path, variant)`, which reads or builds the model, outside the timing;
- `solve(model, seconds)`, which is timed and returns an `Answer`.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import Optional

NAMES = ["toulbar2", "rc2", "cpsat", "highs", "z3opt"]


@dataclass
class Answer:
    """What a solver said. `status` is `optimal`, `infeasible` or `timeout`; `seconds` where it times itself."""

    status: str
    assignment: Optional[list] = None
    cost: Optional[int] = None
    seconds: Optional[float] = None


def peer(name):
    """The module of a peer."""
    if name not in NAMES:
        raise ValueError(f"no peer is named {name!r}; there are: {', '.join(NAMES)}")
    return import_module(f"{__name__}.{name}")
