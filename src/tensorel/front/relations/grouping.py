"""Entries by groups: keys are expressions of their coordinates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorel.errors import TypeError_, ValueError_
from tensorel.front.array.convert import asarray, stored_of
from tensorel.front.relations.attributes import FUNCTIONS, axis_of, known_names
from tensorel.front.relations.relation_result import Relation
from tensorel.io.libraries.result_columns import ResultColumn
from tensorel.relational.evaluate import Scope, evaluate
from tensorel.relational.syntax import (
    Name,
    Term,
    names_in,
    parse_expressions,
    parse_predicate,
)
from tensorel.storage.convert import to_coo
from tensorel.storage.entries import differs
from tensorel.storage.key_matching import Groups, members_of
from tensorel.storage.limits import require
from tensorel.storage.ordered_groups import ordered_groups

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor

Vector = npt.NDArray[Any]
Positions = npt.NDArray[np.int64]
#: Aggregates of one group after the other: values sorted by group, and where each group begins.
Aggregate = Callable[[Vector, Positions], Vector]


def _sum(values: Vector, starts: Positions) -> Vector:
    wide = values.astype(np.int64) if values.dtype.kind == "b" else values
    if wide.dtype.kind in "iu":
        wide = wide.astype("u8" if wide.dtype.kind == "u" else "i8", copy=False)
    return np.asarray(np.add.reduceat(wide, starts[:-1]))


def _count(values: Vector, starts: Positions) -> Vector:
    return np.diff(starts)


def _mean(values: Vector, starts: Positions) -> Vector:
    return np.asarray(_sum(values, starts) / np.diff(starts))


def _by_value(values: Vector, starts: Positions) -> Vector:
    """Each group sorted; nan last."""
    group = np.repeat(np.arange(starts.size - 1), np.diff(starts))
    return values[np.lexsort((values, group))]


def _median(values: Vector, starts: Positions) -> Vector:
    ranked = _by_value(values, starts).astype(np.result_type(values.dtype, np.float64))
    sizes = np.diff(starts)
    low, high = starts[:-1] + (sizes - 1) // 2, starts[:-1] + sizes // 2
    middle = np.where(low == high, ranked[low], (ranked[low] + ranked[high]) / 2)
    last = ranked[starts[1:] - 1]
    return np.where(last != last, last, middle)


def _distinct(values: Vector, starts: Positions) -> Vector:
    ranked = _by_value(values, starts)
    new = np.ones(ranked.size, np.int64)
    same = (ranked[1:] == ranked[:-1]) | ((ranked[1:] != ranked[1:]) & (ranked[:-1] != ranked[:-1]))
    new[1:] -= same
    new[starts[:-1]] = 1
    return np.add.reduceat(new, starts[:-1])


AGGREGATES: Mapping[str, Aggregate] = {
    "sum": _sum, "count": _count, "mean": _mean, "avg": _mean,
    "max": lambda v, s: np.maximum.reduceat(v, s[:-1]),
    "min": lambda v, s: np.minimum.reduceat(v, s[:-1]),
    "first": lambda v, s: v[s[:-1]], "last": lambda v, s: v[s[1:] - 1],
    "nnz": lambda v, s: np.add.reduceat((v != 0).astype(np.int64), s[:-1]),
    "median": _median, "count_distinct": _distinct,
}
_ADDED = frozenset({"sum", "count", "avg", "mean"})


class GroupBy:
    """The entries of a tensor by groups, see ``Tensor.group_by``."""

    __slots__ = ("_keys", "_tensor", "_text")

    def __init__(self, t: Tensor, keys: str | Sequence[str]) -> None:
        texts = [keys] if isinstance(keys, str) else list(keys)
        if not all(isinstance(k, str) for k in texts):
            raise TypeError_("group_by: keys are texts", hint="e.g. 'rid' or ['rid % 3', 'cid']")
        self._tensor = t
        self._keys: list[tuple[str, Term, Scope]] = []
        for text in texts:
            trial = self._scope(text, [np.zeros(1, np.int64)] * t.ndim)
            trees = parse_expressions(text)
            for k, tree in enumerate(trees):
                evaluate(tree, trial)  # refuses now what is wrong
                self._keys.append((_name(text, trees, k), tree, trial))
        names = [name for name, _, _ in self._keys]
        if len(set(names)) < len(names):
            raise ValueError_(f"group_by: a key is given twice in {names}")

    def _scope(self, text: str, coords: Sequence[Vector]) -> Scope:
        t = self._tensor

        def attribute(name: str) -> Vector | None:
            axis = axis_of(t, name)
            return None if axis is None else coords[axis].astype(np.int64)

        return Scope(text, attribute, known_names(t), FUNCTIONS, lambda v: v.dtype == bool)

    def agg(self, fn: str | Sequence[str], having: str | None = None) -> Relation:
        """The aggregate of each group as a relation: the keys, then the value. Rows ascend by
        their keys.

        >>> import tensorel as tr
        >>> A = tr.asarray([[1, 0, 2], [0, 0, 3]])
        >>> A.group_by("cid").agg("sum", having="count > 1").rows()
        [(2, 5)]
        """
        wanted = [_aggregate(f) for f in ([fn] if isinstance(fn, str) else fn)]
        names = [name for name, _, _ in self._keys]
        tree = None if having is None else parse_predicate(having)
        used = [] if tree is None else [n.name.lower() for n in names_in(tree)
                                        if n.name not in names]
        if tree is not None:
            trial = {n: np.zeros(1) for n in (*AGGREGATES, *names)}
            evaluate(tree, _having(having or "", trial, names))

        def make() -> dict[str, ResultColumn]:
            return self._rows(wanted, list(dict.fromkeys(used)), tree, having or "")

        return Relation([*names, *wanted], make)

    def _rows(self, wanted: list[str], used: list[str], tree: Term | None, having: str
              ) -> dict[str, ResultColumn]:
        stored = stored_of(self._tensor)
        require(48 * stored.count, f"grouping {stored.count} entries")
        coo = to_coo(stored)
        there = differs(coo.values, stored.fill)
        if not there.all():
            coo = coo.where(there)
        keys = {}
        for name, key, scope in self._keys:
            found = evaluate(key, self._scope(scope.text, coo.coords))
            keys[name] = np.broadcast_to(np.asarray(found), coo.count)
        groups = ordered_groups(list(keys.values()))
        first = {name: k[groups.first] for name, k in keys.items()}
        made = _aggregated(list(dict.fromkeys([*wanted, *used])), groups, coo.values)
        if tree is not None:
            met = evaluate(tree, _having(having, {**made, **first}, list(first)))
            kept = np.flatnonzero(np.broadcast_to(met, groups.count))
            first = {name: k[kept] for name, k in first.items()}
            made = {name: values[kept] for name, values in made.items()}
        columns = {name: self._key_column(tree_, k)
                   for (name, tree_, _), k in zip(self._keys, first.values())}
        return {**columns, **{name: ResultColumn(made[name]) for name in wanted}}

    def _key_column(self, tree: Term, values: Vector) -> ResultColumn:
        """A key; that of an axis has its labels and its extent."""
        axis = axis_of(self._tensor, tree.name) if isinstance(tree, Name) else None
        if axis is None:
            return ResultColumn(values)
        labels = getattr(self._tensor, "labels", None)
        own = None if labels is None else labels[axis]
        return ResultColumn(values, labels=None if own is None else np.asarray(own),
                            extent=self._tensor.shape[axis])


def _aggregated(names: list[str], groups: Groups, values: Vector) -> dict[str, Vector]:
    """The aggregates of each group; sums and counts without sorting the entries by group."""
    if not groups.count:
        return {name: np.empty(0) for name in names}
    if values.dtype == np.float64 and set(names) <= _ADDED:
        counts = np.bincount(groups.ids)
        sums = np.bincount(groups.ids, values)
        return {name: counts if name == "count" else sums if name == "sum" else sums / counts
                for name in names}
    rows, starts = members_of(groups.ids, groups.count)
    ranked = values[rows]
    return {name: AGGREGATES[name](ranked, starts) for name in names}


def _name(text: str, trees: Sequence[Term], k: int) -> str:
    """The text of one of several keys."""
    if len(trees) == 1:
        return text.strip()
    return text.split(",")[k].strip()


def _aggregate(fn: str) -> str:
    name = "_".join(fn.strip().lower().replace("_", " ").split())
    if name not in AGGREGATES:
        raise ValueError_(f"agg: {fn!r} is not known", hint=f"one of {', '.join(AGGREGATES)}")
    return name


def _having(text: str, columns: Mapping[str, Vector], keys: Sequence[str]) -> Scope:
    def attribute(name: str) -> Vector | None:
        return columns.get(name if name in keys else name.lower())

    return Scope(text, attribute, ", ".join([*keys, *AGGREGATES]), FUNCTIONS,
                 lambda v: isinstance(v, bool) or v.dtype == bool)


def group_by(x: object, keys: str | Sequence[str]) -> GroupBy:
    """See ``Tensor.group_by``."""
    return GroupBy(asarray(x), keys)
