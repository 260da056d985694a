"""Operators over physical relations: sets of (key, block, site).

A node says what it computes; ``relation`` says what is known of its result, and that the node may
run: a local operator sees the tuples of its own site alone, so it is right under a law on how its
operands are partitioned. Each class states its law. A plan in which one is broken raises
ValueError_ when it is asked for its relation, so no rule can make it a candidate."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

from tensorel.base.records import cached_property, dataclass
from tensorel.blocks.implementation.functions import (
    ADD,
    KEEP,
    Dims,
    Kernel,
    KeyMap,
    Predicate,
    Shape,
)
from tensorel.blocks.implementation.partitions import SPREAD, Partition
from tensorel.errors import ShapeError, ValueError_

_UNKNOWN = Partition((), None)  # an Input's: anywhere


Filters = frozenset[tuple[object, Dims, float]]


@dataclass(frozen=True, slots=True)
class Relation:
    """What is known of a physical relation.

    extents: keys of each key dimension
    block: the shape of a block; block_bytes: its size
    partition: None: all tuples are at all sites
    copies: key dimensions along which the blocks are one block, sent to a site and kept there once
    partial: the monoid that has still to combine the blocks of a key; arrays: how many these are
    filters: conditions on keys, their dimensions and the share of keys that each keeps
    """

    extents: Shape
    block: Shape
    block_bytes: float
    partition: Partition | None
    copies: frozenset[int] = frozenset()
    partial: Kernel | None = None
    arrays: float = 1.0
    filters: Filters = frozenset()

    @property
    def arity(self) -> int:
        return len(self.extents)

    @property
    def share(self) -> float:
        """The part of the keys that is there."""
        return math.prod(kept for _, _, kept in self.filters)

    def filters_as(self, names: dict[int, int], more: float = 1.0) -> Filters:
        """The filters where dimensions have other numbers. Those on dimensions that are gone are
        one number, of ``more`` times as many keys."""
        still = {f for f in self.filters if set(f[1]) <= set(names)}
        lost = min(1.0, more * math.prod(kept for _, _, kept in self.filters - still))
        return frozenset((of, tuple(names[d] for d in dims), kept) for of, dims, kept in still
                         ) | ({(None, (), lost)} if lost < 1 else set())

    @property
    def tuples(self) -> float:
        """Tuples at all sites together, those of a replicated relation once."""
        return math.prod(self.extents) * self.share * self.arrays

    @property
    def bytes(self) -> float:
        """What these tuples take, copies of a block once."""
        distinct = math.prod(e for d, e in enumerate(self.extents) if d not in self.copies)
        return distinct * self.share * self.arrays * self.block_bytes


Law = Callable[[bool, str], None]


def _enforced(holds: bool, law: str) -> None:
    if not holds:
        raise ValueError_(law, hint="tensorel.blocks.implementation.translate gives right plans")


class Node:
    """An operator with its operands; equal ones are operators of one kind over equal ones."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def children(self) -> tuple[Node, ...]:
        """The operands."""
        return ()

    @cached_property
    def _fields(self) -> tuple[object, ...]:
        return (type(self), *(getattr(self, f) for f in self.__dataclass_fields__))

    @cached_property
    def relation(self) -> Relation:
        """What is known of the result; raises where the law of this node is broken."""
        return self.derive(*(c.relation for c in self.children), law=_enforced)

    @cached_property
    def _hashed(self) -> int:
        return hash(self._fields)

    def __hash__(self) -> int:
        return self._hashed

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Node) and self._hashed == other._hashed
                                 and self._fields == other._fields)

    def derive(self, *of: Relation, law: Law) -> Relation:
        """The relation made of operands' relations; ``law`` is told what must hold."""
        raise NotImplementedError

    def over(self, *children: Node) -> Node:
        """The same operator over other operands."""
        names = ("left", "right") if len(children) == 2 else ("child",)
        return replace(self, **dict(zip(names, children))) if children else self


def relation_of(node: Node) -> Relation:
    """The relation of a plan whatever its laws say."""
    return node.derive(*map(relation_of, node.children), law=lambda holds, law: None)


def _check_dims(dims: Dims, of: Relation, what: str) -> None:
    if len(set(dims)) != len(dims) or not all(0 <= d < of.arity for d in dims):
        raise ShapeError(f"{what} {dims} of a relation with {of.arity} key dimensions",
                         hint="dimensions are numbered from 0, each at most once")


@dataclass(frozen=True, eq=False)
class Input(Node):
    """A stored relation, by default anywhere; with ``free`` its home is still to be chosen."""

    name: str
    extents: Shape
    block: Shape
    partition: Partition | None = _UNKNOWN
    free: bool = False
    block_bytes: float = 0.0  # 0: eight bytes an entry

    def derive(self, *of: Relation, law: Law) -> Relation:
        at = self.partition
        if at is not None and at.grid is None:
            at = Partition.scattered(len(self.extents))
        size = self.block_bytes or 8.0 * math.prod(self.block)
        made = Relation(self.extents, self.block, size, at)
        _check_grid(at, made)
        return made


def _check_grid(at: Partition | None, of: Relation) -> None:
    if at is None or at.grid is None:
        return
    for d in at.dims:
        if not 0 <= d < of.arity:
            raise ShapeError(f"a partition {at} of a relation with {of.arity} key dimensions")
        if at.cells(d) > of.extents[d]:
            raise ShapeError(f"a partition {at}, but dimension {d} has {of.extents[d]} keys",
                             hint="tensorel.blocks.implementation.partitions.grids gives grids")


@dataclass(frozen=True, eq=False)
class Unary(Node):
    """An operator with one operand."""

    child: Node

    @property
    def children(self) -> tuple[Node, ...]:
        """The operand."""
        return (self.child,)


@dataclass(frozen=True, eq=False)
class Broadcast(Unary):
    """All tuples to all sites."""

    def derive(self, *of: Relation, law: Law) -> Relation:
        return replace(of[0], partition=None)


@dataclass(frozen=True, eq=False)
class Shuffle(Unary):
    """Each tuple to the site that the partition gives for its key."""

    to: Partition

    def derive(self, *of: Relation, law: Law) -> Relation:
        _check_grid(self.to, of[0])
        law(self.to.grid is not None, "a shuffle needs a partition whose grid is known")
        return replace(of[0], partition=self.to)


@dataclass(frozen=True, eq=False)
class LocalJoin(Node):
    """The kernel over all pairs of tuples of a site that agree in the join keys.

    The key of a result is the left key, then what the right key has beside its join keys. Law: one
    operand is replicated, or both lie by the same grid along matching join keys. Blocks that are
    still partial need a kernel that distributes over their monoid, and a replicated partner."""

    left: Node
    right: Node
    left_keys: Dims
    right_keys: Dims
    kernel: Kernel
    where: Predicate | None = None

    @property
    def children(self) -> tuple[Node, ...]:
        """Both operands."""
        return (self.left, self.right)

    @property
    def right_places(self) -> dict[int, int]:
        """The dimension of the result for each one of the right operand."""
        right, left = self.right.relation.arity, self.left.relation.arity
        return self._places(left, right)

    def _places(self, left: int, right: int) -> dict[int, int]:
        rest = [d for d in range(right) if d not in self.right_keys]
        return dict(zip(self.right_keys, self.left_keys)) | {
            d: left + n for n, d in enumerate(rest)}

    def derive(self, *of: Relation, law: Law) -> Relation:
        left, right = of
        _check_dims(self.left_keys, left, "left join keys")
        _check_dims(self.right_keys, right, "right join keys")
        ends = [tuple(r.extents[d] for d in keys)
                for r, keys in ((left, self.left_keys), (right, self.right_keys))]
        if ends[0] != ends[1]:
            raise ShapeError(f"join keys of extents {ends[0]} and {ends[1]}")
        places = self._places(left.arity, right.arity)
        matched = right.partition and right.partition.renamed(places, 0)
        here = left.partition is None or right.partition is None
        together = left.partition == matched and right.partition is not None and (
            right.partition.grid is not None and right.partition.dims <= set(self.right_keys))
        law(here or together, f"a join of operands {_lies(left)} and {_lies(right)} on "
            f"{self.left_keys} and {self.right_keys} misses pairs that lie at different sites")
        rest = tuple(e for d, e in enumerate(right.extents) if d not in self.right_keys)
        extents = left.extents + rest
        if left.partition is None and right.partition is not None:
            at: Partition | None = right.partition.renamed(places, len(extents))
        else:
            at = left.partition and left.partition.renamed(
                {d: d for d in range(left.arity)}, len(extents))
        part = left if left.partial else right
        law(part.partial is None or (part.partial in self.kernel.distributes_over and not (
            left.partial and right.partial)), "a join of partial aggregates needs a kernel that "
            "distributes over their monoid, and one operand that is complete")
        block = self.kernel.shape(left.block, right.block)
        filters = left.filters | right.filters_as(places)
        if self.where:
            filters |= {(self.where.holds, self.where.dims, self.where.share(extents))}
        return Relation(extents, block, 8.0 * math.prod(block), at, partial=part.partial,
                        arrays=part.arrays, filters=filters)


def _lies(of: Relation) -> str:
    return "at all sites" if of.partition is None else str(of.partition)


@dataclass(frozen=True, eq=False)
class LocalAggregate(Unary):
    """Combines the blocks of a site that agree in the group keys, in the order of keys; ``finish``
    is applied to what is complete.

    Law: the result is complete if the operand is replicated or its partition dims are among the
    group keys. Otherwise it is partial: several sites may hold blocks of a key, which needs a
    monoid, no ``finish``, and an aggregation with the same monoid after they are together."""

    group: Dims
    kernel: Kernel = ADD
    finish: Kernel = KEEP

    def derive(self, *of: Relation, law: Law) -> Relation:
        (r,) = of
        _check_dims(self.group, r, "group keys")
        at = r.partition
        complete = at is None or at.dims <= set(self.group)
        law(complete or self.kernel.monoid, f"an aggregation by {self.group} of tuples "
            f"{_lies(r)} is partial, and {self.kernel} is no monoid")
        law(complete or self.finish is KEEP, f"{self.finish} of aggregates that are partial")
        law(r.partial in (None, self.kernel), f"{self.kernel} of what {r.partial} has to complete")
        extents = tuple(r.extents[d] for d in self.group)
        size = math.prod(r.extents) / max(math.prod(extents), 1)
        names = {d: n for n, d in enumerate(self.group)}
        block, arrays = r.block, 1.0
        if self.kernel.stacks is not None:
            axis = self.kernel.stacks
            block = (*block[:axis], int(block[axis] * size), *block[axis + 1 :])
        block = self.finish.shape(block)
        if at is not None and not complete:
            at = at.summed(names)
            arrays = at.cells(SPREAD) if at.grid is not None else max(size * r.arrays, 1.0)
        elif at is not None:
            at = at.renamed(names, len(extents))
        filters = r.filters_as(names, size)
        scale = 8.0 if block != r.block else r.block_bytes / max(math.prod(r.block), 1)
        return Relation(extents, block, scale * math.prod(block), at, arrays=arrays,
                        filters=filters, partial=None if complete else self.kernel)


@dataclass(frozen=True, eq=False)
class LocalFilter(Unary):
    """The tuples whose keys hold the condition; right wherever they lie."""

    where: Predicate

    def derive(self, *of: Relation, law: Law) -> Relation:
        if not all(0 <= d < of[0].arity for d in self.where.dims):
            raise ShapeError(f"a filter on dimensions {self.where.dims} of {of[0].arity}")
        kept = (self.where.holds, self.where.dims, self.where.share(of[0].extents))
        return replace(of[0], filters=of[0].filters | {kept})


@dataclass(frozen=True, eq=False)
class LocalMap(Unary):
    """The key map over keys and the kernel over blocks, one result for each new key.

    Tuples stay at their site: along a dimension that the key map keeps the partition is known
    afterwards, otherwise only that each key lies at one site. Laws: tuples keep different keys, and
    blocks that are partial need a kernel that distributes over their monoid."""

    keys: KeyMap
    kernel: Kernel = KEEP

    def derive(self, *of: Relation, law: Law) -> Relation:
        (r,) = of
        extents, block = self.keys.extents(r.extents), self.kernel.shape(r.block)
        law(r.partial is None or self.kernel is KEEP or r.partial in self.kernel.distributes_over,
            f"{self.kernel} of blocks that {r.partial} has still to complete")
        names = {d: n for n, d in reversed(list(enumerate(self.keys.keeps))) if d is not None}
        keep = self.kernel is KEEP
        copies = {names[d] for d in r.copies if d in names} | set(self.keys.new)
        sizes = r.block_bytes if block == r.block else 8.0 * math.prod(block)
        grown = math.prod(extents[d] for d in self.keys.new) * math.prod(r.extents)
        law(bool(r.filters) or grown <= math.prod(extents), f"{self.keys} gives {grown} tuples "
            f"{math.prod(extents)} keys: several of them would have one")
        return Relation(
            extents, block, sizes, r.partition and r.partition.renamed(names, len(extents)),
            frozenset(copies if keep else ()), r.partial, r.arrays,
            r.filters_as(names, grown / max(math.prod(extents), 1)))
