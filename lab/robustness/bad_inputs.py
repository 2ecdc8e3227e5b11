"""Bad inputs for the whole public API and the command line, with the outcome of each.

    python lab/robustness/bad_inputs.py [--jobs 2] [--limit 10] [--only TEXT] [--json FILE]

The cases are in `bad_input_cases.py`. Outcomes:

    refused           one sentence: an exception that rasf raises itself (ValueError, TypeError), an error of the system
                      that names its file, or Python's own sentence on a wrong call of the user's function
    served            it worked, and was expected to or may
    internals         any other exception: of another type, of several lines, or raised within numpy, jax, numba, ..
    silently wrong    it worked where it must be refused, or was refused or answered wrongly where it must work
    too slow          not over after the limit (seconds, wall clock), also at a second try, when all is compiled

Cases run in a few processes, many in each, which start again only after a case that took too long. A process may hold 6
GB of data: what asks for more ends in MemoryError, which is of the internals. Exit code 1 if any case is in one of the
last three classes.
"""

from __future__ import annotations

import argparse
import ast
import json
import linecache
import multiprocessing
import os
import queue
import resource
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

GOOD, BAD = ("refused", "served"), ("internals", "silently wrong", "too slow")
_BYTES = 6 * 2**30
_LONGEST = 400  # characters of a sentence
_SETUP_S = 400  # seconds: the first process trains libraries, and compiles


class Outcome(NamedTuple):
    """What came of a case: its class, what was said, where it was raised, and the seconds it took."""

    kind: str
    said: str
    where: str
    seconds: float


# --- one case, in a process of its own


def outcome_of(call: Callable[[], object], must: str) -> Outcome:
    """Run a case and classify what happens.

    Args:
        call: the case; its result counts only where it must be served, and then False is a wrong answer.
        must: refuse, serve or either.
    """
    begin, error, answer = time.perf_counter(), None, None
    try:
        with open(os.devnull, "w") as nothing, redirect_stdout(nothing), redirect_stderr(nothing):
            answer = call()
    except BaseException as raised:
        error = raised
    seconds = time.perf_counter() - begin
    if error is None:
        wrong = must == "refuse" or (must == "serve" and answer is False)
        return Outcome("silently wrong" if wrong else "served", f"gave {type(answer).__name__}", "", seconds)
    said, where = f"{type(error).__name__}: {error}", _place(error)
    if not _is_sentence(error):
        return Outcome("internals", said, where, seconds)
    return Outcome("silently wrong" if must == "serve" else "refused", said, where, seconds)


def _is_sentence(error: BaseException) -> bool:
    """Whether an exception is a refusal in one sentence that rasf, Python's call or the system says."""
    said, frames = str(error).strip(), traceback.extract_tb(error.__traceback__)
    if isinstance(error, SystemExit):
        return error.code not in (0, None)
    names = {kind.__name__ for kind in type(error).__mro__}
    if "ClickException" in names:  # of the command line's options
        return True
    if isinstance(error, OSError) and error.filename is not None:
        return True
    if not said or "\n" in said or len(said) > _LONGEST:
        return False
    if not isinstance(error, ValueError | TypeError | FileNotFoundError):
        return False
    last = frames[-1]
    if isinstance(error, TypeError) and "() " in said and "argument" in said:  # Python's own, on a call
        return last.filename.endswith("bad_input_cases.py") or "rasf" not in said
    return _is_of_rasf(last.filename) and _raises(last.filename, last.lineno or 0)


def _is_of_rasf(filename: str) -> bool:
    import rasf

    sources = Path(rasf.__file__).parents[1]  # with the packages of the explorer and the laboratory
    return any(Path(filename).is_relative_to(package) for package in sources.glob("rasf*"))


@cache
def _raises(filename: str, line: int) -> bool:
    """Whether the innermost statement of a line is `raise`: numpy's own errors come from other statements."""
    tree = ast.parse("".join(linecache.getlines(filename)))
    around = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and node.lineno <= line <= node.end_lineno]
    return isinstance(min(around, key=lambda node: node.end_lineno - node.lineno), ast.Raise)


def _place(error: BaseException) -> str:
    """The last line of rasf that a traceback goes through, or the last of all."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _is_of_rasf(frame.filename)] or frames
    parts = Path(own[-1].filename).parts
    return f"{'/'.join(parts[parts.index('rasf') + 1 :] if 'rasf' in parts else parts[-1:])}:{own[-1].lineno}"


def _work(pipe: Connection, folder: str) -> None:
    """A process: makes the cases, then runs those whose numbers come."""
    import bad_input_cases

    warnings.simplefilter("ignore")
    warnings.simplefilter("error", RuntimeWarning)  # numpy's overflow and nan count as internals
    cases = bad_input_cases.make(Path(folder))
    resource.setrlimit(resource.RLIMIT_DATA, (_BYTES, _BYTES))
    pipe.send([case.name for case in cases])
    while True:
        number = pipe.recv()
        if number is None:
            return
        pipe.send(outcome_of(cases[number].call, cases[number].must))


# --- all cases, in a few processes


class Worker:
    """A process that runs cases one by one, and is replaced when one takes too long."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.names = self._start()

    def _start(self) -> list[str]:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, self._folder), daemon=True)
        self._process.start()
        theirs.close()
        if not self._pipe.poll(_SETUP_S):
            raise RuntimeError("a process could not make the cases in time")
        names: list[str] = self._pipe.recv()
        return names

    def run(self, number: int, limit: float) -> Outcome:
        """The outcome of a case; after a time-out, or a crash, of a second try in a new process."""
        last = Outcome("too slow", f"not over after {limit:g} s", "", limit)
        for _ in range(2):
            try:
                self._pipe.send(number)
                if self._pipe.poll(limit):
                    found: Outcome = self._pipe.recv()
                    return found
            except (EOFError, BrokenPipeError):
                last = Outcome("internals", "the process died", "", 0.0)
            self._process.kill()
            self._process.join()
            self._start()
        return last

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()


def run_all(jobs: int, limit: float, only: str) -> dict[str, Outcome]:
    """The outcome of each case whose name holds the text `only`, by name."""
    found: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory() as folder:
        first = Worker(folder)  # which makes the libraries that the others read
        names, numbers = first.names, queue.SimpleQueue[int]()
        for number, name in enumerate(names):
            if only in name:
                numbers.put(number)

        def work(worker: Worker | None) -> None:
            mine = worker or Worker(folder)
            try:
                while True:
                    number = numbers.get_nowait()
                    found[names[number]] = mine.run(number, limit)
            except queue.Empty:
                mine.close()

        threads = [threading.Thread(target=work, args=(first if i == 0 else None,)) for i in range(jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return {name: found[name] for name in names if name in found}


def main() -> None:
    """See the module's header."""
    parser = argparse.ArgumentParser(description="Bad inputs, and the outcome of each.")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=10.0, help="seconds for a case")
    parser.add_argument("--only", default="", help="cases whose names hold this text")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    found = run_all(asked.jobs, asked.limit, asked.only)
    counts: Counter[str] = Counter(outcome.kind for outcome in found.values())
    for kind in BAD:
        of_kind = {name: outcome for name, outcome in found.items() if outcome.kind == kind}
        if of_kind:
            print(f"\n{kind}:")
        for name, outcome in sorted(of_kind.items(), key=lambda item: (item[1].where, item[0])):
            print(f"  {name}\n      {outcome.where} {' '.join(outcome.said.split())[:200]}")
    slowest = max((outcome.seconds for outcome in found.values()), default=0.0)
    print(f"\n{len(found)} bad inputs, the slowest {slowest:.1f} s")
    for kind in (*GOOD, *BAD):
        print(f"  {kind:16}{counts[kind]:6}")
    if asked.json is not None:
        told: dict[str, Any] = {name: outcome._asdict() for name, outcome in found.items()}
        asked.json.write_text(json.dumps(told, indent=1))
    sys.exit(1 if any(counts[kind] for kind in BAD) else 0)


if __name__ == "__main__":
    main()
