"""HiGHS, the mixed-integer solver, on the linear form with both gaps set to zero."""

from ..instance import load as read
from . import Answer
from .linear import chosen, linear

TITLE = "HiGHS"
READS = "json"
NEEDS = "highspy"
VARIANTS = {"plain": None}


def version():
    from importlib.metadata import version as of

    return of("highspy")


def load(path, variant):
    import highspy
    import numpy as np

    del variant
    costs, groups, rows = linear(read(path))
    solver = highspy.Highs()
    for option, value in [
        ("output_flag", False),
        ("threads", 1),
        ("mip_rel_gap", 0.0),
        ("mip_abs_gap", 0.0),
    ]:
        solver.setOptionValue(option, value)
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = len(costs), len(groups) + len(rows)
    model.col_cost_ = np.array(costs, dtype=float)
    model.col_lower_, model.col_upper_ = np.zeros(len(costs)), np.ones(len(costs))
    model.integrality_ = [highspy.HighsVarType.kInteger] * len(costs)
    ones, no_limit = np.ones(len(groups)), np.full(len(rows), highspy.kHighsInf)
    model.row_lower_ = np.concatenate([ones, np.zeros(len(rows))])
    model.row_upper_ = np.concatenate([ones, no_limit])
    every = [[(v, 1) for v in group] for group in groups] + rows
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = np.cumsum([0] + [len(row) for row in every])
    model.a_matrix_.index_ = np.array([v for row in every for v, _ in row])
    model.a_matrix_.value_ = np.array([c for row in every for _, c in row], dtype=float)
    solver.passModel(model)
    return solver, groups


def solve(loaded, seconds):
    import highspy

    solver, groups = loaded
    solver.setOptionValue("time_limit", float(seconds))
    solver.run()
    status = solver.getModelStatus()
    if status == highspy.HighsModelStatus.kInfeasible:
        return Answer("infeasible")
    if status != highspy.HighsModelStatus.kOptimal:
        return Answer("timeout")
    value = list(solver.getSolution().col_value)
    return Answer("optimal", chosen(groups, lambda v: value[v]), round(solver.getObjectiveValue()))
