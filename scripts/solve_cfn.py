#!/usr/bin/env python3
"""Solves a .cfn with toulbar2's Python module (PyPI: pytoulbar2) and prints what the program toulbar2 would print with -s.

    scripts/solve_cfn.py FILE.cfn [SECONDS]

For machines that have the module but not the program, as a command of the strategy `external`.
"""

import sys


def main() -> int:
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    import pytoulbar2

    network = pytoulbar2.CFN(verbose=0)
    network.Read(sys.argv[1])
    seconds = int(sys.argv[2]) if len(sys.argv) == 3 else 0
    network.Solve(showSolutions=1, timeLimit=seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
