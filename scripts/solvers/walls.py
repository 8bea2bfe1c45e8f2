"""Where each strategy ends under one limit of time and memory; see `scripts/walls --help`.

Writes `walls.csv` (one row per instance and strategy), `walls.md` (the tables) and the two figures of the study as SVG: the share of
instances each exact strategy proves within a time (6b), and the treewidths of the suite (6a).
"""

import argparse
import csv
import json
import statistics
import subprocess
from pathlib import Path

from . import draw, run, suite, workbench
from .bench import machine
from .instance import stem
from .table import seconds

STRATEGIES = ["local", "greedy", "treewidth", "maxsat", "exact"]
EXACT = ["treewidth", "maxsat", "exact"]
COLUMNS = [
    "instance",
    "operators",
    "width_lower",
    "width_upper",
    "strategy",
    "status",
    "seconds",
    "cost",
    "lower_bound",
    "wanted_bytes",
    "peak_bytes",
    "rss_bytes",
]
GRANULARITY = "A vertex is an operator of the instance, sources, sinks, constants and projections included"


def options():
    parser = argparse.ArgumentParser(prog="scripts/walls", description=__doc__)
    parser.add_argument("instances", nargs="?", default=workbench.ROOT / ".." / "shared" / "instances", type=Path)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these instances only")
    parser.add_argument("--strategies", nargs="+", default=STRATEGIES, metavar="NAME")
    parser.add_argument("--limit", type=float, default=20.0, metavar="SECONDS", help="per run (20)")
    parser.add_argument("--memory", type=float, default=4.0, metavar="GIB", help="for a run's tables (4)")
    parser.add_argument("--resume", action="store_true", help="keep the rows that the CSV has")
    parser.add_argument("--table-only", action="store_true", help="write the tables and figures of the CSV, run nothing")
    parser.add_argument("-o", "--output", type=Path, default=workbench.ROOT / "results" / "walls")
    return parser.parse_args()


def width(path):
    """Bounds on the treewidth of an instance's graph."""
    said = subprocess.run([workbench.example("widths"), path], capture_output=True, text=True, check=True)
    return json.loads(said.stdout)["width"]


def row(path, bounds, strategy, answer):
    counters = answer.get("counters", {})
    values = {
        "instance": stem(path),
        "operators": bounds["vertices"],
        "width_lower": bounds["lower"],
        "width_upper": bounds["upper"],
        "strategy": strategy,
        "wanted_bytes": counters.get("wanted_bytes"),
    }
    rest = {key: answer.get(key) for key in COLUMNS if key not in values}
    return {key: "" if value is None else str(value) for key, value in (values | rest).items()}


def measure(path, chosen, known, write):
    missing = [s for s in chosen.strategies if (stem(path), s) not in known]
    if not missing:
        return
    bounds = width(path)
    for strategy in missing:
        answer = run.ours(
            workbench.example("solve_json"), path, strategy, chosen.limit, int(chosen.memory * (1 << 30))
        )
        write(row(path, bounds, strategy, answer))


def solved(rows, strategy):
    """Seconds of the proofs of a strategy, ascending."""
    proven = ("optimal", "infeasible")
    return sorted(float(r["seconds"]) for r in rows if r["strategy"] == strategy and r["status"] in proven)


def widths(rows):
    """(lower, upper) per instance."""
    return {r["instance"]: (int(r["width_lower"]), int(r["width_upper"])) for r in rows}


def by_width(rows, strategy):
    """Per upper bound of the width: instances, proven, out of memory, out of time, most bytes wanted."""
    lines = []
    for w in sorted({upper for _, upper in widths(rows).values()}):
        part = [r for r in rows if r["strategy"] == strategy and int(r["width_upper"]) == w]
        ended = [r["status"] for r in part]
        wanted = max((int(r["wanted_bytes"] or r["peak_bytes"] or 0) for r in part), default=0)
        proven = sum(s in ("optimal", "infeasible") for s in ended)
        lines.append((w, len(part), proven, ended.count("out-of-memory"), ended.count("timeout"), wanted))
    return lines


def markdown(rows, chosen):
    names = list(dict.fromkeys(r["instance"] for r in rows))
    present = [s for s in chosen.strategies if any(r["strategy"] == s for r in rows)]
    at = {(r["instance"], r["strategy"]): r for r in rows}
    lines = [f"Limit {chosen.limit:g} s and {chosen.memory:g} GiB of tables per run. {machine()}.", ""]
    lines += ["| strategy | proven | median s | slowest s | out of memory | out of time |", "|---|--:|--:|--:|--:|--:|"]
    for strategy in present:
        times, own = solved(rows, strategy), [r for r in rows if r["strategy"] == strategy]
        ended = [r["status"] for r in own]
        numbers = [f"{statistics.median(times):.4f}", f"{times[-1]:.3f}"] if times else ["", ""]
        cells = [strategy, f"{len(times)} of {len(own)}", *numbers, ended.count("out-of-memory"), ended.count("timeout")]
        lines.append("| " + " | ".join(str(c) for c in cells) + " |")
    lines += ["", "`treewidth` by width (upper bound):", ""]
    lines += ["| width | instances | proven | out of memory | out of time | most wanted, MiB |", "|--:|--:|--:|--:|--:|--:|"]
    lines += [
        f"| {w} | {n} | {proven} | {memory} | {time} | {wanted / 2**20:.1f} |"
        for w, n, proven, memory, time, wanted in by_width(rows, "treewidth")
    ]
    lines += ["", "| instance | operators | width | " + " | ".join(present) + " |", "|---|--:|--:" + "|--:" * len(present) + "|"]
    for name in names:
        first = next(r for r in rows if r["instance"] == name)
        lower, upper = first["width_lower"], first["width_upper"]
        cells = [name, first["operators"], lower if lower == upper else f"{lower}–{upper}"]
        cells += [cell(at.get((name, strategy))) for strategy in present]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def cell(of):
    """Seconds of a proof or of a heuristic's plan; otherwise how the run ended."""
    if of is None:
        return ""
    if of["status"] in ("optimal", "infeasible", "feasible"):
        return seconds(float(of["seconds"]))
    if of["status"] == "timeout" and of["cost"]:
        gap = int(of["cost"]) - int(of["lower_bound"])
        return f"timeout, gap {100 * gap / max(1, int(of['lower_bound'])):.1f}%"
    return of["status"]


def figures(rows, chosen):
    names = list(dict.fromkeys(r["instance"] for r in rows))
    curves = {s: solved(rows, s) for s in EXACT if any(r["strategy"] == s for r in rows)}
    runtime = draw.runtime(curves, len(names), chosen.limit)
    counts = {}
    for lower, upper in widths(rows).values():
        exact, open_ = counts.get(upper, (0, 0))
        counts[upper] = (exact + (lower == upper), open_ + (lower != upper))
    note = f"{GRANULARITY}; {len(names)} graphs."
    return {"fig6a-treewidth.svg": draw.histogram(counts, note), "fig6b-solver-runtime.svg": runtime}


def main():
    chosen = options()
    chosen.output.mkdir(parents=True, exist_ok=True)
    path = chosen.output / "walls.csv"
    rows = []
    if (chosen.resume or chosen.table_only) and path.is_file():
        with open(path, newline="", encoding="utf-8") as text:
            rows = list(csv.DictReader(text))
    known = {(r["instance"], r["strategy"]) for r in rows}
    if not chosen.table_only:
        files = [p for p in suite.shared(chosen.instances) if not chosen.only or stem(p) in chosen.only]
        with open(path, "w", newline="", encoding="utf-8") as text:
            writer = csv.DictWriter(text, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)

            def write(new):
                rows.append(new)
                writer.writerow(new)
                text.flush()
                print("{instance:28} {strategy:10} {status:14} {seconds}".format(**new), flush=True)

            for file in files:
                measure(file, chosen, known, write)
    rows.sort(key=lambda r: (int(r["operators"]), r["instance"]))
    report = markdown(rows, chosen)
    (chosen.output / "walls.md").write_text(report, encoding="utf-8")
    for name, svg in figures(rows, chosen).items():
        (chosen.output / name).write_text(svg, encoding="utf-8")
    print(report)
    print(chosen.output)


if __name__ == "__main__":
    main()
