"""Results as a terminal table, Markdown and JSON, and the list of gaps by severity."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path

from optimizer import growth, native, verdicts
from optimizer.children import PROCESSES, SHORT_SECONDS
from optimizer.contest import HIT_LIMIT, LOOP_BEHIND, PLAN_LIMIT, Result, Timing
from optimizer.peers import LOOP
from suite.report import BEHIND, markdown_table, ms


@dataclass
class Report:
    machine: dict[str, str]
    timing: Timing
    scale: float
    rows: list[Result] = field(default_factory=list)
    seconds: float = 0.0


def _two(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def heading(threads: tuple[int, ...]) -> str:
    times = " ".join(f"{f'{t}t ms':>8}" for t in threads)
    return (f"{'case':<27} {times} {'peer ms':>8} {'best peer':<18} {'x peer':>6} {'loop ms':>8} "
            f"{'x loop':>6} {'naive':>8} {'plan ms':>7} {'hit us':>6}")


def line(row: Result, threads: tuple[int, ...]) -> str:
    """The row for the terminal."""
    best, plan = row.best_peer, row.planning
    times = " ".join(f"{ms(row.ours.get(t)):>8}" for t in threads)
    peer = f"{ms(best[1]):>8} {best[0]:<18}" if best else f"{'-':>8} {'':<18}"
    planned = f"{plan.first * 1e3:7.1f} {plan.hit * 1e6:6.0f}" if plan else f"{'-':>7} {'-':>6}"
    gap = "  <-- " + "; ".join(row.faults) if row.faults else ""
    return (f"{row.name:<27} {times} {peer} {_two(row.peer_ratio):>6} "
            f"{ms(row.peers.get(LOOP)):>8} {_two(row.loop_ratio):>6} "
            f"{_naive(row):>8} {planned}{gap}")


def _naive(row: Result) -> str:
    """SciPy's time for the same program; with ~ where it was estimated."""
    if "scipy naive" in row.estimated:
        return "~" + ms(row.estimated["scipy naive"])
    return ms(row.peers.get("scipy naive"))


def _speed(report: Report) -> str:
    threads = report.timing.threads
    head = ["case", "program", *(f"ours, {t} thread{'s' * (t > 1)}" for t in threads), "best peer",
            "its form", "ratio", "C loop", "ratio, 1 thread", "SciPy naive", "gain", "plan, ms",
            "hit, us"]
    rows = []
    for row in report.rows:
        best, plan = row.best_peer, row.planning
        cells = [f"**{row.name}**" if row.faults else row.name, f"`{row.program}`"]
        cells += [ms(row.ours.get(t)) for t in threads]
        cells += [ms(best[1]), best[0]] if best else ["-", "-"]
        cells += [_two(row.peer_ratio), ms(row.peers.get(LOOP)), _two(row.loop_ratio)]
        gain = row.naive_gain
        cells += [_naive(row), "-" if gain is None else f"{gain:.0f}x"]
        cells += [f"{plan.first * 1e3:.1f}", f"{plan.hit * 1e6:.0f}"] if plan else ["-", "-"]
        rows.append(cells)
    return markdown_table(head, rows)


def _others(report: Report) -> str:
    rows = []
    for row in report.rows:
        shown = [f"{n} {ms(t)}" for n, t in sorted(row.peers.items(), key=lambda kv: kv[1])]
        shown += [f"{n} > {ms(t)}" for n, t in row.over.items()]
        shown += [f"{n} ~ {ms(t)}" for n, t in row.estimated.items()]
        rows.append([row.name, "; ".join(shown) or "-", "; ".join(row.notes) or "-"])
    return markdown_table(["case", "ms", "not run"], rows)


def summary(report: Report) -> str:
    """The verdict in words."""
    behind = [r for r in report.rows if r.faults]
    held = sum(1 for r in report.rows if (x := r.peer_ratio) is not None and x <= BEHIND)
    near = [x for r in report.rows if (x := r.loop_ratio) is not None]
    return (f"{len(report.rows)} cases; within {BEHIND}x of the best peer in {held}; within "
            f"{LOOP_BEHIND}x of the hand-written loop in {sum(x <= LOOP_BEHIND for x in near)} of "
            f"{len(near)}; {len(behind)} with a fault.")


def gaps(report: Report) -> str:
    """Cases with a fault, worst first, each with its plan."""
    found = sorted((r for r in report.rows if r.faults), key=lambda r: -r.severity)
    parts = []
    for row in found:
        best = row.best_peer
        ours = ", ".join(f"{ms(s)} ms on {t}" for t, s in row.ours.items()) or "no answer"
        text = [f"### {row.name}: {'; '.join(row.faults)}", f"`{row.program}`", f"ours {ours}; " + (
            f"best peer {ms(best[1])} ms ({best[0]})" if best else "no peer")
            + f"; loop {ms(row.peers.get(LOOP))} ms"]
        if row.planning is not None:
            text.append(f"```\n{row.planning.logical}\n--\n{row.planning.physical}\n```")
        if row.trouble:
            text.append(f"```\n{row.trouble[-1500:]}\n```")
        parts.append("\n\n".join(text))
    return "\n\n".join(parts)


def markdown(report: Report) -> str:
    """The dated result file."""
    machine = "\n".join(f"- {label}: {text}" for label, text in report.machine.items())
    quick = "" if report.scale == 1 else f" Data scaled by {report.scale}: not for comparison."
    intro = (
        "Written by `python benchmarks/optimizer/run.py`. "
        f"{'Fastest calls' if report.timing.best else 'Medians'} in milliseconds"
        f"{' of processor time' if report.timing.cpu else ''}; ours is the "
        "naive program; all contestants interleaved in one process, every answer compared before "
        f"timing. Cases that take ours less than {SHORT_SECONDS * 1e3:.0f} ms, and planning near "
        f"its limit: medians over {PROCESSES} processes. "
        "Ratio: ours on the better number of threads / best peer. Peers run as they come "
        "(DuckDB and PyTorch on all cores, SciPy on one); the C loop is the best plan written by "
        f"hand, one thread, `{native.flags()}`, against ours on one thread. Gain: SciPy's time "
        "for the same naive program / ours. Plan: all passes, nothing compiled; hit: from the "
        f"built formula to its cached plan. In bold: slower than {BEHIND}x the best peer or "
        f"{LOOP_BEHIND}x the loop, wrong or refused, planned in over {PLAN_LIMIT * 1e3:.0f} ms or "
        f"found in over {HIT_LIMIT * 1e6:.0f} us.{quick}")
    data = (
        "The matrices and tensors have the dimensions, entries and character of STOREL's Table 2 "
        "and are generated with fixed seeds (`benchmarks/optimizer/data.py`). NELL has a tenth of "
        "its 76.9M entries; NIPS has the 3.1M of FROSTT and of the printed density.")
    return "\n\n".join([
        f"# Optimizer benchmarks, {date.today().isoformat()}", intro, data,
        "## Machine\n\n" + machine,
        "## What it must show\n\n" + verdicts.table(report.rows), *_trails(report),
        "## Speed\n\n" + summary(report) + "\n\n" + _speed(report),
        *_growth(report), "## All contestants\n\n" + _others(report),
        f"Whole run: {report.seconds / 60:.1f} minutes."]) + "\n"


def _stem(report: Report) -> str:
    return date.today().isoformat() + "-optimizer" + ("" if report.scale == 1 else "-quick")


def _growth(report: Report) -> list[str]:
    """Times at a constant number of entries and a growing shape."""
    lines = growth.families(report.rows)
    if not lines:
        return []
    sides = sorted({x for line in lines.values() for x, _ in line})
    rows = []
    for name, line in lines.items():
        times = dict(line)
        (first, least), (last, most) = line[0], line[-1]
        rows.append([name, *(ms(times[x] / 1e3) if x in times else "-" for x in sides),
                     f"{most / least:.1f}x the time for {(last / first) ** 2:,.0f}x the cells"])
    return [f"## Cost by shape, entries constant\n\n![growth]({_stem(report)}-growth.svg)\n\n"
            + markdown_table(["program", *(f"{int(x):,}" for x in sides), "growth"], rows)]


def _trails(report: Report) -> list[str]:
    """Rounds of iterative programs, with what is stored how."""
    found = [f"*{row.name}*: " + "; ".join(row.trail) + "." for row in report.rows if row.trail]
    return ["## Plans re-chosen\n\n" + "\n\n".join(found)] if found else []


def write(report: Report, folder: Path) -> Path:
    """Both files; the path of the Markdown one."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = _stem(report)
    lines = growth.families(report.rows)
    if lines:
        (folder / f"{stem}-growth.svg").write_text(growth.svg(lines))
    (folder / f"{stem}.json").write_text(json.dumps(asdict(report), indent=1) + "\n")
    path = folder / f"{stem}.md"
    path.write_text(markdown(report))
    return path
