"""Starts solvers, each run in a process of its own, and takes their answers."""

import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent

# A solver without a limit of its own, or one that oversleeps it, is ended this much later.
GRACE = 2.0
# Building a model in Python takes its time, which nobody compares.
LOADING = 120.0


def peer(name, variant, path, seconds):
    """A peer's answer as a dictionary with `status`, `seconds`, `assignment`, `cost`; `error` says what went wrong."""
    command = [sys.executable, "-m", "solvers.worker", name, variant, str(path), str(seconds)]
    return _supervised(command, seconds)


def _supervised(command, seconds):
    environment = os.environ | {"PYTHONPATH": str(HERE), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    # Readers of their own, so that neither pipe fills up and waiting has a limit.
    lines, errors = queue.Queue(), []

    def read_answers():
        for line in process.stdout:
            # Solvers may talk too; only objects are ours.
            if line.startswith("{"):
                lines.put(line)
        lines.put(None)

    threads = [
        threading.Thread(target=read_answers, daemon=True),
        threading.Thread(target=lambda: errors.append(process.stderr.read()), daemon=True),
    ]
    for thread in threads:
        thread.start()
    timeout = {"status": "timeout", "seconds": None, "assignment": None, "cost": None}
    try:
        if lines.get(timeout=LOADING) is None:
            return timeout | {"status": "error", "error": _last_line(process, threads, errors)}
        answer = lines.get(timeout=seconds + GRACE)
        if answer is None:
            return timeout | {"status": "error", "error": _last_line(process, threads, errors)}
        answer = json.loads(answer)
        if answer["status"] != "timeout" and answer["seconds"] > seconds:
            return timeout  # solved, but not within the limit
        return answer
    except queue.Empty:
        return timeout
    finally:
        process.kill()
        process.wait()


def _last_line(process, threads, errors):
    code = process.wait()
    for thread in threads:
        thread.join(timeout=5)
    said = "".join(errors).strip().splitlines()
    return f"ended with code {code}" + (f": {said[-1]}" if said else "")


def ours(binary, path, strategy, seconds, memory=None):
    """Our answer, from the example `solve_json`; the same keys as a peer's and what else it prints."""
    command = [str(binary), str(path), strategy, "--seconds", str(seconds)]
    if memory is not None:
        command += ["--bytes", str(memory)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        said = finished.stderr.strip().splitlines()
        error = said[-1] if said else f"ended with code {finished.returncode}"
        return {"status": "error", "seconds": None, "assignment": None, "cost": None, "error": error}
    return json.loads(finished.stdout)
