"""What a plan says of itself: text at three levels, a dictionary, an HTML page."""

from __future__ import annotations

import html
import math

from tensorel.base.records import dataclass, field
from tensorel.plan.decisions import RunnerUp
from tensorel.plan.physical import Plan, Step
from tensorel.plan.pipeline import logical_text
from tensorel.storage.limits import show_bytes

LEVELS = ("logical", "physical", "code")


@dataclass(frozen=True, slots=True)
class Actual:
    """What a step really did; ``making`` is the time to compile or load its kernel."""

    seconds: float
    making: float
    count: int
    bytes_: int


@dataclass
class Explanation:
    """A plan, printable. ``to_dict`` gives the steps with estimates and, if analyzed, actuals."""

    plan: Plan
    level: str
    inputs: dict[str, str]
    input_bytes: int
    actual: list[Actual] = field(default_factory=list)
    code: dict[str, str] = field(default_factory=dict)
    passes: tuple[tuple[str, float], ...] = ()  # seconds of planning
    runner_up: RunnerUp | None = None

    @property
    def rules(self) -> dict[str, int]:
        """Names and counts of the rules that fired."""
        return dict(self.plan.rules)

    @property
    def alternatives(self) -> list[str]:
        """For each kernel step the next best loops, and by how much they lost."""
        decided = () if self.runner_up is None else self.runner_up.decisions
        return [f"{d.subject}: {d.texts[1]}, estimated {d.costs[1] / max(d.costs[0], 1e-9):.2f} "
                f"times the cost" for d in decided if d.kind == "loops" and len(d.texts) > 1]

    @property
    def predicted_bytes(self) -> int:
        """A guaranteed upper bound on the bytes held at the worst moment, inputs included."""
        return int(self.plan.peak_bound(self.input_bytes))

    def to_dict(self) -> dict[str, object]:
        steps = [self._step(k, s) for k, s in enumerate(self.plan.steps)]
        return {
            "inputs": dict(self.inputs), "steps": steps, "rules": self.rules,
            "passes": dict(self.passes), "predicted_bytes": self.predicted_bytes,
            "cost": self.plan.cost,
            "runner_up": None if self.runner_up is None else {
                "cost": self.runner_up.other, "why": self.runner_up.text},
        }

    def _step(self, k: int, s: Step) -> dict[str, object]:
        found: dict[str, object] = {
            "name": s.target.name, "kind": s.kind, "text": s.text, "shape": s.shape,
            "dtype": s.dtype.name, "format": s.target.format.name, "fill": s.fill.value.item(),
            "estimated_nnz": int(min(s.count, 2**62)), "estimated_bytes": int(min(s.bytes_, 2**62)),
            "bound_bytes": int(min(s.bound, 2**62)), "cost": s.cost, "detail": s.detail,
        }
        if k < len(self.actual):
            a = self.actual[k]
            found |= {"actual_nnz": a.count, "actual_bytes": a.bytes_, "seconds": a.seconds,
                      "making_seconds": a.making}
        return found

    def __str__(self) -> str:
        if self.level == "logical":
            return logical_text(self.plan)
        lines = [f"inputs: {', '.join(f'{n} = {t}' for n, t in self.inputs.items()) or 'none'}"]
        for k, s in enumerate(self.plan.steps):
            lines += self._lines(k, s)
        lines.append(f"peak memory: at most {show_bytes(self.predicted_bytes)}, inputs included")
        lines.append(f"cost: about {show_time(self.plan.cost)} on one thread")
        if self.runner_up is not None:
            lines.append(f"runner-up: about {show_time(self.runner_up.other)}; "
                         f"{self.runner_up.text}")
        if self.plan.rules:
            fired = "; ".join(f"{n} ({c}x)" for n, c in self.plan.rules)
            lines.append(f"rules: {fired}")
        if self.actual:
            spent = "; ".join(f"{n} {1e3 * t:.2f} ms" for n, t in self.passes)
            lines.append(f"planning: {spent}")
        return "\n".join(lines)

    def _lines(self, k: int, s: Step) -> list[str]:
        lines = [f"{k + 1}. {s}"]
        if k < len(self.actual):
            a = self.actual[k]
            lines.append(f"   actual: {a.count:,} entries{_off(s.count, a.count)}, "
                         f"{show_bytes(a.bytes_)}, {1e3 * a.seconds:.3f} ms against about "
                         f"{show_time(s.cost)}" + _made(a.making))
        if self.level == "code" and s.target.name in self.code:
            lines += ["   " + line for line in self.code[s.target.name].splitlines()]
        return lines

    __repr__ = __str__

    def html(self) -> str:
        """A page with a table of the steps."""
        rows = []
        for k, s in enumerate(self.plan.steps):
            d = self._step(k, s)
            cells = [k + 1, d["text"], d["kind"], d["format"], d["shape"], d["estimated_nnz"],
                     d.get("actual_nnz", ""), d["estimated_bytes"], d.get("actual_bytes", ""),
                     f"{1e3 * float(str(d['seconds'])):.3f}" if "seconds" in d else "",
                     "; ".join(s.detail)]
            texts = "".join(f"<td>{html.escape(str(c))}</td>" for c in cells)
            rows.append(f"<tr>{texts}</tr>")
        heads = ("#", "step", "kind", "format", "shape", "estimated entries", "actual entries",
                 "estimated bytes", "actual bytes", "ms", "how")
        head = "".join(f"<th>{h}</th>" for h in heads)
        return (
            "<!doctype html><meta charset='utf-8'><title>Tensorel plan</title><style>"
            "body{font:14px system-ui;margin:2em}table{border-collapse:collapse}"
            "td,th{border:1px solid #ccc;padding:.3em .6em;text-align:left;vertical-align:top}"
            "td:nth-child(2){font-family:monospace}</style>"
            f"<h1>Plan</h1><p>Peak memory: at most {show_bytes(self.predicted_bytes)}</p>"
            f"<table><tr>{head}</tr>{''.join(rows)}</table>"
            f"<pre>{html.escape(logical_text(self.plan))}</pre>"
        )

    _repr_html_ = html


def show_time(cost: float) -> str:
    """A cost as time, two digits: one unit is about a nanosecond.

    >>> show_time(1234.0), show_time(5.6e6), show_time(9e10)
    ('0.0012 ms', '5.6 ms', '90,000 ms')
    """
    if not math.isfinite(cost):
        return "forever"
    ms = cost / 1e6
    digits = 1 - math.floor(math.log10(ms)) if ms > 0 else 0
    return f"{round(ms, digits):,.{max(digits, 0)}f} ms"


def _made(seconds: float) -> str:
    return f"; kernel made in {1e3 * seconds:.1f} ms" if seconds >= 5e-5 else ""


def _off(estimated: float, actual: int) -> str:
    """By how much an estimate was off, where it was."""
    ratio = max(estimated, 1.0) / max(actual, 1)
    return "" if 0.99 < ratio < 1.01 else f" ({ratio:.2f} times as many estimated)"
