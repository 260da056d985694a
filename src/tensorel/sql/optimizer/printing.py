"""Plans as text."""

from __future__ import annotations

from tensorel.sql.algebra import (
    Aggregate,
    Domain,
    Filter,
    Join,
    Limit,
    Plan,
    Project,
    Scan,
    SetOperation,
    Sort,
    TensorProgram,
    Values,
    Window,
)
from tensorel.sql.optimizer.estimates import Estimates
from tensorel.sql.scalars import Scalar


def shown(plan: Plan, estimates: Estimates) -> str:
    """One line for each operator, inputs below, with the rows that are expected."""
    lines: list[str] = []
    seen: dict[int, int] = {}

    def go(p: Plan, depth: int) -> None:
        indent = "  " * depth
        if id(p) in seen:
            lines.append(f"{indent}as in line {seen[id(p)]}")
            return
        seen[id(p)] = len(lines) + 1
        lines.append(f"{indent}{_line(p)}  ~{estimates.rows(p):,.0f} rows")
        if isinstance(p, TensorProgram):
            lines.extend(f"{indent}  {_line(s)}" for s in p.scans)
        for i in p.inputs:
            go(i, depth + 1)

    go(plan, 0)
    return "\n".join(lines)


def _listed(expressions: tuple[Scalar, ...]) -> str:
    return " and ".join(map(str, expressions)) or "true"


def _line(plan: Plan) -> str:
    match plan:
        case Scan():
            return f"scan {plan.source} ({', '.join(str(c) for c in plan.columns)})"
        case Values():
            return f"values {len(plan.rows)}"
        case Filter():
            return f"filter {_listed(plan.tests)}"
        case Project():
            items = [str(e) if c == e else f"{c} := {e}" for c, e in plan.items]
            return f"project {', '.join(items)}"
        case Join():
            return f"{plan.kind} join on {_listed(plan.on)}"
        case Aggregate():
            keys = ", ".join(f"{c} := {e}" for c, e in plan.keys)
            calls = ", ".join(f"{c} := {a}" for c, a in plan.calls)
            return f"group by {keys or 'nothing'}: {calls}".rstrip(": ")
        case Domain():
            return "domain of " + ", ".join(str(e) for _, e in plan.items)
        case Window():
            return "windows " + ", ".join(f"{c} := {w}" for c, w in plan.calls)
        case Sort():
            return "sort by " + ", ".join(map(str, plan.keys))
        case Limit():
            return f"limit {plan.count} offset {plan.offset}"
        case SetOperation():
            return f"{plan.kind}{' all' if plan.all else ''}"
        case TensorProgram():
            keys = ", ".join(str(e) for _, e in plan.of.keys)
            calls = ", ".join(str(a) for _, a in plan.of.calls)
            tests = f" where {_listed(plan.tests)}" if plan.tests else ""
            return f"tensor program by ({keys}): {calls}{tests}"
    return type(plan).__name__.lower()
