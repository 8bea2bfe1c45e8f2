"""The instance as a 0-1 linear program, for the solvers that take one.

Per operator one of its `x` is 1. `p(t, l)`: the producer writes t in l, a sum of `x`. `z(t, l, m)`: t is converted from l to m
(for l = m: is handed on), at most `p(t, l)`. Whatever a consumer asks for must come from somewhere: the sum over l of `z(t, l, m)`
is at least the sum of its `x` that ask for (t, m). This is the facility-location form, whose relaxation is tighter than one bound per
configuration.
"""

from ..instance import producers, readers


def linear(instance):
    """(costs, groups, rows): the cost of each variable, the range of each operator's, and rows.

    A row is a list of (variable, coefficient), whose sum is to be at least 0.
    """
    costs, groups, rows = [], [], []
    for operator in instance["operators"]:
        first = len(costs)
        costs.extend(config["cost"] for config in operator["configs"])
        groups.append(range(first, len(costs)))
    produced_by, read_by = producers(instance), readers(instance)
    for t, tensor in enumerate(instance["tensors"]):
        writer = produced_by[t]
        writes = {}
        for variable, config in zip(groups[writer], instance["operators"][writer]["configs"]):
            writes.setdefault(config["out"], []).append(variable)
        # Per requested layout and consumer, the variables that ask for it: an operator may read t twice.
        asks = {}
        for o in sorted({o for o, _ in read_by[t]}):
            positions = [k for p, k in read_by[t] if p == o]
            for variable, config in zip(groups[o], instance["operators"][o]["configs"]):
                for layout in sorted({config["in"][k] for k in positions}):
                    asks.setdefault(layout, {}).setdefault(o, []).append(variable)
        for layout, consumers in sorted(asks.items()):
            sources = []
            for written, writers in sorted(writes.items()):
                cost = 0 if written == layout else tensor["transpose"][written][layout]
                if cost is None:
                    continue
                z = len(costs)
                costs.append(cost)
                sources.append(z)
                rows.append([(x, 1) for x in writers] + [(z, -1)])
            for variables in consumers.values():
                rows.append([(z, 1) for z in sources] + [(x, -1) for x in variables])
    return costs, groups, rows


def chosen(groups, value):
    """The configuration taken by each operator, given the value of each variable."""
    return [max(range(len(group)), key=lambda i: value(group[i])) for group in groups]
