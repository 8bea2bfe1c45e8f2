"""The instances of a comparison: the shared ones, and generated ones that add sizes and shapes of their own."""

from pathlib import Path

from . import workbench
from .instance import stem

# Name: generator and settings. Widths rise from what every solver does to what only tables do.
GENERATED = {
    "blocks-50x20": ("blocks", {"layers": 50, "operators": 20, "seed": 3}),
    "blocks-50x20-p1": ("blocks", {"layers": 50, "operators": 20, "seed": 3, "perturb": 1, "shuffle": 1}),
    "blocks-500x20-p1": ("blocks", {"layers": 500, "operators": 20, "seed": 3, "perturb": 1}),
    "gen-100-w4-l2": ("random", {"operators": 100, "window": 4, "layouts-to": 2, "seed": 11}),
    "gen-100-w4-l4": ("random", {"operators": 100, "window": 4, "layouts-to": 4, "seed": 12}),
    "gen-200-w6-l2": ("random", {"operators": 200, "window": 6, "layouts-to": 2, "seed": 13}),
    "gen-200-w6-l3-odd": ("random", {"operators": 200, "window": 6, "odd": 1, "seed": 14}),
    "gen-1000-w4-l4": ("random", {"operators": 1000, "window": 4, "layouts-to": 4, "seed": 15}),
    "gen-2000-w6-l2": ("random", {"operators": 2000, "window": 6, "layouts-to": 2, "seed": 16}),
    "gen-10000-w3-l3": ("random", {"operators": 10000, "window": 3, "seed": 17}),
    "gen-sat-30": ("sat", {"variables": 30, "clauses": 120, "seed": 18}),
    "gen-oct-25": ("oct", {"vertices": 25, "percent": 15, "seed": 19}),
}

# The short form: small shared instances and two generated ones.
QUICK_OPERATORS = 130
QUICK_GENERATED = ["gen-100-w4-l2", "gen-oct-25"]


def shared(folder):
    """The instance files of a folder; none when it is not there, which is said."""
    folder = Path(folder)
    if not folder.is_dir():
        print(f"skipped: no instances at {folder}", flush=True)
        return []
    return sorted(p for p in folder.iterdir() if p.name.endswith((".json", ".json.zst")) and stem(p) != "optima")


def generated(folder, names=None):
    """The generated instances, written to `folder`."""
    return [
        workbench.generate(*GENERATED[name], Path(folder) / f"{name}.json")
        for name in (GENERATED if names is None else names)
    ]
