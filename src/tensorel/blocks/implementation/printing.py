"""Plans as text: an operator a line, operands indented below it."""

from __future__ import annotations

from tensorel.blocks.implementation.cost import RATES, Costing, Rates
from tensorel.blocks.implementation.functions import KEEP
from tensorel.blocks.implementation.nodes import (
    Broadcast,
    Input,
    LocalAggregate,
    LocalFilter,
    LocalJoin,
    LocalMap,
    Node,
    Shuffle,
)

_UNITS = ("B", "kB", "MB", "GB", "TB")


def show(plan: Node, sites: int, rates: Rates = RATES) -> str:
    """The plan, with keys, blocks and place of each result, and what each operator sends."""
    costing, rows = Costing(sites), []
    stack, seen = [(plan, 0)], set[Node]()
    while stack:
        node, depth = stack.pop()
        row = ["  " * depth + _label(node), *_facts(node, costing)]
        if node in seen and node.children:
            row = [row[0], "as above", "", ""]
        else:
            stack += [(c, depth + 1) for c in reversed(node.children)]
        seen.add(node)
        rows.append(row)
    widths = [max(len(r[n]) for r in rows) for n in range(4)]
    lines = ["  ".join(t.ljust(w) for t, w in zip(r, widths)).rstrip() for r in rows]
    cost = costing.of(plan)
    total = (f"{sites} sites: {_amount(cost.bytes)} moved in {cost.exchanges} exchanges, "
             f"{cost.flops:.3g} flops, {cost.seconds(rates):.3g} s")
    return "\n".join([*lines, total])


def _facts(node: Node, costing: Costing) -> tuple[str, str, str]:
    of = node.relation
    keys = "x".join(map(str, of.extents)) or "1"
    place = "at all sites" if of.partition is None else str(of.partition)
    cost = costing.operator(node)
    moves = f"sends {_amount(cost.bytes)}" if isinstance(node, (Shuffle, Broadcast)) else ""
    return f"{keys} of {'x'.join(map(str, of.block)) or '1'}", place, moves


def _label(node: Node) -> str:
    match node:
        case Input(name):
            return name
        case Broadcast():
            return "broadcast"
        case Shuffle():
            return "shuffle"
        case LocalJoin(_, _, left, right, kernel, where):
            return f"join {kernel} {list(left)} = {list(right)}" + (f" if {where}" if where else "")
        case LocalAggregate(_, group, kernel, finish):
            kind = "partial " if node.relation.partial else ""
            end = "" if finish is KEEP else f", then {finish}"
            return f"{kind}aggregate {kernel} by {list(group)}{end}"
        case LocalFilter(_, where):
            return f"filter {where}"
        case LocalMap(_, keys, kernel):
            return f"map {keys}" + ("" if kernel is KEEP else f" {kernel}")
    raise AssertionError(node)


def _amount(number: float) -> str:
    for unit in _UNITS[:-1]:
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} {_UNITS[-1]}"
