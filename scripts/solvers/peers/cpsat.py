"""CP-SAT of OR-Tools on the linear form, with one worker."""

from ..instance import load as read
from . import Answer
from .linear import chosen, linear

TITLE = "CP-SAT"
READS = "json"
NEEDS = "ortools"
VARIANTS = {"one-worker": None}


def version():
    from importlib.metadata import version as of

    return of("ortools")


def load(path, variant):
    from ortools.sat.python import cp_model

    del variant
    costs, groups, rows = linear(read(path))
    model = cp_model.CpModel()
    variables = [model.new_bool_var("") for _ in costs]
    for group in groups:
        model.add_exactly_one([variables[v] for v in group])
    for row in rows:
        model.add(cp_model.LinearExpr.weighted_sum([variables[v] for v, _ in row], [c for _, c in row]) >= 0)
    model.minimize(cp_model.LinearExpr.weighted_sum(variables, costs))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    return model, variables, groups, solver


def solve(loaded, seconds):
    from ortools.sat.python import cp_model

    model, variables, groups, solver = loaded
    solver.parameters.max_time_in_seconds = seconds
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return Answer("infeasible")
    if status != cp_model.OPTIMAL:
        return Answer("timeout")
    taken = chosen(groups, lambda v: solver.value(variables[v]))
    return Answer("optimal", taken, round(solver.objective_value))
