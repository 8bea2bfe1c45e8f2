"""The solvers that `exact` is compared with, one file each.

A peer is a module with

- `TITLE`, and `version()`;
- `NEEDS`, the Python module that has to be there;
- `READS`, the file it is driven through: `cfn`, `wcnf` or `json` (a model built here from the instance);
- `VARIANTS`, option sets by name; a peer's time is that of its best one;
- `load(path, variant)`, which reads or builds the model, outside the timing;
- `solve(model, seconds)`, which is timed and returns an `Answer`.
"""

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
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


def present(names):
    """Those of the peers that are installed; the others are named with the reason."""
    there = []
    for name in names:
        if find_spec(peer(name).NEEDS):
            there.append(name)
        else:
            print(f"skipped: {peer(name).TITLE}: there is no module {peer(name).NEEDS}; run scripts/setup_solvers", flush=True)
    return there
