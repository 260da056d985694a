"""Operations of relations that run kernels: join, transform and aggregation.

Absent blocks take part as what they are, blocks of fill. They are not computed one by one: a kernel
is asked what it makes of them, once for each combination of shapes, and where that is all one
value, results are absent too and that is their fill.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod

import numpy as np

from tensorel.algebra.ops import Operator
from tensorel.base.records import dataclass
from tensorel.blocks.relations import checks
from tensorel.blocks.relations.kernels import Kernel, Outline
from tensorel.blocks.relations.keys import (
    Domain,
    Key,
    Keys,
    Positions,
    as_keys,
    codes,
    domain_of,
    find,
    match,
    sorted_by,
    starts,
)
from tensorel.blocks.relations.relation import Relation, common_fill, formed
from tensorel.blocks.relations.tiles import (
    Along,
    Room,
    Shape,
    Shapes,
    Sizes,
    constant,
    infer,
    is_same,
)
from tensorel.errors import ShapeError, TensorelError, TypeError_
from tensorel.ir import analysis
from tensorel.storage.entries import make_fill
from tensorel.storage.stored import Stored

Pattern = tuple[bool, ...]  # of each operand: whether its block is there
Columns = tuple[int, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Operand:
    """A relation that a kernel reads; ``columns`` of a result's key are the key of its block."""

    relation: Relation
    columns: Columns

    def shapes(self, keys: Keys) -> Shapes:
        return self.relation.shapes(keys[:, self.columns])

    def blocks(self, keys: Keys) -> list[Stored]:
        """The block for each key of a result, one of fill where there is none."""
        own, known = keys[:, self.columns], dict[Shape, Stored]()
        at, given = find(own, self.relation.keys), self.relation
        shapes = given.shapes(own) if (at < 0).any() else np.empty((len(at), 0), np.int64)
        found = []
        for n, shape in zip(at.tolist(), shapes.tolist()):
            where = tuple(shape)
            if n >= 0:
                found.append(given.blocks[n])
                continue
            if where not in known:
                known[where] = constant(where, given.dtype, given.fill)
            found.append(known[where])
        return found


def transform(given: Relation, kernel: Kernel) -> Relation:
    """The kernel applied to every block."""
    operand = Operand(given, tuple(range(given.arity)))

    def keys(pattern: Pattern) -> Keys:
        return given.keys if pattern[0] else given.absent_keys()

    return _Mapping("transform", kernel, (operand,), given.domain, keys).result()


def join(left: Relation, right: Relation, on_left: Columns, on_right: Columns, kernel: Kernel
         ) -> Relation:
    """The kernel applied to all pairs of blocks whose keys agree in the given components. Keys of
    the result are those of the left, then what the right ones have beside the joined components."""
    checks.joined(left.domain.extents, right.domain.extents, on_left, on_right)
    rest = [d for d in range(right.arity) if d not in on_right]
    place = {q: p for p, q in zip(on_left, on_right)} | {
        d: left.arity + n for n, d in enumerate(rest)}
    operands = (Operand(left, tuple(range(left.arity))),
                Operand(right, tuple([place[d] for d in range(right.arity)])))

    def pairs(a: Keys, b: Keys) -> Keys:
        p, q = match(a, b, on_left, on_right)
        return np.concatenate([a[p], b[q][:, rest]], axis=1)

    def keys(pattern: Pattern) -> Keys:
        return pairs(left.keys if pattern[0] else left.absent_keys(),
                     right.keys if pattern[1] else right.absent_keys())

    extents = (*left.domain.extents, *[right.domain.extents[d] for d in rest])
    if left.domain.only is None and right.domain.only is None:
        domain = Domain(extents)
    else:
        whole = pairs(left.domain.all(), right.domain.all())
        domain = domain_of(extents, whole[sorted_by(whole)])
    return _Mapping("join", kernel, operands, domain, keys).result()


class _Mapping:
    """A kernel on the blocks of operands, for each key of a domain. ``keys`` lists those whose
    blocks are there, or not, as a pattern says."""

    def __init__(self, what: str, kernel: Kernel, operands: tuple[Operand, ...], domain: Domain,
                 keys: Callable[[Pattern], Keys]) -> None:
        self.what, self.kernel, self.operands, self.domain = what, kernel, operands, domain
        self.keys = keys
        self._outlines: dict[tuple[Pattern, tuple[Shape, ...]], Outline | None] = {}

    def result(self) -> Relation:
        there = (True,) * len(self.operands)
        patterns = [p for p in product(*[(True, False) if o.relation.absent else (True,)
                                         for o in self.operands]) if p != there]
        sample = self.sample() if patterns else as_keys([], len(self.domain.extents))
        fill, skipped = self.skip(patterns, sample)
        parts = [self.keys(p) for p in (there, *patterns) if p not in skipped]
        keys = np.concatenate(parts)
        keys = keys[sorted_by(keys)]
        blocks = self.run(keys)
        return self.formed(keys, blocks, skipped, sample, fill)

    def sample(self) -> Keys:
        """Keys at which operands have every combination of shapes that occurs."""
        if self.domain.only is not None or any(o.relation.sizes is None for o in self.operands):
            return self.domain.all()
        if not self.domain.count:
            return as_keys([], len(self.domain.extents))
        found = [np.zeros(1, np.int64)] * len(self.domain.extents)
        for dim, at in self.kinds().items():
            found[dim] = np.unique(at)
        grid = np.meshgrid(*found, indexing="ij") if found else []
        return np.stack([g.reshape(-1) for g in grid], axis=1) if grid else as_keys([()], 0)

    def kinds(self) -> dict[int, Keys]:
        """Of each dimension on which sizes depend, for each component the first one of the same
        sizes."""
        tables: dict[int, list[Shapes]] = {}
        for operand in self.operands:
            for size in operand.relation.sizes or ():
                if isinstance(size, Along):
                    tables.setdefault(operand.columns[size.dim], []).append(size.sizes)
        found = {}
        for dim, columns in tables.items():
            _, first, back = np.unique(np.stack(columns, axis=1), axis=0, return_index=True,
                                       return_inverse=True)
            found[dim] = first[back.reshape(-1)]
        return found

    def outline(self, pattern: Pattern, shapes: Sequence[Shape], key: Key) -> Outline | None:
        """What the kernel knows of its result on blocks of these shapes."""
        at = pattern, tuple(shapes)
        if at not in self._outlines:
            given = [Outline(s, o.relation.dtype, None if there else o.relation.fill)
                     for s, there, o in zip(shapes, pattern, self.operands)]
            with checks.naming(self.what, self.kernel.name, self.names(key), shapes):
                self._outlines[at] = self.kernel.outline(*given)
        return self._outlines[at]

    def outlines(self, pattern: Pattern, keys: Keys) -> list[Outline | None]:
        """The same for each key."""
        shapes = [map(tuple, o.shapes(keys).tolist()) for o in self.operands]
        return [self.outline(pattern, s, tuple(k)) for k, *s in zip(keys.tolist(), *shapes)]

    def names(self, key: Key) -> list[Key]:
        """The keys of the operands' blocks."""
        return [tuple([key[c] for c in o.columns]) for o in self.operands]

    def skip(self, patterns: Sequence[Pattern], sample: Keys
             ) -> tuple[np.generic | None, list[Pattern]]:
        """The fill of the result, and the patterns for which that is all that there is."""
        fill: np.generic | None = None
        found = []
        for pattern in sorted(patterns, key=sum):
            values = [None if o is None else o.constant for o in self.outlines(pattern, sample)]
            first = values[0] if values else None
            if first is None or not all(v is not None and is_same(v, first) for v in values):
                continue
            if fill is None or is_same(fill, first):
                fill = first
                found.append(pattern)
                for operand, there in zip(self.operands, pattern):
                    if there and first.dtype.kind in "fc":
                        self.kernel.unread(operand.relation.blocks)
        return fill, found

    def run(self, keys: Keys) -> list[Stored]:
        """The kernel's blocks for these keys; the same operands are computed once."""
        columns = [o.blocks(keys) for o in self.operands]
        known: dict[tuple[int, ...], Stored] = {}
        found: list[Stored] = []
        room = Room(f"{self.what}: the blocks of the result",
                    *{o.relation: o.relation.blocks for o in self.operands}.values())
        for key, *blocks in zip(keys.tolist(), *columns):
            at = tuple([id(b) for b in blocks])
            if at not in known:
                with checks.naming(self.what, self.kernel.name, self.names(key),
                                   [b.shape for b in blocks]), room.taken():
                    known[at] = self.kernel.run(*blocks)
                room.take(known[at].nbytes)
            found.append(known[at])
            first, block = found[0], found[-1]
            checks.same_dtype(block.dtype, first.dtype, f"{self.what}: a result", tuple(key))
            if len(block.shape) != len(first.shape):
                raise ShapeError(
                    f"{self.what}: kernel {self.kernel.name!r} makes blocks of {len(first.shape)} "
                    f"and of {len(block.shape)} axes", hint="all blocks have the same number")
        return found

    def formed(self, keys: Keys, blocks: list[Stored], skipped: Sequence[Pattern], sample: Keys,
               fill: np.generic | None) -> Relation:
        """The relation of the results; those that hold nothing but the fill are left out."""
        if not skipped and not blocks:
            return self.nothing()
        if fill is None:
            fill = common_fill(blocks)
        if not skipped:
            shapes = np.array([b.shape for b in blocks], np.int64).reshape(len(blocks), -1)
            held: list[Stored | None] = [
                None if not b.format.is_dense and b.count == 0 and is_same(b.fill, fill) else b
                for b in blocks]
            return formed(keys, shapes, held, self.domain.extents, blocks[0].dtype, fill)
        known = [o for o in self.outlines(skipped[0], sample) if o is not None]
        about, shapes = known[0], np.array([o.shape for o in known], np.int64)
        shapes = shapes.reshape(len(known), -1)
        sizes = None if self.domain.only is not None else self.spread(infer(sample, shapes))
        if sizes is None:
            whole = self.domain.all()
            if len(sample) < len(whole):
                of = [o.shape for o in self.outlines(skipped[0], whole) if o is not None]
                shapes = np.array(of, np.int64).reshape(len(whole), -1)
            at = (None, *blocks)
            return formed(whole, shapes, [at[n + 1] for n in find(whole, keys)],
                          self.domain.extents, about.dtype, fill)
        there = [n for n, b in enumerate(blocks)
                 if b.format.is_dense or b.count or not is_same(b.fill, fill)]
        return Relation(keys[there], tuple([blocks[n] for n in there]), self.domain, sizes,
                        len(about.shape), about.dtype, fill)

    def spread(self, sizes: Sizes | None) -> Sizes | None:
        """Sizes that are known at the components of the sample, at all components."""
        if sizes is None:
            return None
        kinds, found = self.kinds(), list[int | Along]()
        for size in sizes:
            if isinstance(size, Along):
                at = kinds[size.dim]
                size = Along(size.dim, np.arange(len(at)), size.of(at))
            found.append(size)
        return tuple(found)

    def nothing(self) -> Relation:
        """The result of no blocks; its dtype and rank are those of the kernel on small ones."""
        given = [o.relation for o in self.operands]
        dtype, rank = np.result_type(*[g.dtype for g in given]), given[0].rank
        try:
            found = self.kernel.outline(*[Outline((1,) * g.rank, g.dtype) for g in given])
        except TensorelError:
            found = None
        if found is not None:
            dtype, rank = found.dtype, len(found.shape)
        arity = len(self.domain.extents)
        return Relation(as_keys([], arity), (), self.domain, None, rank, dtype,
                        make_fill(0, dtype))


# -- aggregation ----------------------------------------------------------------------------------
def aggregate(given: Relation, kept: Columns, kernel: Kernel) -> Relation:
    """The blocks that agree in the given components of their keys, combined in the order of their
    keys. Absent blocks are combined too, where that is more than nothing."""
    monoid = _monoid(given, kernel)
    counted, fill = None, given.fill
    if given.absent and not _is_neutral(monoid, given):
        if monoid is not None and monoid.commutative and given.domain.only is None:
            counted = prod([n for d, n in enumerate(given.domain.extents) if d not in kept])
            fill = _repeated(monoid, given.fill, counted)
        else:
            given = given.filled()
            fill = common_fill(given.blocks) if given.blocks else fill
    order, begins = _groups(given.keys, kept)
    keys = given.keys[order[begins]][:, kept]
    blocks: list[Stored] = []
    room = Room("aggregate: the blocks of the result", given.blocks)
    for members in np.split(order, begins[1:]) if len(order) else []:
        with room.taken():
            block = _folded(given, members, kernel)
        if counted is not None and monoid is not None and len(members) < counted:
            rest = _repeated(monoid, given.fill, counted - len(members))
            block = kernel.run(block, constant(block.shape, given.dtype, rest))
        room.take(block.nbytes)
        blocks.append(block)
    extents = tuple([given.domain.extents[d] for d in kept])
    place = {d: n for n, d in enumerate(kept)}
    if given.domain.only is None and given.sizes is not None and all(
            isinstance(s, int) or s.dim in place for s in given.sizes):
        sizes = tuple([s if isinstance(s, int) else Along(place[s.dim], s.at, s.sizes)
                       for s in given.sizes])
        return Relation(keys, tuple(blocks), Domain(extents), sizes, given.rank, given.dtype, fill)
    whole = given.domain.all()
    shapes = given.shapes(whole)
    order, begins = _groups(whole, kept)
    for members in np.split(order, begins[1:]) if len(order) else []:
        _alike(whole[members], shapes[members])
    firsts, held = order[begins], (None, *blocks)
    goal = whole[firsts][:, kept]
    return formed(goal, shapes[firsts], [held[n + 1] for n in find(goal, keys)], extents,
                  given.dtype, fill)


def _monoid(given: Relation, kernel: Kernel) -> Operator | None:
    """The operator that combines entries, if there is one and it can."""
    about = Outline(given.blocks[0].shape if given.blocks else (1,) * given.rank, given.dtype)
    found = kernel.operator(about, about)
    if found is None:
        return None
    if not found.associative:
        raise TypeError_(f"aggregate: {found.name} is not associative",
                         hint="e.g. 'add', 'multiply', 'min', 'max', or an associative function")
    into = found.resolve(given.dtype, given.dtype)[1]
    if into != given.dtype:
        raise TypeError_(
            f"aggregate: {found.name} of blocks of {given.dtype.name} gives {into.name}",
            hint=f"convert the blocks first, e.g. transform(lambda a: a.astype({into.name!r}))")
    return found if found.is_monoid else None


def _is_neutral(monoid: Operator | None, given: Relation) -> bool:
    """Whether absent blocks leave those that they are combined with as they are."""
    if monoid is None or monoid.identity is None:
        return False
    return is_same(make_fill(monoid.identity(given.dtype), given.dtype), given.fill)


def _repeated(monoid: Operator, value: np.generic, count: int) -> np.generic:
    return make_fill(analysis.repeat(monoid, value, count), value.dtype)


def _groups(keys: Keys, kept: Columns) -> tuple[Positions, Positions]:
    """The positions of sorted keys by the kept components, and where each group begins."""
    (group,) = codes(keys[:, kept])
    order = np.argsort(group, kind="stable")
    return order, starts(group[order])


def _alike(keys: Keys, shapes: Shapes) -> None:
    """Refuse to combine blocks of different shapes."""
    bad = np.flatnonzero((shapes != shapes[0]).any(axis=1))
    if len(bad):
        n = int(bad[0])
        raise ShapeError(
            f"aggregate: the blocks {tuple(keys[0].tolist())} and {tuple(keys[n].tolist())} have "
            f"shapes {tuple(shapes[0].tolist())} and {tuple(shapes[n].tolist())}",
            hint="blocks that are combined have the same shape")


def _folded(given: Relation, members: Positions, kernel: Kernel) -> Stored:
    """The blocks at these positions, combined from the first to the last."""
    first: Stored = given.blocks[members[0]]
    found = first
    keys = given.keys[members]
    if len(members) > 1:
        _alike(keys, np.array([given.blocks[n].shape for n in members], np.int64))
    for key, n in zip(keys[1:].tolist(), members[1:].tolist()):
        names = [tuple(keys[0].tolist()), tuple(key)]
        block = given.blocks[n]
        with checks.naming("aggregate", kernel.name, names, [found.shape, block.shape]):
            found = kernel.run(found, block)
        checks.same_dtype(found.dtype, given.dtype, "aggregate: a result", names[1])
        if found.shape != first.shape:
            raise ShapeError(
                f"aggregate: kernel {kernel.name!r} makes shape {found.shape} of the blocks "
                f"{names[0]} and {names[1]} of shape {first.shape}",
                hint="what combines blocks keeps their shape")
    return found
