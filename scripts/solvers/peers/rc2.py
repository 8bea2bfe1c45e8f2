"""RC2, the core-guided MaxSAT solver of python-sat, on the crate's WCNF export.

The option sets are its defaults and the stratified one with every improvement on, as its authors entered it in the MaxSAT
Evaluation. Timed is the search; handing the clauses to the SAT solver is not.
"""

import threading

from . import Answer

TITLE = "RC2"
READS = "wcnf"
NEEDS = "pysat"
VARIANTS = {"plain": None, "stratified": None}


def version():
    from importlib.metadata import version as of

    return of("python-sat")


def load(path, variant):
    from pysat.examples.rc2 import RC2, RC2Stratified
    from pysat.formula import WCNF

    # The exporter's comments say which variables are whose.
    groups = []
    with open(path, encoding="utf-8") as text:
        for line in text:
            if line.startswith("c operator "):
                first, last = line.rsplit(" ", 1)[1].split("..")
                groups.append((int(first), int(last)))
            elif not line.startswith("c"):
                break
    formula = WCNF(from_file=str(path))
    if variant == "plain":
        search = RC2(formula)
    else:
        search = RC2Stratified(
            formula, solver="g3", adapt=True, exhaust=True, minz=True, trim=5, blo="div"
        )
    return groups, search


def solve(model, seconds):
    groups, search = model
    watch = threading.Timer(seconds, search.interrupt)
    watch.daemon = True
    watch.start()
    found = search.compute(expect_interrupt=True)
    stopped = not watch.is_alive()
    watch.cancel()
    if found is None:
        return Answer("timeout" if stopped or search.interrupted else "infeasible")
    true = {literal for literal in found if literal > 0}
    taken = [next(v - first for v in range(first, last + 1) if v in true) for first, last in groups]
    return Answer("optimal", taken, search.cost)
