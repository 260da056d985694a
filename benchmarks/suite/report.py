"""Results as a terminal table, Markdown and JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from suite.values import Row as Unseen

#: Slower than the best peer by more than this is marked.
BEHIND = 1.1
COLD_LIMIT, WARM_LIMIT, SMALL_LIMIT, IMPORT_LIMIT = 0.100, 0.020, 100e-6, 0.150
LEAN = 1.2


@dataclass
class Row:
    """One case. Times are medians in seconds; ``ours`` by number of threads."""

    name: str
    program: str
    ours: dict[int, float] = field(default_factory=dict)
    peers: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    rounds: dict[str, int] = field(default_factory=dict)
    first: dict[str, Any] = field(default_factory=dict)
    wrong: str = ""

    @property
    def best_peer(self) -> tuple[str, float] | None:
        return min(self.peers.items(), key=lambda kv: kv[1]) if self.peers else None

    def ratio(self, threads: int) -> float | None:
        best = self.best_peer
        if best is None or threads not in self.ours:
            return None
        return self.ours[threads] / best[1]

    @property
    def behind(self) -> bool:
        ratios = [r for t in self.ours if (r := self.ratio(t)) is not None]
        return bool(self.wrong) or not ratios or min(ratios) > BEHIND


@dataclass
class Report:
    machine: dict[str, str]
    threads: tuple[int, ...]
    scale: float
    rows: list[Row] = field(default_factory=list)
    small: dict[str, float] = field(default_factory=dict)
    values: list[Unseen] = field(default_factory=list)
    import_seconds: float | None = None
    seconds: float = 0.0


def ms(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    value = seconds * 1e3
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _mb(count: int) -> str:
    return f"{count / 1e6:.1f}"


def _ratio(row: Row, threads: int) -> str:
    value = row.ratio(threads)
    return "-" if value is None else f"{value:.2f}"


def line(row: Row, threads: tuple[int, ...]) -> str:
    """The row for the terminal."""
    best = row.best_peer
    times = " ".join(f"{ms(row.ours.get(t)):>8}" for t in threads)
    ratios = " ".join(f"{_ratio(row, t):>6}" for t in threads)
    peer = f"{ms(best[1]):>8} {best[0]:<24}" if best else f"{'-':>8} {'':<24}"
    mark = "  <-- behind" if row.behind else ""
    problem = f"  WRONG: {row.wrong}" if row.wrong else mark
    return f"{row.name:<26} {times}  {peer} {ratios}{problem}"


def heading(threads: tuple[int, ...]) -> str:
    times = " ".join(f"{f'{t}t ms':>8}" for t in threads)
    ratios = " ".join(f"{f'x {t}t':>6}" for t in threads)
    return f"{'case':<26} {times}  {'best ms':>8} {'best peer':<24} {ratios}"


def markdown_table(head: list[str], rows: list[list[str]]) -> str:
    def show(cells: list[str]) -> str:
        return "| " + " | ".join(cells) + " |"

    return "\n".join([show(head), show(["---"] * len(head)), *map(show, rows)])


def _speed(report: Report) -> str:
    threads = report.threads
    head = ["case", "program", *(f"ours, {t} thread{'s' * (t > 1)}" for t in threads)]
    head += ["best peer", "its form", *(f"ratio, {t}" for t in threads)]
    rows = []
    for row in report.rows:
        best = row.best_peer
        name = f"**{row.name}**" if row.behind else row.name
        cells = [name, f"`{row.program}`", *(ms(row.ours.get(t)) for t in threads)]
        cells += [ms(best[1]), best[0]] if best else ["-", "-"]
        rows.append([*cells, *(_ratio(row, t) for t in threads)])
    return markdown_table(head, rows)


def _peers(report: Report) -> str:
    rows = []
    for row in report.rows:
        shown = [f"{n} {ms(t)}" for n, t in sorted(row.peers.items(), key=lambda kv: kv[1])]
        rows.append([row.name, "; ".join(shown), "; ".join(row.notes) or "-"])
    return markdown_table(["case", "peers, ms", "notes"], rows)


def _first(report: Report) -> str:
    rows = []
    for row in report.rows:
        if "cold" not in row.first:
            rows.append([row.name, *["-"] * 6, row.first.get("error", "-")])
            continue
        cold, warm = row.first["cold"], row.first["warm"]
        memory = row.first["memory"]
        late = [t for t, bad in (("cold", cold > COLD_LIMIT), ("warm", warm > WARM_LIMIT)) if bad]
        verdict = [f"{t} start over the limit" for t in late]
        whole = memory["inputs"] + memory["output"]
        cells = [_mb(whole), _mb(memory["peak"]), _mb(memory["predicted"])]
        verdict += ["over inputs + output + 20%"] * (memory["peak"] > LEAN * whole)
        over = memory["predicted"] and memory["peak"] > memory["predicted"]
        verdict += ["over the prediction"] * bool(over)
        times = [ms(cold), ms(row.first["load"]), ms(warm)]
        rows.append([row.name, *times, *cells, "; ".join(verdict) or "ok"])
    head = ["case", "cold, ms", "and LLVM's load", "disk cache, ms", "inputs + output, MB",
            "peak, MB"]
    return markdown_table([*head, "predicted, MB", "verdict"], rows)


def _small(report: Report) -> str:
    rows = [[name, f"{seconds * 1e6:.1f}"] for name, seconds in report.small.items()]
    return markdown_table(["one call", "us"], rows)


def _values(report: Report) -> str:
    rows = [[r.name, *[f"{t * 1e6:,.1f}" for t in r[1:]]] for r in report.values]
    return markdown_table(
        ["us", "first value", "second", "later", "seen before", "NumPy or SciPy"], rows)


def summary(report: Report) -> str:
    """The verdict in words."""
    most = max(report.threads)
    ratios = [(r.name, x) for r in report.rows if (x := r.ratio(most)) is not None]
    single = [x for r in report.rows if (x := r.ratio(min(report.threads))) is not None]
    behind = [r.name for r in report.rows if r.behind]
    text = (
        f"{len(report.rows)} cases; at least as fast as the best peer in "
        f"{sum(x <= 1 for _, x in ratios)} on {most} threads and in "
        f"{sum(x <= 1 for x in single)} on one; behind by more than {BEHIND}x in {len(behind)}"
    )
    return text + (f": {', '.join(behind)}." if behind else ".")


def markdown(report: Report) -> str:
    """The dated result file."""
    machine = "\n".join(f"- {label}: {text}" for label, text in report.machine.items())
    quick = "" if report.scale == 1 else f" Data scaled by {report.scale}: not for comparison."
    parts = [
        f"# Benchmarks, {date.today().isoformat()}",
        "Written by `make bench`. Medians in milliseconds, all contestants interleaved in one "
        "process, results compared before timing. Ratio = ours / best peer; a case in bold is "
        f"slower than {BEHIND}x on every number of threads. Peers run as they come: SciPy's "
        f"sparse kernels on one thread, NumPy's BLAS on all cores.{quick}",
        "## Machine\n\n" + machine,
        "## Speed\n\n" + summary(report) + "\n\n" + _speed(report),
        "## All peers\n\n" + _peers(report),
    ]
    if any(row.first for row in report.rows):
        parts.append(
            "## First call and memory\n\nTime of the first call beyond later ones, in a new "
            "process, on data scaled by 0.02, medians of three: with an empty disk cache (limit "
            "100 ms), the same where LLVM is still being loaded (right after the tensors were "
            "made), and from the disk cache (limit 20 ms). Peak: inputs plus the growth of "
            "resident memory during one call at full size.\n\n" + _first(report)
        )
    if report.small:
        parts.append("## Small calls\n\n" + _small(report))
    if report.values:
        parts.append("## Numbers never seen\n\n" + _values(report))
    if report.import_seconds is not None:
        parts.append(
            f"## Import\n\n`import tensorel` adds {ms(report.import_seconds)} ms to NumPy's "
            "import (limit 150 ms)."
        )
    parts.append(f"Whole run: {report.seconds / 60:.1f} minutes.")
    return "\n\n".join(parts) + "\n"


def write(report: Report, folder: Path) -> Path:
    """Both files; the path of the Markdown one."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = date.today().isoformat() + ("" if report.scale == 1 else "-quick")
    (folder / f"{stem}.json").write_text(json.dumps(asdict(report), indent=1) + "\n")
    path = folder / f"{stem}.md"
    path.write_text(markdown(report))
    return path
