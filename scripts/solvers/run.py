"""Starts solvers, each run in a process of its own, and takes their answers.

A peer's limit is one of processor time, so that a busy machine takes nothing from it; where the system does not tell, and for
`exact`, it is one of the clock.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from . import processor

HERE = Path(__file__).resolve().parent.parent

# By the clock, a run may take this many times its limit of processor time.
PATIENCE = 8.0
# How often the limit is looked at.
LOOK = 0.1
# Building a model in Python takes its time, which nobody compares.
LOADING = 120.0


def peer(name, variant, path, seconds):
    """A peer's answer as a dictionary with `status`, `seconds`, `assignment`, `cost`; `error` says what went wrong."""
    # Limits of their own, of which some go by the clock, are a last resort.
    command = [sys.executable, "-m", "solvers.worker", name, variant, str(path), str(PATIENCE * seconds)]
    return _supervised(command, seconds)


def _supervised(command, seconds):
    environment = os.environ | {"PYTHONPATH": str(HERE), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
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
        answer = _within(lines, process.pid, seconds)
        if answer is None:
            return timeout | {"status": "error", "error": _last_line(process, threads, errors)}
        answer = json.loads(answer)
        if answer["status"] != "timeout" and answer["seconds"] > seconds:
            return timeout  # solved, but not within the limit
        return answer
    except queue.Empty:
        return timeout
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _within(lines, session, seconds):
    """The next line, if it comes within `seconds` of processor time; else `queue.Empty`."""
    before, start = processor.seconds(session), time.monotonic()
    while True:
        try:
            return lines.get(timeout=LOOK)
        except queue.Empty:
            now, passed = processor.seconds(session), time.monotonic() - start
            used = passed if now is None or before is None else now - before
            # A tick of slack: an answer on its way may have been in time.
            if used > seconds + LOOK or passed > PATIENCE * seconds:
                raise


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
