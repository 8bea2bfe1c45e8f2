"""One peer on many instances, one after the other: `python -m solvers.batch PEER VARIANT SECONDS`, paths on standard input.

Prints one JSON line per path. For checking answers, not for timing: caches are warm after the first.
"""

import json
import sys
from dataclasses import asdict

from .peers import peer


def main():
    name, variant, seconds = sys.argv[1:]
    solver = peer(name)
    for line in sys.stdin:
        answer = solver.solve(solver.load(line.strip(), variant), float(seconds))
        print(json.dumps(asdict(answer)), flush=True)


if __name__ == "__main__":
    main()
