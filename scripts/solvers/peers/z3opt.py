"""z3's optimiser on the seed's encoding as soft clauses, with its default engine (its `rc2` is no faster on these)."""

from ..instance import load as read
from ..instance import producers, readers
from . import Answer

TITLE = "z3"
READS = "json"
NEEDS = "z3"
VARIANTS = {"maxres": "maxres"}


def version():
    from importlib.metadata import version as of

    return of("z3-solver")


def load(path, variant):
    import z3

    instance = read(path)
    optimiser = z3.Optimize()
    optimiser.set("maxsat_engine", VARIANTS[variant])
    operators = instance["operators"]
    takes = [[z3.Bool(f"x{o}_{c}") for c in range(len(op["configs"]))] for o, op in enumerate(operators)]
    for literals in takes:
        optimiser.add(z3.PbEq([(x, 1) for x in literals], 1))
    for o, operator in enumerate(operators):
        for x, config in zip(takes[o], operator["configs"]):
            if config["cost"]:
                optimiser.add_soft(z3.Not(x), config["cost"])
    produced_by, read_by = producers(instance), readers(instance)
    for t, tensor in enumerate(instance["tensors"]):
        requests = {}
        for o, position in read_by[t]:
            for x, config in zip(takes[o], operators[o]["configs"]):
                requests.setdefault(config["in"][position], []).append(x)
        for layout, asking in sorted(requests.items()):
            y = z3.Bool(f"y{t}_{layout}")
            for x in asking:
                optimiser.add(z3.Implies(x, y))
            writer = produced_by[t]
            for x, config in zip(takes[writer], operators[writer]["configs"]):
                cost = 0 if config["out"] == layout else tensor["transpose"][config["out"]][layout]
                both = z3.Or(z3.Not(x), z3.Not(y))
                if cost is None:
                    optimiser.add(both)
                elif cost:
                    optimiser.add_soft(both, cost)
    return optimiser, takes


def solve(loaded, seconds):
    import z3

    optimiser, takes = loaded
    optimiser.set("timeout", int(1000 * seconds))
    result = optimiser.check()
    if result == z3.unsat:
        return Answer("infeasible")
    if result != z3.sat:
        return Answer("timeout")
    model = optimiser.model()
    taken = [next(c for c, x in enumerate(literals) if z3.is_true(model.eval(x))) for literals in takes]
    return Answer("optimal", taken)
