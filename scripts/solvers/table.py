"""The comparison as Markdown, from the rows of its CSV."""

import statistics

from .peers import NAMES, peer

OURS = "exact"
# The claim is made for instances above this size; below it a process' start is most of what is measured.
SMALL = 50

# A program that times itself prints milliseconds: below this they say too little.
COARSE = 0.005


def best(rows, instance, solver):
    """The fastest run of a solver that reached an answer, over its option sets; `None` when none did."""
    reached = [
        r
        for r in rows
        if r["instance"] == instance
        and r["solver"] == solver
        and r["status"] in ("optimal", "infeasible")
        and not (r["variant"].startswith("program-") and float(r["seconds"]) < COARSE)
    ]
    return min(reached, key=lambda r: float(r["seconds"]), default=None)


def seconds(value):
    """Seconds with three digits that count."""
    if value < 0.0001:
        return f"{value * 1e6:.0f} µs"
    if value < 0.1:
        return f"{value * 1e3:.3g} ms"
    return f"{value:.3g} s"


def cell(rows, instance, solver):
    tried = [r for r in rows if r["instance"] == instance and r["solver"] == solver]
    if not tried:
        return ""
    found = best(rows, instance, solver)
    if found:
        return seconds(float(found["seconds"]))
    return "error" if all(r["status"] == "error" for r in tried) else "–"


def ratios(rows):
    """(instance, operators, our seconds, the best peer's row or `None`), where we have an answer."""
    result = []
    for instance, operators in instances(rows):
        mine = best(rows, instance, OURS)
        peers = [r for r in (best(rows, instance, name) for name in NAMES) if r]
        if mine:
            fastest = min(peers, key=lambda r: float(r["seconds"]), default=None)
            result.append((instance, operators, float(mine["seconds"]), fastest))
    return result


def instances(rows):
    """Names and sizes, in the order of the rows."""
    return list(dict.fromkeys((r["instance"], int(r["operators"])) for r in rows))


def disagreements(rows):
    """Rows whose answer is not ours."""
    return [r for r in rows if r["agrees"] == "no"]


def markdown(rows, limit, machine):
    """The whole report."""
    present = [name for name in NAMES if any(r["solver"] == name for r in rows)]
    head = ["instance", "operators", OURS, *(peer(name).TITLE for name in present), "best peer / exact"]
    lines = ["| " + " | ".join(head) + " |", "|---" + "|--:" * (len(head) - 1) + "|"]
    compared = {name: (mine, fastest) for name, _, mine, fastest in ratios(rows)}
    for instance, operators in instances(rows):
        mine, fastest = compared.get(instance, (None, None))
        ratio = f"{float(fastest['seconds']) / mine:.1f}" if fastest else "only ours" if mine else ""
        cells = [instance, str(operators), cell(rows, instance, OURS)]
        cells += [cell(rows, instance, name) for name in present] + [ratio]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", *summary(rows, limit), "", *versions(present, machine), ""])


def summary(rows, limit):
    """Sentences on who is how fast and who agrees."""
    every = ratios(rows)
    both = [(n, o, m, float(f["seconds"])) for n, o, m, f in every if f]
    above = [r for r in both if r[1] > SMALL]
    lines = [f"Solving seconds of the processor, best of the runs made; – : no answer within {limit:g} s."]
    for name, part in [("all instances", both), (f"those above {SMALL} operators", above)]:
        if part:
            factors = [theirs / mine for _, _, mine, theirs in part]
            lines.append(
                f"Best peer / `exact` over {name} that a peer solves ({len(part)}): median {statistics.median(factors):.1f}, "
                f"least {min(factors):.2f}, most {max(factors):.0f}."
            )
    alone = [n for n, _, _, f in every if not f]
    unsolved = [n for n, _ in instances(rows) if not best(rows, n, OURS)]
    slower = sorted((theirs / mine, n, o) for n, o, mine, theirs in both if theirs < mine)
    lines.append(f"Solved by `exact` alone: {', '.join(alone) or 'none'}.")
    lines.append(f"Not solved by `exact`: {', '.join(unsolved) or 'none'}.")
    listed = ", ".join(f"{n} ({o} operators, {ratio:.2f})" for ratio, n, o in slower)
    lines.append(f"`exact` slower than the best peer: {listed or 'none'}.")
    wrong = disagreements(rows)
    checked = sum(r["agrees"] == "yes" for r in rows)
    listed = ", ".join(f"{r['solver']}/{r['variant']} on {r['instance']}" for r in wrong)
    lines.append(f"Answers re-priced and equal to ours: {checked}; different: {listed or 'none'}.")
    failed = [f"{r['solver']}/{r['variant']} on {r['instance']}" for r in rows if r["status"] == "error"]
    if failed:
        lines.append(f"Runs that failed: {', '.join(failed)}.")
    return [f"{line}  " for line in lines]


def versions(present, machine):
    named = ", ".join(f"{peer(name).TITLE} {peer(name).version()}" for name in present)
    return [f"{machine}. {named}; every solver on one thread."]
