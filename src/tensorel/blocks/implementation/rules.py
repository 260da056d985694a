"""Table 2 of paper 000: rules between plans that give the same relation of keys and blocks.

A rule is a value with its law and what it requires beside its pattern; where the printed rule
requires something else, ``docs/design/implementation_algebra.md`` says why.

Placement is no part of a relation, so what a rule builds may lie elsewhere. The optimizer asks the
operators above for their laws again (``nodes``) and drops a plan in which one is broken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import product

from tensorel.base.records import dataclass
from tensorel.blocks.implementation.functions import (
    KEEP,
    Dims,
    Predicate,
    after,
    both,
    chained,
    insert,
    renumbered,
    same_key,
    select,
)
from tensorel.blocks.implementation.nodes import (
    Broadcast,
    Input,
    LocalAggregate,
    LocalFilter,
    LocalJoin,
    LocalMap,
    Node,
    Relation,
    Shuffle,
)
from tensorel.blocks.implementation.partitions import SPREAD, Partition, again, grids

Build = Callable[[Node, int], Iterator[Node]]


@dataclass(frozen=True, eq=False)
class Rule:
    """``apply(node, sites)`` gives plans equal to a node, none where the rule does not fire."""

    name: str
    law: str
    requires: str
    apply: Build

    def __repr__(self) -> str:
        return self.name


def _rule(name: str, law: str, requires: str = "nothing") -> Callable[[Build], Rule]:
    return lambda build: Rule(name, law, requires, build)


def _moved(node: Node, to: Partition) -> Node:
    """A node's relation by a partition, without a shuffle where it is so already."""
    return node if node.relation.partition == to else Shuffle(node, to)


def _numbered(dims: Dims) -> dict[int, int]:
    return {d: n for n, d in enumerate(dims)}


def _through(where: Predicate, names: dict[int, int]) -> Predicate | None:
    """The same condition where dimensions are numbered otherwise, None if it reads one that is
    not there."""
    if not set(where.dims) <= set(names):
        return None
    return renumbered(where, tuple(names[d] for d in where.dims))


def _kept(node: LocalMap) -> dict[int, int]:
    """For dimensions of a map's result the dimension of the operand that they are."""
    return {n: d for n, d in enumerate(node.keys.keeps) if d is not None}


@_rule("R1-1", "a filter of a filter is a filter by both conditions")
def merge_filters(node: Node, sites: int) -> Iterator[Node]:
    match node:
        case LocalFilter(LocalFilter(child, inner), outer):
            yield LocalFilter(child, both(inner, outer))


@_rule("R1-2", "a map of a map is the map by both functions",
       "an inner kernel that needs no key: the composed one would not know it")
def merge_maps(node: Node, sites: int) -> Iterator[Node]:
    match node:
        case LocalMap(LocalMap(child, inner, first), outer, second) if not first.keyed:
            yield LocalMap(child, chained(outer, inner), after(second, first))


@_rule("R1-3", "a filter of a map is a map of a filter",
       "a condition on dimensions that the key map keeps, as the identity keeps all")
def filter_before_map(node: Node, sites: int) -> Iterator[Node]:
    match node:
        case LocalFilter(LocalMap(child, keys, kernel) as mapped, where):
            if (before := _through(where, _kept(mapped))) is not None:
                yield LocalMap(LocalFilter(child, before), keys, kernel)


@_rule("R1-3", "a map of a filter is a filter of a map",
       "the identity on keys: another map may be one-to-one on the filtered keys alone")
def map_before_filter(node: Node, sites: int) -> Iterator[Node]:
    match node:
        case LocalMap(LocalFilter(child, where), keys, kernel) if keys.is_identity:
            yield LocalFilter(LocalMap(child, keys, kernel), where)


@_rule("R1-4", "a map of an aggregation is an aggregation that ends with the map",
       "the identity on keys, a kernel without key, and aggregates that are complete: "
       "f(x + y) is not f(x) + f(y)")
def finish_aggregation(node: Node, sites: int) -> Iterator[Node]:
    match node:
        case LocalMap(LocalAggregate() as child, keys, kernel) if (
                keys.is_identity and not kernel.keyed and child.relation.partial is None):
            yield replace(child, finish=after(kernel, child.finish))


@_rule("R1-4", "f(x + y) = f(x) + f(y): a map of an aggregation is an aggregation of the map",
       "the identity on keys, and a kernel that distributes over the monoid")
def map_before_aggregation(node: Node, sites: int) -> Iterator[Node]:
    match node:
        case LocalMap(LocalAggregate(child, group, monoid, finish), keys, kernel) if (
                keys.is_identity and finish is KEEP and monoid in kernel.distributes_over):
            yield LocalAggregate(LocalMap(child, same_key(child.relation.arity), kernel),
                                 group, monoid)


@_rule("R1-4", "f(x) + f(y) = f(x + y): an aggregation of a map is the map of an aggregation",
       "the identity on keys, and a kernel that distributes over the monoid")
def map_after_aggregation(node: Node, sites: int) -> Iterator[Node]:
    match node:
        case LocalAggregate(LocalMap(child, keys, kernel), group, monoid, finish) if (
                keys.is_identity and finish is KEEP and monoid in kernel.distributes_over):
            yield LocalMap(LocalAggregate(child, group, monoid), same_key(len(group)), kernel)


@_rule("R1-5", "a filter of groups is a filter of their tuples",
       "nothing: a condition on the result reads group keys alone")
def filter_before_aggregation(node: Node, sites: int) -> Iterator[Node]:
    match node:
        case LocalFilter(LocalAggregate(child, group, monoid, finish), where):
            before = renumbered(where, tuple(group[d] for d in where.dims))
            yield LocalAggregate(LocalFilter(child, before), group, monoid, finish)


@_rule("R1-5", "a filter of tuples is a filter of their groups",
       "a condition on group keys alone")
def filter_after_aggregation(node: Node, sites: int) -> Iterator[Node]:
    match node:
        case LocalAggregate(LocalFilter(child, where), group, monoid, finish):
            if (behind := _through(where, _numbered(group))) is not None:
                yield LocalFilter(LocalAggregate(child, group, monoid, finish), behind)


@_rule("R1-6", "a filter of pairs is a filter of the operands whose keys it reads, or of the pairs "
       "before their kernel runs")
def filter_before_join(node: Node, sites: int) -> Iterator[Node]:
    match node:
        case LocalFilter(LocalJoin() as join, where):
            left = _through(where, {d: d for d in range(join.left.relation.arity)})
            right = _through(where, {n: d for d, n in join.right_places.items()})
            if left is None and right is None:
                yield replace(join, where=where if join.where is None else both(join.where, where))
            else:
                yield replace(join,
                              left=LocalFilter(join.left, left) if left else join.left,
                              right=LocalFilter(join.right, right) if right else join.right)


@_rule("R1-7", "a map of a join is a join by both kernels", "a kernel without key")
def map_in_join(node: Node, sites: int) -> Iterator[Node]:
    match node:
        case LocalMap(LocalJoin() as join, kernel=kernel) if kernel is not KEEP and (
                not kernel.keyed):
            yield _rekeyed(replace(join, kernel=after(kernel, join.kernel)), node)


@_rule("R1-7", "f(x * y) = f(x) * f(y): a map of a join is a join of maps",
       "a kernel that distributes over the join's kernel")
def map_before_join(node: Node, sites: int) -> Iterator[Node]:
    match node:
        case LocalMap(LocalJoin(left, right) as join, kernel=kernel) if (
                join.kernel in kernel.distributes_over):
            mapped = (LocalMap(c, same_key(c.relation.arity), kernel) for c in (left, right))
            yield _rekeyed(join.over(*mapped), node)


def _rekeyed(node: Node, by: LocalMap) -> Node:
    return node if by.keys.is_identity else LocalMap(node, by.keys)


@_rule("R2-1", "only the last move counts")
def last_move(node: Node, sites: int) -> Iterator[Node]:
    match node:
        case Shuffle(Shuffle(child) | Broadcast(child)) | Broadcast(Shuffle(child)):
            yield node.over(child)
        case Shuffle(child, to) if child.relation.partition == to:
            yield child
        case Broadcast(child) if child.relation.partition is None:
            yield child


@_rule("R2-2", "a move of a filter is a filter of the move")
def filter_after_move(node: Node, sites: int) -> Iterator[Node]:
    match node:
        case Shuffle(LocalFilter(child, where)) | Broadcast(LocalFilter(child, where)):
            yield LocalFilter(node.over(child), where)


@_rule("R2-2", "a filter of a move is a move of the filter")
def filter_before_move(node: Node, sites: int) -> Iterator[Node]:
    match node:
        case LocalFilter((Shuffle(child) | Broadcast(child)) as move, where):
            yield move.over(LocalFilter(child, where))


@_rule("R2-3", "a move of a map is a map of the move",
       "a shuffle by dimensions that the key map keeps")
def map_after_move(node: Node, sites: int) -> Iterator[Node]:
    match node:
        case Broadcast(LocalMap(child, keys, kernel)):
            yield LocalMap(Broadcast(child), keys, kernel)
        case Shuffle(LocalMap(child, keys, kernel) as mapped, to) if (
                to.dims <= set(_kept(mapped))):
            before = to.renamed(_kept(mapped), child.relation.arity)
            yield LocalMap(_moved(child, before), keys, kernel)


@_rule("R2-3", "a map of a move is a move of the map",
       "a shuffle by dimensions that are still there after the key map")
def map_before_move(node: Node, sites: int) -> Iterator[Node]:
    match node:
        case LocalMap(Broadcast(child), keys, kernel):
            yield Broadcast(LocalMap(child, keys, kernel))
        case LocalMap(Shuffle(child, to), keys, kernel) if to.dims <= set(keys.keeps):
            names = {d: n for n, d in _kept(node).items()}
            yield Shuffle(LocalMap(child, keys, kernel), to.renamed(names, len(keys.keeps)))


@_rule("R2-4", "an aggregation needs no shuffle of tuples whose groups are together",
       "the partition dims before the shuffle among the group keys, or a replicated relation")
def aggregate_in_place(node: Node, sites: int) -> Iterator[Node]:
    match node:
        case LocalAggregate(Shuffle(child), group):
            at = child.relation.partition
            if at is None or at.dims <= set(group):
                yield node.over(child)


@_rule("R2-5", "an aggregation may combine the tuples of each site before they are sent",
       "a monoid, and a shuffle by group keys; the outer aggregation groups by all keys")
def aggregate_twice(node: Node, sites: int) -> Iterator[Node]:
    match node:
        case LocalAggregate(Shuffle(child, to), group, monoid, finish) if (
                monoid.monoid and to.dims <= set(group) and child.relation.partial is None
                and len(group) < child.relation.arity):
            inner = LocalAggregate(child, group, monoid)
            move = Shuffle(inner, to.renamed(_numbered(group), len(group)))
            yield LocalAggregate(move, tuple(range(len(group))), monoid, finish)


@_rule("R2-6", "a join may replicate one operand, or bring both together by their join keys",
       "operands without partial aggregates")
def place_join(node: Node, sites: int) -> Iterator[Node]:
    match node:
        case LocalJoin(left, right, left_keys, right_keys):
            pass
        case _:
            return
    left, right = _bare(left), _bare(right)
    if left.relation.partial or right.relation.partial:
        return
    yield node.over(Broadcast(left), right)
    yield node.over(left, Broadcast(right))
    for to in _partitions(left.relation, sites):
        yield node.over(_moved(left, to), Broadcast(right))
    for to in _partitions(right.relation, sites):
        yield node.over(Broadcast(left), _moved(right, to))
    ends = tuple(left.relation.extents[d] for d in left_keys)
    for grid in grids(ends, sites):
        yield node.over(_moved(left, Partition.of(left_keys, grid)),
                        _moved(right, Partition.of(right_keys, grid)))


def _bare(node: Node) -> Node:
    while isinstance(node, (Shuffle, Broadcast)):
        node = node.child
    return node


def _partitions(of: Relation, sites: int) -> Iterator[Partition]:
    for grid in grids(of.extents, sites):
        yield Partition.of(range(of.arity), grid)


@_rule("R2-7", "a shuffle of a join is a join of shuffles",
       "partition dims among the join keys, or a replicated operand and dims of the other one")
def join_after_move(node: Node, sites: int) -> Iterator[Node]:
    match node:
        case Shuffle(LocalJoin(left, right, left_keys) as join, to):
            of_right = {n: d for d, n in join.right_places.items()}
            of_left = {d: d for d in range(left.relation.arity)}
            lone = left.relation.partition is None, right.relation.partition is None
            moves: list[Node] = []
            for child, names, replicated, other in (
                    (left, of_left, *lone), (right, of_right, *lone[::-1])):
                if replicated:
                    moves.append(child)
                elif to.dims <= (set(names) if other else set(left_keys)):
                    moves.append(_moved(child, to.renamed(names, child.relation.arity)))
            if len(moves) == 2 and not all(lone):
                yield join.over(*moves)


@_rule("3-D", "a pair of a join is a cell of the grid of all its keys: both operands, repeated "
       "along the keys that they lack, meet there",
       "operands without partial aggregates, and keys that one of them lacks")
def replicate_join(node: Node, sites: int) -> Iterator[Node]:
    match node:
        case LocalJoin(left, right, left_keys):
            left, right = _bare(left), _bare(right)
        case _:
            return
    extents, arity = node.relation.extents, left.relation.arity
    lacking = [d for d in range(arity) if d not in left_keys], range(arity, len(extents))
    if left.relation.partial or right.relation.partial or not any(map(len, lacking)):
        return
    order = {n: d for d, n in node.right_places.items()}
    ordered = LocalMap(right, select(*(order[n] for n in sorted(order))))
    spread = left, right if ordered.keys.keeps == tuple(range(len(order))) else ordered
    wide = [_repeated(child, dims, extents) for child, dims in zip(spread, lacking[::-1])]
    every = tuple(range(len(extents)))
    for grid in grids(extents, sites):
        cut = [any(grid[d] > 1 for d in dims) for dims in (*lacking, left_keys)]
        if sum(cut) > 1:  # otherwise it is a form of R2-6
            to = Partition.of(every, grid)
            yield replace(node, left=Shuffle(wide[0], to), right=Shuffle(wide[1], to),
                          left_keys=every, right_keys=every)


def _repeated(child: Node, dims: Iterable[int], extents: Dims) -> Node:
    for d in sorted(dims):
        child = LocalMap(child, insert(child.relation.arity, d, extents[d]))
    return child


@_rule("other partition", "where tuples lie is no part of a relation", "a law above that allows it")
def shuffle_otherwise(node: Node, sites: int) -> Iterator[Node]:
    match node:
        case Shuffle(child, to):
            at = child.relation.partition
            if at is not None and at.grid is not None and SPREAD in at.dims:
                yield from (Shuffle(child, p) for p in _refined(at, child.relation))
            for other in _partitions(child.relation, sites):
                if other != to:
                    yield _moved(child, other)


def _refined(at: Partition, of: Relation) -> Iterator[Partition]:
    """The first partition by which a part of what each site has stays there: axes that are no key
    dimension cut one again."""
    assert at.grid is not None
    choices = [range(of.arity) if a == SPREAD else (a,) for a in at.axes]
    for axes in product(*choices):
        cut = [again(a) if b == SPREAD else a for a, b in zip(axes, at.axes)]
        found = Partition.of(cut, at.grid)
        if all(found.cells(d) <= of.extents[d] for d in found.dims):
            yield found
            return


def homes(node: Node, sites: int) -> Iterator[tuple[Input, Input]]:
    """Free inputs below a node with a home that suits it: where a shuffle wants them, or, beside a
    replicated operand of a join, any grid. A home holds for all uses of an input, so the optimizer
    puts it into the whole plan."""
    match node:
        case Shuffle(child, to):
            names = {d: d for d in range(child.relation.arity)}
            while isinstance(child, LocalMap):
                kept = _kept(child)
                names = {n: kept[d] for n, d in names.items() if d in kept}
                child = child.child
            if isinstance(child, Input) and child.free and to.grid is not None:
                wanted = to.summed(names)
                for home in _refined(wanted, child.relation):
                    yield child, replace(child, partition=home, free=False)
        case LocalJoin(left, right):
            for child, other in ((left, right), (right, left)):
                if isinstance(child, Input) and child.free and other.relation.partition is None:
                    for home in _partitions(child.relation, sites):
                        yield child, replace(child, partition=home, free=False)


RULES: tuple[Rule, ...] = (
    merge_filters, merge_maps, filter_before_map, map_before_filter, finish_aggregation,
    map_before_aggregation, map_after_aggregation, filter_before_aggregation,
    filter_after_aggregation, filter_before_join, map_in_join, map_before_join, last_move,
    filter_after_move, filter_before_move, map_after_move, map_before_move, aggregate_in_place,
    aggregate_twice, place_join, join_after_move, replicate_join, shuffle_otherwise,
)

#: The rules that say what is computed, whatever lies where.
SHAPING = tuple(r for r in RULES if r.name.startswith("R1"))
