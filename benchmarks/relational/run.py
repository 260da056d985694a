"""Relational operators over matrices against SciPy, pandas, polars, DuckDB and hand-written forms.

    python benchmarks/relational/run.py [--scale 0.1] [--only NAME] [--out FILE.md]

Every result is compared with a rival's before it is timed. Times are those of the fastest of many
calls in one process: of the processor, all threads together (other work on the machine does not
count), or with --wall those of the clock, on two threads for all. A line is marked where a rival is
faster by more than a tenth. Another system takes part by a module with ``rivals(cases) -> {case:
{name: function}}``: --peer relational.systemds.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import resource
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent / "src")]

import tensorel as tr  # noqa: E402
from relational import cases  # noqa: E402
from relational.plot import Points, svg  # noqa: E402
from suite import machine  # noqa: E402
from tensorel.front.relations.relation_result import Relation  # noqa: E402

SECONDS, LOSS = 1.0, 1.1
clock = time.process_time


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="size of the data")
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--peer", action="append", default=[], metavar="MODULE")
    parser.add_argument("--wall", action="store_true", help="times of the clock")
    parser.add_argument("--out", type=Path, help="the report; default: print it")
    return parser.parse_args()


def computed(made: Any) -> Any:
    """What a call computes: a relation's columns, or a stored tensor."""
    return made.held() if isinstance(made, Relation) else made.compute()


def ours(build: Callable[[], Any]) -> Callable[[], Any]:
    """The program built and computed anew in each call, as a user's loop has it."""
    return lambda: computed(build())


def measured(run: Callable[[], Any]) -> tuple[float, float]:
    """Milliseconds of the first call, and of the fastest of further ones; of what has run in
    another process those that it says."""
    elsewhere = getattr(run, "milliseconds", None)
    if elsewhere is not None:
        return elsewhere, elsewhere
    start = clock()
    run()
    first = clock() - start
    times: list[float] = []
    end = time.perf_counter() + SECONDS
    while len(times) < 3 or (time.perf_counter() < end and len(times) < 50):
        start = clock()
        run()
        times.append(clock() - start)
    return 1e3 * first, 1e3 * min(times)


def summary(x: Any) -> tuple[float, float] | float:
    """A number that results of any library share: the sum of the values."""
    if isinstance(x, dict):
        return float(list(x.values())[-1].values.sum())
    if hasattr(x, "to_coo"):
        return float(np.sum(x.to_coo()[1]))
    if hasattr(x, "data") and hasattr(x, "nnz"):
        return float(x.sum())
    if hasattr(x, "column_names"):
        return float(np.sum(x[x.column_names[-1]].to_numpy()))
    if hasattr(x, "columns") and len(getattr(x, "columns", ())):
        name = "w" if "w" in x.columns else "v" if "v" in x.columns else list(x.columns)[-1]
        return float(np.sum(np.asarray(x[name])))
    return float(np.sum(np.asarray(x)))


def line(case: cases.Case) -> tuple[str, bool]:
    """A line of the report, and whether some rival is faster."""
    mine = summary(computed(case.ours()))
    wanted = summary(next(iter(case.rivals.values()))())
    assert np.isclose(mine, wanted, rtol=1e-6), (case.name, mine, wanted)
    first, own = measured(ours(case.ours))
    rivals = {name: measured(run)[1] for name, run in case.rivals.items()}
    if case.hand is not None:
        rivals = {"tensorel by hand": measured(ours(case.hand))[1], **rivals}
    best = min(rivals.values())
    lost = own > LOSS * best
    shown = ", ".join(f"{n} {t:.3g}" for n, t in rivals.items())
    mark = " **slower**" if lost else ""
    text = f"| {case.name} | {first:.3g} | {own:.3g} | {best / own:.2f}{mark} | {shown} |"
    print(text, flush=True)
    return text, lost


def growth(scale: float) -> tuple[list[str], dict[str, Points]]:
    """Time and memory of joins against the entries they read and make: lines, and points of the
    plot."""
    lines = ["", "## Growth", "", "Time and memory (peak of a process of its own, less what it has "
             "before) beside entries read and made.", "",
             "| join | entries read | entries made | ms | ns for each | MB | bytes for each |",
             "| --- | --- | --- | --- | --- | --- | --- |"]
    points: dict[str, Points] = {}
    for on in ("rid = rid", "rid = rid and cid = cid", "val = val",
               "rid between rid - 1 and rid + 1"):
        for k in range(4):
            given, made, taken, held = _alone(on, int(scale * 50_000 * 2**k))
            total = given + made
            lines.append(f"| {on} | {given:,.0f} | {made:,.0f} | {1e3 * taken:.3g} | "
                         f"{1e9 * taken / total:.3g} | {held / 1e6:.3g} | {held / total:.3g} |")
            points.setdefault(on, []).append((total, 1e3 * taken))
            print(lines[-1], flush=True)
    return lines, points


def _alone(on: str, count: int) -> tuple[float, float, float, float]:
    """One join in a child process: entries read and made, seconds, bytes."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        d = cases.Data(count // 5, count, seed=7, values=count // 5)
        run = ours(lambda: d.A.join(d.B, on, cases.product))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        made = run()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        taken = []
        for _ in range(5):
            start = clock()
            run()
            taken.append(clock() - start)
        held = max(1024 * (peak - before), made.nbytes)
        os.write(write, repr((d.A.nnz + d.B.nnz, made.nnz, min(taken), held)).encode())
        os._exit(0)
    os.close(write)
    text = b"".join(iter(lambda: os.read(read, 4096), b"")).decode()
    os.waitpid(child, 0)
    given, made, seconds, held = map(float, text.strip("()").split(","))
    return given, made, seconds, held


def all_cases(scale: float) -> list[cases.Case]:
    n = int(100_000 * scale)
    plain = cases.Data(n, 5 * n)
    keyed = cases.Data(n, 5 * n, seed=1, values=n)
    return [*cases.gram(plain), *cases.regression(plain), *cases.kronecker(400, 1600),
            *cases.overlays(plain), *cases.joins(keyed), *cases.filtered(2 * n), *cases.pnmf(plain)]


def main() -> int:
    options = arguments()
    global clock
    if options.wall:
        clock = time.perf_counter
    warnings.simplefilter("ignore")
    head = [
        "# Relational operators over matrices", "",
        f"{machine.describe()['CPU']}, two threads, Python {platform.python_version()}, load "
        f"{os.getloadavg()[0]:.1f} at the start. Milliseconds of the "
        f"{'clock' if options.wall else 'processor'}: "
        "the first call with planning and compiling, then the fastest of calls that build the "
        "program anew; how many times as long the best rival takes; all rivals.", "",
        "| case | first | ours | best/ours | rivals |", "| --- | --- | --- | --- | --- |"]
    lost = 0
    lines = []
    with tr.options(threads=2):
        made = all_cases(options.scale)
        for name in options.peer:
            more = importlib.import_module(name).rivals(made)
            for case in made:
                case.rivals |= more.get(case.name, {})
        for case in made:
            if options.only and not any(o in case.name for o in options.only):
                continue
            text, slower = line(case)
            lines.append(text)
            lost += slower
        tail, points = ([], {}) if options.only else growth(options.scale)
    report = [*head, *lines, "", f"{lost} of {len(lines)} cases are slower than the best rival by "
              "more than a tenth.", *tail, ""]
    if options.out:
        if points:
            plot = options.out.with_name(f"{options.out.stem}-growth.svg")
            plot.write_text(svg(points, "milliseconds by entries read and made"))
            report.append(f"![growth]({plot.name}) Dashed: in proportion.\n")
        options.out.write_text("\n".join(report))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
