"""Actual sizes of what was computed before, for definitions that come up again.

A definition is known by its formula, up to the names of indices, over the stored tensors below it
by identity; so the same product is recognized inside another program. Sizes change estimates
alone: bounds and results do not depend on them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial

from tensorel.algebra.ops import Operator
from tensorel.base.records import dataclass
from tensorel.ir.nodes import Axis, Expr, Index, Lambda, Reduce, Source, postorder
from tensorel.ir.replacing import substitute
from tensorel.plan.definitions import Definition, Program, Ref, Stats, product, reading
from tensorel.rewrite.names import rename_bound
from tensorel.stats import feedback
from tensorel.stats.collected.facts import TensorStats
from tensorel.stats.estimates.pointset import Relation


@dataclass(frozen=True, slots=True)
class Same:
    """In place of a stored tensor or a definition: which one it is."""

    key: Hashable


class Keys:
    """Of the stored tensors and definitions of one program. Most are never asked for, so they
    are worked out late."""

    def __init__(self, tokens: Mapping[object, Hashable]) -> None:
        self.keys: dict[object, Hashable | None] = dict(tokens)
        self.formulas: dict[Ref, Callable[[], Lambda]] = {}
        self.written: dict[Lambda, Callable[[], Lambda]] = {}
        self.tokens = tuple(tokens.values())

    def copy(self) -> Keys:
        other = copy.copy(self)
        other.keys, other.formulas = dict(self.keys), dict(self.formulas)
        other.written = dict(self.written)
        return other

    @property
    def help(self) -> bool:
        """Something was computed from these tensors and misjudged."""
        return any(map(feedback.has_met, self.tokens))

    def add(self, definitions: Sequence[Definition]) -> None:
        """Definitions as they will be computed; one that stands for a formula as it was
        ``written`` before it was taken apart goes by that."""
        for d in definitions:
            if isinstance(d.tensor, Lambda):
                self.formulas[d.ref] = self.written.get(d.tensor) or partial(_itself, d.tensor)

    def of(self, data: object) -> Hashable | None:
        """The key of a slot or of a definition; None where its contents have no name."""
        if data not in self.keys and isinstance(data, Ref):
            formula = self.formulas.get(data)
            self.keys[data] = None if formula is None else self.key(formula())
        return self.keys.get(data)

    def key(self, lam: Lambda) -> Hashable | None:
        instead: dict[object, Source] = {}
        for e in postorder(lam.body):
            if isinstance(e, Source) and e.data not in instead:
                key = self.of(e.data)
                if key is None:
                    return None
                instead[e.data] = Source(Same(key), e.shape, e.dtype, e.fill)
        same = reading(lam, instead)
        assert isinstance(same, Lambda)
        places: dict[str, Expr] = {a.name: Index(f"\0axis{k}") for k, a in enumerate(lam.axes)}
        return rename_bound(substitute(same.body, places)), tuple(a.extent for a in lam.axes)

    def size(self, lam: Lambda) -> float | None:
        """How many entries the formula had when it was computed."""
        key = self.key(lam)
        return None if key is None else feedback.recall(key)

    def learn(self, name: str, count: int) -> None:
        """What a definition turned out to be."""
        key = self.of(Ref(name))
        if key is not None:
            feedback.remember(key, float(count), self.tokens)


def _itself(lam: Lambda) -> Lambda:
    return lam


def contraction(op: Operator, times: Operator, factors: Sequence[Expr], kept: Sequence[str],
                extents: Mapping[str, int]) -> Lambda:
    """A product of factors reduced to the indices ``kept``, written one way whatever steps make
    it."""
    names = dict.fromkeys(n for f in factors for n in sorted(f.free))
    gone = tuple(Axis(n, extents[n]) for n in names if n not in kept)
    joined = product(list(factors), times)
    body = Reduce(op, gone, joined) if gone else joined
    return Lambda(tuple(Axis(n, extents[n]) for n in names if n in kept), body)


def resized(relation: Relation, count: float) -> Relation:
    """The relation with another estimate; bounds stay."""
    other = copy.copy(relation)
    other.estimate = min(count, relation.cardinality)
    return other


def recall_sizes(program: Program) -> None:
    """Estimates of definitions that were computed before become what they turned out to be."""
    keys = program.keys
    if keys is None:
        return
    keys.add(program.definitions)
    if not keys.help:
        return
    for d in program.definitions:
        key = keys.of(d.ref)
        count = None if key is None else feedback.recall(key)
        if count is None:
            continue
        size = 1.0
        for n in d.shape:
            size *= n
        before = program.stats.get(d.ref)
        facts = before.facts if before is not None and before.facts is not None else partial(
            _facts, d.shape, count)
        dense = count > program.config.costs.dense_matrix * size
        program.stats[d.ref] = Stats(count, size, dense, facts)
        program.fire("feedback: a size as it was when last computed")


def _facts(shape: tuple[int, ...], count: float, exact: bool) -> TensorStats:
    return TensorStats(shape, int(count))
