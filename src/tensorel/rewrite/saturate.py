"""Running rules on an e-graph until nothing new appears or a limit is met.

Each round searches first and applies then, so the order of rules does not matter within a round.
Only classes that changed since the last round, and those near enough above to see it, are
searched again. A rule that finds more than its share in one round applies the rest in later
rounds, after the others had their turn (backoff).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from tensorel.algebra.ops import Operator
from tensorel.base.records import dataclass, field
from tensorel.ir.nodes import Expr
from tensorel.rewrite.egraph import EGraph
from tensorel.rewrite.ematch import Bound, Kids, Matcher, features, matcher
from tensorel.rewrite.engine import Given, Lit, Match, Op, Rule
from tensorel.rewrite.facts import Handle


@dataclass(frozen=True, slots=True)
class Limits:
    """When to stop. ``share``: matches of one rule in one round; ``backlog``: those that wait.
    None counts seconds, so plans are the same everywhere."""

    nodes: int = 400
    rounds: int = 12
    share: int = 400
    backlog: int = 4000


@dataclass
class Report:
    """What happened: uses by rule that taught something new, and why it ended."""

    fired: dict[str, int] = field(default_factory=dict)
    rounds: int = 0
    nodes: int = 0
    stopped: str = "saturated"


class _Graph(Given):
    """What rules may ask, on classes."""

    def __init__(self, graph: EGraph) -> None:
        super().__init__(graph.facts)
        self.graph = graph

    def expand(self, e: Expr) -> Expr:
        return self.graph.expand(e)

    def has(self, fact: str, e: Expr) -> bool:
        return fact in (e.facts if isinstance(e, Handle) else self.facts.of(e))


Found = tuple[Matcher, int, tuple[object, ...]]


class Saturation:
    """Rules at work on one graph; ``run`` may be called again after more was added."""

    def __init__(self, graph: EGraph, rules: Iterable[Rule], *, limits: Limits | None = None
                 ) -> None:
        self.graph = graph
        self.matchers = [matcher(r) for r in rules if not _evaluates(r)]
        self.depth = max((m.depth for m in self.matchers), default=1)
        self.limits = limits or Limits()
        self.report = Report()
        self.given = _Graph(graph)
        self.seen: set[Found] = set()
        self.waiting: deque[Found] = deque()
        self._for_call: dict[Operator, list[Matcher]] = {}
        self._for_reduce: dict[Operator, list[Matcher]] = {}

    def run(self) -> Report:
        graph, limits, report = self.graph, self.limits, self.report
        report.stopped = "saturated"
        for _ in range(limits.rounds):
            graph.rebuild()
            if not (graph.changed or graph.learned or self.waiting):
                break
            report.rounds += 1
            report.stopped = self._round()
            if report.stopped != "saturated":
                break
        else:
            report.stopped = "rounds"
        graph.rebuild()
        report.nodes = graph.size
        return report

    # -- searching ---------------------------------------------------------------------------
    def _near(self) -> dict[int, int]:
        """Classes to search, with the distance to what changed below them. Guards look one
        level deeper than patterns, so a class of which more is known counts as nearer."""
        graph = self.graph
        level = {graph.find(c): 0 for c in graph.changed}
        level.update({graph.find(c): -1 for c in graph.learned})
        for distance in range(-1, self.depth - 1):
            edge = [c for c, at in level.items() if at == distance]
            above = {graph.find(p): None for c in edge for _, _, p in graph.classes[c].parents}
            level.update(dict.fromkeys(
                [c for c in above if level.get(c, self.depth) > distance + 1], distance + 1))
        return level

    def _matchers(self, op: Operator, reduction: bool) -> list[Matcher]:
        kept = self._for_reduce if reduction else self._for_call
        found = kept.get(op)
        if found is None:
            found = kept[op] = [m for m in self.matchers if m.accepts(op, reduction)]
        return found

    def _search(self) -> list[Found]:
        """Matches that were not seen before, at nodes that are new or stand over classes that
        changed, as near as the rule looks; what is over a rule's share goes to ``waiting``."""
        graph = self.graph
        level = self._near()
        out: list[Found] = []
        counts: dict[Matcher, int] = {}
        found: list[tuple[object, ...]] = []
        seen, share = self.seen, self.limits.share
        classes, fresh, far = graph.classes, graph.fresh, self.depth
        for c in sorted(level):
            groups: list[tuple[Operator | Bound, dict[Kids, None]]] = [
                *classes[c].calls.items(), *classes[c].reduces.items()]
            for head, nodes in groups:
                op, axes = (head, ()) if isinstance(head, Operator) else head
                matchers = self._matchers(op, op is not head)
                for kids in nodes if matchers else ():
                    distance = 0 if (head, kids) in fresh else 1 + min(
                        [level.get(k, far) for k in kids])
                    below = features(kids, classes)
                    for m in matchers:
                        if distance >= m.depth or not m.required <= below:
                            continue
                        m.search(op, axes, kids, classes, found)
                        for values in found:
                            key = (m, c, values)
                            if key not in seen:
                                seen.add(key)
                                counts[m] = n = counts.get(m, 0) + 1
                                (out if n <= share else self.waiting).append(key)
                        found.clear()
        graph.changed, graph.learned = {}, {}
        graph.fresh = set()
        return out

    # -- applying ----------------------------------------------------------------------------
    def _round(self) -> str:
        late = [self.waiting.popleft() for _ in range(min(len(self.waiting), self.limits.share))]
        for found in (*self._search(), *late):
            if len(self.waiting) > self.limits.backlog:
                return "backlog"
            self._apply(found)
            if self.graph.size > self.limits.nodes:
                self.graph.rebuild()  # equal nodes count once
                if self.graph.size > self.limits.nodes:
                    return "nodes"
        return "saturated"

    def _apply(self, found: Found) -> None:
        m, c, values = found
        graph, rule = self.graph, m.rule
        root = graph.classes[graph.find(c)]
        if graph.strict and rule.reassociates and root.dtype.kind in "fc":
            return
        match: Match = {"given": self.given, "dtype": root.dtype}
        handle = graph.handle
        for name, value in zip(m.names, values):
            match[name] = handle(value) if type(value) is int else value
        if not rule.when(match):
            self.seen.discard(found)  # it may hold when more is known
            return
        new = rule.build(match)
        if new is None or new.dtype != root.dtype:
            return
        other = graph.add_small(new)
        if other != graph.find(c):
            graph.union(c, other)
            self.report.fired[rule.name] = self.report.fired.get(rule.name, 0) + 1


def _evaluates(rule: Rule) -> bool:
    """Rules on literals alone: the graph folds these by itself."""
    return isinstance(rule.pattern, Op) and all(isinstance(a, Lit) for a in rule.pattern.args)


def saturate(graph: EGraph, rules: Iterable[Rule], *, limits: Limits | None = None) -> Report:
    """Apply ``rules`` to all of ``graph``; a strict graph leaves out what reassociates floats.

    >>> saturate(EGraph(), ()).stopped
    'saturated'
    """
    return Saturation(graph, rules, limits=limits).run()


__all__ = ["Limits", "Report", "Saturation", "saturate"]
