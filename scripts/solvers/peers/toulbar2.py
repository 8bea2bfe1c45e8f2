"""toulbar2, the solver of weighted constraint networks, on the crate's `.cfn` export.

Timed is what its `Solve` does, preprocessing included; reading the file is not. The option sets are the search without a
decomposition and three with one: BTD on a min-fill tree (`-B=1 -O=-3`), the same with russian doll search (`-B=2`), and BTD on a
min-degree tree after variable elimination (`-B=1 -O=-2 -p=-8`).
"""

import math

from . import Answer

TITLE = "toulbar2"
READS = "cfn"
# Name: mode of the search (-B), order (-O), elimination in preprocessing (-p).
VARIANTS = {
    "plain": (0, None, -1),
    "btd": (1, "-3", -1),
    "rds": (2, "-3", -1),
    "btd-elim": (1, "-2", -8),
}


def version():
    from importlib.metadata import version as of

    return of("pytoulbar2")


def load(path, variant):
    import pytoulbar2

    mode, order, eliminate = VARIANTS[variant]
    network = pytoulbar2.CFN()
    option = pytoulbar2.tb2.option
    option.btdMode = mode
    option.elimDegree_preprocessing = eliminate
    if order is not None:
        option.setVarOrder(order)
    try:
        network.Read(str(path))
    except pytoulbar2.tb2.Contradiction:
        return None  # empty by propagation while reading
    return network


def solve(network, seconds):
    import pytoulbar2

    if network is None:
        return Answer("infeasible")
    try:
        found = network.Solve(timeLimit=max(1, math.ceil(seconds)))
    except pytoulbar2.tb2.SolverOut:
        return Answer("timeout")
    if found is None:
        return Answer("infeasible")
    values, cost, _ = found
    operators = [i for i, name in network.VariableNames.items() if name.startswith("x")]
    operators.sort(key=lambda i: int(network.VariableNames[i][1:]))
    return Answer("optimal", [int(values[i]) for i in operators], round(cost))
