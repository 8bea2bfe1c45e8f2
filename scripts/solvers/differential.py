"""`exact` on medium random instances against toulbar2 and RC2; see `scripts/differential_solvers --help`.

Everyone's optimum has to be everyone else's, and every assignment is priced from the definition. Differences are written down with
the instance, which stays in the output folder.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from . import workbench
from .instance import load, price
from .peers import peer, present
from .run import HERE

# One option set each: answers are compared, not times.
PEERS = {"toulbar2": "plain", "rc2": "plain"}
BATCH = 100


def options():
    parser = argparse.ArgumentParser(prog="scripts/differential_solvers", description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=2000, help="instances (2000)")
    parser.add_argument("--first", type=int, default=0, help="first seed (0)")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds per answer of a peer (20)")
    parser.add_argument("-o", "--output", type=Path, default=workbench.ROOT / "results" / "differential")
    return parser.parse_args()


def environment():
    return os.environ | {"PYTHONPATH": str(HERE)}


def answers(name, paths, limit):
    """A peer's answers on many files, in one process; a missing line is an error."""
    command = [sys.executable, "-m", "solvers.batch", name, PEERS[name], str(limit)]
    finished = subprocess.run(
        command,
        input="".join(f"{p}\n" for p in paths),
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    lines = [json.loads(line) for line in finished.stdout.splitlines() if line.startswith("{")]
    said = finished.stderr.strip().splitlines()[-1:]
    missing = {"status": "error", "error": " ".join(said), "assignment": None, "cost": None}
    return lines + [missing] * (len(paths) - len(lines))


def verdict(instance, answer):
    """The optimum that an answer proves, by our price of its assignment; a text when something is wrong with it."""
    if answer["status"] == "infeasible":
        return "infeasible"
    if answer["status"] != "optimal":
        return f"no answer ({answer['status']}{': ' + answer['error'] if answer.get('error') else ''})"
    priced = price(instance, answer["assignment"])
    if priced is None:
        return "an impossible conversion"
    if answer["cost"] is not None and answer["cost"] != priced:
        return f"claims {answer['cost']}, costs {priced}"
    return priced


def batch(first, count, names, folder, limit):
    """Compares `count` instances; (instances that agree, infeasible ones, peers' answers that did not come, differences).

    A peer that runs into its limit has no say on that instance.
    """
    made = subprocess.run(
        [workbench.example("differential"), str(first), str(count), folder],
        capture_output=True,
        text=True,
        check=True,
    )
    ours = [json.loads(line) for line in made.stdout.splitlines()]
    said = {"exact": ours}
    for name in names:
        paths = [folder / f"{o['name']}.{peer(name).READS}" for o in ours]
        said[name] = answers(name, paths, limit)
    equal, infeasible, late, different = 0, 0, 0, []
    for i, own in enumerate(ours):
        instance = load(folder / f"{own['name']}.json")
        in_time = {name: of[i] for name, of in said.items() if name == "exact" or of[i]["status"] != "timeout"}
        late += len(said) - len(in_time)
        verdicts = {name: verdict(instance, answer) for name, answer in in_time.items()}
        distinct = set(verdicts.values())
        if len(in_time) == 1 < len(said):
            continue
        if len(distinct) == 1 and (verdicts["exact"] == "infeasible" or isinstance(verdicts["exact"], int)):
            equal += 1
            infeasible += verdicts["exact"] == "infeasible"
        else:
            different.append((own["name"], verdicts))
    return equal, infeasible, late, different


def main():
    chosen = options()
    names = present(PEERS)
    if not names:
        print("differential: nothing to compare with")
        return
    equal, infeasible, late, different, total = 0, 0, 0, [], 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for first in range(chosen.first, chosen.first + chosen.count, BATCH):
            count = min(BATCH, chosen.first + chosen.count - first)
            found = batch(first, count, names, folder, chosen.limit)
            equal, infeasible, late, total = equal + found[0], infeasible + found[1], late + found[2], total + count
            for name, verdicts in found[3]:
                chosen.output.mkdir(parents=True, exist_ok=True)
                shutil.copy(folder / f"{name}.json", chosen.output)
                print(f"{name}: " + ", ".join(f"{who} {what}" for who, what in verdicts.items()), flush=True)
            different += found[3]
            for file in folder.iterdir():
                file.unlink()
    titles = ", ".join(f"{peer(name).TITLE} {peer(name).version()}" for name in names)
    print(
        f"exact = {titles} on {equal} of {total} medium instances, {infeasible} of them infeasible; "
        f"{late} answers of a peer did not come within {chosen.limit:g} s"
    )
    if different:
        print(f"the {len(different)} instances that differ are in {chosen.output}")
        sys.exit(1)


if __name__ == "__main__":
    main()
