"""`exact` against public solvers, instance by instance; see `scripts/bench_solvers --help`.

Every run is a process of its own and is timed without reading its input, in seconds of the processor. A solver that answers within a second runs `--repeat` times and its best time counts, ours likewise. An answer's assignment is priced from the definition; the price has to be the
optimum that `exact` proves.
"""

import argparse
import csv
import platform
import sys
from importlib.util import find_spec
from pathlib import Path

from . import run, suite, table, workbench
from .instance import load, price, stem
from .peers import NAMES, peer, present

COLUMNS = ["instance", "operators", "solver", "variant", "status", "seconds", "cost", "agrees", "note"]


# The best of a peer's option sets counts: one that takes this many times as long as another is stopped, as `slower`.
SLOWER = 1.5
# Seconds that reading the largest file takes a program, with room to spare.
READING = 5.0


def options():
    parser = argparse.ArgumentParser(prog="scripts/bench_solvers", description=__doc__)
    parser.add_argument("instances", nargs="?", default=workbench.ROOT / ".." / "shared" / "instances", type=Path)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these instances only")
    parser.add_argument("--peers", nargs="+", default=NAMES, choices=NAMES, metavar="PEER", help=", ".join(NAMES))
    parser.add_argument("--limit", type=float, default=10.0, metavar="SECONDS", help="per run (10), of the processor for peers")
    parser.add_argument("--repeat", type=int, default=3, help="runs of which the best counts (3)")
    parser.add_argument("--no-generated", action="store_true", help="the given folder only")
    parser.add_argument("--quick", action="store_true", help="small instances, toulbar2 and RC2, 5 s, one run each")
    parser.add_argument("--resume", action="store_true", help="keep the rows that the CSV has")
    parser.add_argument("--table-only", action="store_true", help="print the table of the CSV, run nothing")
    parser.add_argument("-o", "--output", type=Path, default=workbench.ROOT / "results" / "solvers")
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.peers, chosen.limit, chosen.repeat = ["toulbar2", "rc2"], min(chosen.limit, 5.0), 1
    return chosen


def files(chosen):
    """The instances to run."""
    found = suite.shared(chosen.instances)
    if chosen.quick:
        found = [p for p in found if len(load(p)["operators"]) <= suite.QUICK_OPERATORS]
    if not chosen.no_generated:
        names = suite.QUICK_GENERATED if chosen.quick else None
        if chosen.only:
            names = [n for n in names or suite.GENERATED if n in chosen.only]
        found += suite.generated(chosen.output / "generated", names)
    if chosen.only:
        known = {stem(p) for p in found}
        unknown = sorted(set(chosen.only) - known)
        if unknown:
            raise SystemExit(f"no such instance: {', '.join(unknown)}")
        found = [p for p in found if stem(p) in chosen.only]
    return found


def best_of(repeat, once):
    """The fastest of up to `repeat` runs; slow ones run once."""
    fastest = once()
    for _ in range(repeat - 1):
        if fastest["status"] not in ("optimal", "infeasible") or fastest["seconds"] > 1:
            break
        again = once()
        if again["status"] == fastest["status"] and again["seconds"] < fastest["seconds"]:
            fastest = again
    return fastest


def judged(instance, answer, optimum):
    """Whether the answer is ours: `yes`, `no`, or empty when there is nothing to compare."""
    if answer["status"] not in ("optimal", "infeasible") or optimum is None:
        return ""
    if answer["status"] == "infeasible":
        return "yes" if optimum == "infeasible" else "no"
    priced = price(instance, answer["assignment"])
    claimed = answer["cost"]
    same = priced == optimum and (claimed is None or claimed == priced)
    return "yes" if same else "no"


def row(instance, path, solver, variant, answer, optimum):
    return {
        "instance": stem(path),
        "operators": len(instance["operators"]),
        "solver": solver,
        "variant": variant,
        "status": answer["status"],
        "seconds": "" if answer["seconds"] is None else f"{answer['seconds']:.9f}",
        "cost": "" if answer["cost"] is None else answer["cost"],
        "agrees": judged(instance, answer, optimum),
        "note": answer.get("error", ""),
    }


def own(path, limit):
    """Our answer, in seconds of the processor as the peers' are."""
    answer = run.ours(workbench.example("solve_json"), path, table.OURS, limit)
    return answer | {"seconds": answer.get("cpu_seconds")}


def compare(path, chosen, known, write):
    """Runs everything on one instance that `known` does not have."""
    instance = load(path)
    (chosen.output / "encoded").mkdir(parents=True, exist_ok=True)
    ours = best_of(chosen.repeat, lambda: own(path, chosen.limit))
    optimum = {"optimal": ours["cost"], "infeasible": "infeasible"}.get(ours["status"])
    if (stem(path), table.OURS, "default") not in known:
        write(row(instance, path, table.OURS, "default", ours, optimum))
    for name in chosen.peers:
        solver, limit = peer(name), chosen.limit
        for variant in solver.VARIANTS:
            if (stem(path), name, variant) in known:
                continue
            file = workbench.encoded(path, solver.READS, chosen.output / "encoded")
            # What a program of its own reads is seen by the limit, though not by the seconds it reports.
            allowed = limit + (READING if variant.startswith("program-") else 0)
            answer = best_of(chosen.repeat, lambda: run.peer(name, variant, file, allowed))
            if answer["status"] == "timeout" and limit < chosen.limit:
                answer["status"] = "slower"
            if answer["status"] in ("optimal", "infeasible"):
                limit = min(limit, SLOWER * answer["seconds"] + 0.2)
            write(row(instance, path, name, variant, answer, optimum))


def machine():
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as text:
            names = [line.split(":", 1)[1].strip() for line in text if line.startswith("model name")]
        model = f"{names[0]}, {len(names)} cores" if names else model
    except OSError:
        pass
    return model


def main():
    chosen = options()
    chosen.output.mkdir(parents=True, exist_ok=True)
    path = chosen.output / "solvers.csv"
    rows = []
    if (chosen.resume or chosen.table_only) and path.is_file():
        with open(path, newline="", encoding="utf-8") as text:
            rows = list(csv.DictReader(text))
    known = {(r["instance"], r["solver"], r["variant"]) for r in rows}
    if not chosen.table_only:
        chosen.peers = present(chosen.peers)
        if not chosen.peers or not find_spec("zstandard"):
            print("bench: nothing to compare with; scripts/setup_solvers installs the peers")
            return
        with open(path, "w", newline="", encoding="utf-8") as text:
            writer = csv.DictWriter(text, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)

            def write(new):
                rows.append({key: str(value) for key, value in new.items()})
                writer.writerow(new)
                text.flush()
                print("{instance:28} {solver:9} {variant:12} {status:10} {seconds} {agrees} {note}".format(**new), flush=True)

            for file in files(chosen):
                compare(file, chosen, known, write)
    rows.sort(key=lambda r: (int(r["operators"]), r["instance"]))
    report = table.markdown(rows, chosen.limit, machine())
    (chosen.output / "solvers.md").write_text(report, encoding="utf-8")
    print(report)
    print(f"{path}")
    wrong = table.disagreements(rows)
    if wrong or any(r["status"] == "error" for r in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
