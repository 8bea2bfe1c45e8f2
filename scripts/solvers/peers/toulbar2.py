"""toulbar2, the solver of weighted constraint networks, on the crate's `.cfn` export.

Twice: the library of its Python wheel, of which `Solve` is timed (preprocessing included, reading not), and, where a `toulbar2` is on
the PATH (Debian has 1.1.1), that program with the seconds it reports itself, which leave reading out too. Each has four option sets:
the search without a decomposition, BTD on a min-fill tree (`-B=1 -O=-3`), the same with russian doll search (`-B=2`), and BTD on a
min-degree tree after variable elimination (`-B=1 -O=-2 -p=-8`).

The wheel 1.4.0.1 proves a wrong optimum when BTD, hybrid best-first search and dead-end elimination come together: 1447 in place of
1443 on random-100-w3-l3-2, where the program 1.1.1, RC2 and the wheel without either say 1443. Both are off there.
"""

import math
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from . import Answer

TITLE = "toulbar2"
READS = "cfn"
NEEDS = "pytoulbar2"
# Name: mode of the search (-B), order (-O), elimination in preprocessing (-p).
# First the one that is seldom far from the best: others are stopped once they are slower.
OPTIONS = {
    "rds": (2, "-3", -1),
    "plain": (0, None, -1),
    "btd": (1, "-3", -1),
    "btd-elim": (1, "-2", -8),
}
PROGRAM = shutil.which("toulbar2")
VARIANTS = ({f"program-{name}": options for name, options in OPTIONS.items()} if PROGRAM else {}) | OPTIONS


def version():
    from importlib.metadata import version as of

    wheel = of("pytoulbar2")
    if not PROGRAM:
        return wheel
    said = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"version\s*:?\s*v?(\d[\w.]*)", said)
    return f"{wheel} (wheel) and {found[1] if found else 'unknown'} (program)"


def load(path, variant):
    if variant.startswith("program-"):
        return Path(path), OPTIONS[variant.removeprefix("program-")]
    import pytoulbar2

    mode, order, eliminate = OPTIONS[variant]
    network = pytoulbar2.CFN()
    option = pytoulbar2.tb2.option
    option.btdMode = mode
    option.elimDegree_preprocessing = eliminate
    if mode != 0:
        option.DEE = option.hbfs = 0
    if order is not None:
        option.setVarOrder(order)
    try:
        network.Read(str(path))
    except pytoulbar2.tb2.Contradiction:
        return None  # empty by propagation while reading
    return network


def solve(loaded, seconds):
    if isinstance(loaded, tuple):
        return program(*loaded, seconds)
    import pytoulbar2

    if loaded is None:
        return Answer("infeasible")
    try:
        found = loaded.Solve(timeLimit=max(1, math.ceil(seconds)))
    except pytoulbar2.tb2.SolverOut:
        return Answer("timeout")
    finally:
        loaded.CFN.timerStop()  # it would ring in the next solve of this process
    if pytoulbar2.tb2.option.limited:
        return Answer("timeout")  # what was found is not proven
    if found is None:
        return Answer("infeasible")
    values, cost, _ = found
    operators = [i for i, name in loaded.VariableNames.items() if name.startswith("x")]
    operators.sort(key=lambda i: int(loaded.VariableNames[i][1:]))
    return Answer("optimal", [int(values[i]) for i in operators], round(cost))


def program(path, options, seconds):
    """A run of the program; operators' variables come first in the file."""
    mode, order, eliminate = options
    operators = len(set(re.findall(r'^"x(\d+)":', path.read_text(encoding="utf-8"), re.MULTILINE)))
    with tempfile.TemporaryDirectory() as folder:
        solution = Path(folder) / "solution"
        command = [PROGRAM, str(path), f"-timer={math.ceil(seconds)}", f"-w={solution}", f"-B={mode}"]
        command += [f"-O={order}"] if order else []
        command += [f"-p={eliminate}"] if eliminate >= 0 or eliminate < -1 else []
        said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        optimum = re.search(r"^Optimum: (\d+) in .* ([\d.e+-]+) seconds", said, re.MULTILINE)
        if optimum:
            values = [int(v) for v in solution.read_text(encoding="utf-8").split()]
            return Answer("optimal", values[:operators], int(optimum[1]), float(optimum[2]))
    nothing = re.search(r"^No solution in .* ([\d.e+-]+) seconds", said, re.MULTILINE)
    if nothing:
        return Answer("infeasible", seconds=float(nothing[1]))
    return Answer("timeout", seconds=seconds)
