"""One peer on one instance, in a process of its own: `python -m solvers.worker PEER VARIANT FILE SECONDS`.

Prints two JSON lines: that the model is read, then the answer with its solving seconds. Those are of the processor, not of the clock:
every peer runs on one thread, and a busy machine must not make it look slow. Whoever started it ends it when the solver does not
stop by itself.
"""

import json
import sys
import time
from dataclasses import asdict

from .peers import peer


def main():
    name, variant, path, seconds = sys.argv[1:]
    solver = peer(name)
    model = solver.load(path, variant)
    print(json.dumps({"ready": True}), flush=True)
    start = time.process_time()
    answer = solver.solve(model, float(seconds))
    if answer.seconds is None:
        answer.seconds = time.process_time() - start
    print(json.dumps(asdict(answer)), flush=True)


if __name__ == "__main__":
    main()
