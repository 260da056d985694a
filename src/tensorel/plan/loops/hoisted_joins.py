"""Which parts of a nest's body are worth a workspace under a loop order.

*Hoisted joins*: in loops (i, j, k, l) the factors over l whose other indices are bound some loops
before are joined there, once: A[i, l] * A[j, l] under (i, j), and each k looks its row up in that.
Triangles mark a row and look other rows up in it instead of merging them. Workspaces that are
equal but for the name of their axis are one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from tensorel.algebra.ops import Operator
from tensorel.base.records import cached_property, dataclass
from tensorel.ir.given import about
from tensorel.ir.nodes import Const, Expr, Index, Read, Reduce, Source, below_calls, const
from tensorel.kernels.lowering.nest import Let
from tensorel.kernels.lowering.support import Analysis, Formula, is_sparse
from tensorel.kernels.lowering.workspaces import support_of, workspace
from tensorel.plan.definitions import product, replace_exprs
from tensorel.plan.loops.operands import Operand, is_plain
from tensorel.plan.loops.simulate import EVERYWHERE, Fill, Wanted
from tensorel.stats.estimates.join_sampling import JoinSampler

#: tensors and indices of reads, with the axis left out, depth by depth
Key = tuple[tuple[tuple[int, tuple[str, ...]], ...], ...]
Chain = list[tuple[int, list[Read]]]


@dataclass(frozen=True, slots=True)
class Sum:
    """A reduction inside the body, evaluated under so many loops."""

    depth: int
    value: Reduce


@dataclass(frozen=True, slots=True)
class Hoisted:
    """A body that reads workspaces, and the workspaces; ``extents`` of their own indices.
    ``origins``: for a read with indices of other names, the read that it was and the names.
    ``sums``: workspaces of a single value. ``order``: all loops, those of the workspaces among
    them, in an order that the levels of operands should follow."""

    body: Expr
    lets: tuple[Let, ...]
    extents: tuple[tuple[str, int], ...]
    origins: Mapping[Read, tuple[Read, Mapping[object, Expr]]]
    sums: tuple[Sum, ...] = ()
    order: tuple[str, ...] = ()

    def supports(self, analysis: Analysis) -> Callable[[Expr], Formula]:
        """Where a body over the workspaces has entries."""
        return partial(support_of, lets={let.slot: let for let in self.lets}, analysis=analysis,
                       known={})

    def bytes_(self) -> float:
        """Of one thread's workspaces."""
        sizes = dict(self.extents)
        return sum(about([sizes[let.axis]]) * (let.body.dtype.itemsize + 9.0) for let in self.lets)

    def converted(self, table: Mapping[Expr, Expr]) -> Hoisted:
        """The same over operands that are stored another way: ``table`` has the reads as they
        were."""
        full = dict(table)
        for r, (first, _) in self.origins.items():
            if first in table:
                full[r] = Read(table[first].tensor, r.indices)  # type: ignore[attr-defined]
        lets = tuple(replace(let, body=replace_exprs(let.body, full)) for let in self.lets)
        return replace(self, body=replace_exprs(self.body, full), lets=lets)


@dataclass(frozen=True, slots=True, eq=False)
class Room:
    """A workspace over an index that is not written yet: under so many loops a group of factors
    is joined there, beside what another one holds: the factors ``held``, or some that are equal
    but for the name of the index."""

    name: str
    depth: int
    group: list[Read]
    before: Room | None
    held: list[Read]


class Joined:
    """The factors of a product that workspaces can hold, as many orders of loops ask for them."""

    def __init__(self, factors: list[Expr], times: Operator, extents: Mapping[str, int]) -> None:
        self.factors, self.times, self.extents = factors, times, extents
        self.reads = hoistable(factors, times, extents)
        # the factors over each index, with their other ones
        self.beside: dict[str, list[tuple[Read, list[str]]]] = {n: [] for n in extents}
        for f in self.reads:
            names = [i.name for i in f.indices]  # type: ignore[attr-defined]
            for n in names:
                self.beside[n].append((f, [m for m in names if m != n]))
        self._marks: dict[str, Read] = {}
        self._blanks: dict[tuple[Read, str], tuple[int, tuple[str, ...]]] = {}

    def mark(self, name: str) -> Read:
        """Stands for a read of a workspace at an index, as long as none is written."""
        found = self._marks.get(name)
        if found is None:
            dtype = self.factors[0].dtype
            slot = workspace("w", self.extents[name], dtype, True)
            found = self._marks[name] = Read(
                Source(slot, (self.extents[name],), dtype, const(0, dtype)), (Index(name),))
        return found

    def blank(self, f: Read, name: str) -> tuple[int, tuple[str, ...]]:
        """A factor up to the name of one of its indices."""
        key = f, name
        found = self._blanks.get(key)
        if found is None:
            found = self._blanks[key] = id(f.tensor), tuple([
                "" if i.name == name else i.name for i in f.indices])  # type: ignore[attr-defined]
        return found


class Hoisting:
    """Joins of one product that an order of loops allows to do early."""

    def __init__(self, order: tuple[str, ...], joined: Joined) -> None:
        self.joined = joined
        self.rooms: dict[Key, Room] = {}
        self.reads: dict[str, tuple[Room, list[Read]]] = {}  # by index; the factors that are gone
        place = {n: k for k, n in enumerate(order)}
        chains = {name: self._chain(k, name, place) for k, name in enumerate(order) if k > 1}
        early = {name: (key[:-1], chain[:-1]) if chain and chain[-1][0] == place[name] else (
            key, chain) for name, (key, chain) in chains.items()}
        for name, (key, chain) in early.items():
            for k in range(len(chain)):
                if key[: k + 1] not in self.rooms:
                    before = self.rooms[key[:k]] if k else None
                    self.rooms[key[: k + 1]] = Room(name, *chain[k], before, _all(chain[:k]))
        self.wanted = [key for key, _ in chains.values()]
        for name, (key, chain) in chains.items():
            if key not in self.rooms:  # what is bound just now may be there for another index
                key, chain = early[name]
            if chain:
                self.reads[name] = self.rooms[key], _all(chain)

    def _chain(self, most: int, name: str, place: Mapping[str, int]) -> tuple[Key, Chain]:
        """The factors over an index by how many loops are bound when they can be joined, and
        the same up to the name of the index."""
        groups: dict[int, list[Read]] = {}
        for f, others in self.joined.beside[name]:
            depth = 1 + max([place[n] for n in others])
            if depth <= most:
                groups.setdefault(depth, []).append(f)
        chain, blank = sorted(groups.items()), self.joined.blank
        return tuple([tuple(sorted([blank(f, name) for f in group])) for _, group in chain]), chain

    @cached_property
    def used(self) -> list[Room]:
        """The workspaces that are read, with those that they read, shallow ones first."""
        found: dict[Room, None] = {}
        stack = [room for room, _ in self.reads.values()]
        while stack:
            room = stack.pop()
            found[room] = None
            if room.before is not None:
                stack.append(room.before)
        return sorted(found, key=lambda room: room.depth)

    @cached_property
    def is_least(self) -> bool:
        """No order that looks the same has fewer workspaces: those here are as many as there were
        if the order of a factor's indices did not matter."""
        found = {_loose(key) for key in self.rooms}
        return len(found) == len(self.rooms) and all(
            key in self.rooms or _loose(key) not in found for key in self.wanted)

    def bytes_(self) -> float:
        """Of one thread's workspaces."""
        each = self.joined.factors[0].dtype.itemsize + 9.0
        return sum([self.joined.extents[room.name] * each for room in self.used])

    def simulated(self, operands: Mapping[Read, Operand]) -> tuple[
            list[Operand], list[Fill], list[Read]]:
        """The operands of the body and the workspaces with theirs, as the simulation sees them,
        and what the body must have. An index keeps its name inside a workspace: none is bound
        there that the loops around have."""
        used = self.used
        readers: dict[Room, list[Operand]] = {room: [] for room in used}
        gone = {f for _, taken in self.reads.values() for f in taken}
        main = [o for r, o in operands.items() if r not in gone]
        must = []
        for name, (room, taken) in self.reads.items():
            main.append(self._marked(name, taken, operands))
            readers[room].append(main[-1])
            must.append(main[-1].read)
        fills = []
        for room in used:
            own = [operands[f] for f in room.group]
            parts = list(room.group)
            if room.before is not None:
                held = self._marked(room.name, room.held, operands)
                readers[room.before].append(held)
                own.append(held)
                parts.append(held.read)
            fills.append(Fill(room.depth, (room.name,), own, EVERYWHERE.beside(parts),
                              readers[room], about([self.joined.extents[room.name]])))
        return main, fills, must

    def _marked(self, name: str, taken: list[Read], operands: Mapping[Read, Operand]) -> Operand:
        """A workspace that holds some factors, read at an index."""
        read, edges = self.joined.mark(name), 0
        for f in taken:
            edges |= operands[f].edges
        return Operand(read, read.indices, (False,), (1.0,), (True,), 1.0, True, False,
                       marked=True, edges=edges)

    def written(self) -> Hoisted:
        """The body with all that can be joined early."""
        joined, lets, origins = self.joined, dict[Room, tuple[Let, Source]](), dict[
            Read, tuple[Read, Mapping[object, Expr]]]()
        for room in self.rooms.values():
            lets[room] = self._let(room, lets, origins)
        left = list(joined.factors)
        for _, taken in self.reads.values():
            for f in taken:
                left.remove(f)
        body = product([*left, *[Read(lets[room][1], (Index(name),))
                                 for name, (room, _) in self.reads.items()]], joined.times)
        used = [lets[room][0] for room in self.used]
        extents = tuple([(lets[room][0].axis, joined.extents[room.name]) for room in self.used])
        return Hoisted(body, tuple(used), extents, origins)

    def _let(self, room: Room, lets: Mapping[Room, tuple[Let, Source]],
             origins: dict[Read, tuple[Read, Mapping[object, Expr]]]) -> tuple[Let, Source]:
        joined, number = self.joined, len(lets)
        axis = f"{room.name}_{number}"
        parts: list[Expr] = []
        if room.before is not None:
            parts.append(Read(lets[room.before][1], (Index(axis),)))
        for f in room.group:
            r = Read(f.tensor, tuple([
                Index(axis) if i.name == room.name else i for i in f.indices]))  # type: ignore[attr-defined]
            origins[r] = (f, {Index(room.name): Index(axis)})
            parts.append(r)
        extent, dtype = joined.extents[room.name], joined.factors[0].dtype
        slot = workspace(f"w{number}", extent, dtype, True)
        fill = room.group[0].tensor.fill  # type: ignore[attr-defined]
        assert isinstance(fill, Const)
        return (Let(slot, room.depth, axis, (axis,), None, product(parts, joined.times)),
                Source(slot, (extent,), dtype, fill))


def _loose(key: Key) -> tuple[object, ...]:
    """A key without the order of the indices of a factor."""
    return tuple([tuple(sorted([(tensor, tuple(sorted(names))) for tensor, names in group]))
                  for group in key])


def _all(chain: Chain) -> list[Read]:
    return [f for _, group in chain for f in group]


def hoistable(factors: list[Expr], times: Operator, extents: Mapping[str, int]) -> list[Read]:
    """The factors that a workspace can hold: where one has no entry, the product is nothing."""
    zero = times.annihilators[0] if times.annihilators else None
    return [] if zero is None else [
        f for f in factors if isinstance(f, Read) and len(f.indices) > 1 and is_plain(f)
        and is_sparse(f) and bool(f.tensor.fill.value == zero)  # type: ignore[attr-defined]
        and all(f.tensor.shape[k] == extents[i.name] for k, i in enumerate(f.indices))]  # type: ignore[attr-defined]


def simulated(found: Hoisted, operands: Mapping[Read, Operand], support: Callable[[Expr], Formula],
              sampler: JoinSampler | None) -> tuple[list[Operand], list[Fill]]:
    """The operands of the body and the workspaces with theirs, as the simulation sees them.
    ``operands``: of the reads before any of them was renamed; ``support``: of bodies."""
    lets = {let.slot: let for let in found.lets}
    readers: dict[object, list[Operand]] = {slot: [] for slot in lets}

    def renamed(edges: int, names: Mapping[object, Expr]) -> int:
        return edges if sampler is None or not edges or not names else sampler.renamed(
            edges, {a.name: b.name for a, b in names.items()})  # type: ignore[attr-defined]

    def edges_of(r: Read) -> int:
        """The matrices whose entries a read has."""
        let = lets.get(r.tensor.data)  # type: ignore[attr-defined]
        if let is None:
            first, names = found.origins.get(r, (r, {}))
            return renamed(operands[first].edges, names)
        inner = 0
        if let.op is None:
            for x in outer_reads(let.body):
                inner |= edges_of(x)
        return renamed(inner, {Index(let.axis): r.indices[0]})

    def of(body: Expr) -> list[Operand]:
        made = []
        for r in outer_reads(body):
            slot = r.tensor.data  # type: ignore[attr-defined]
            if slot in lets:
                made.append(Operand(r, r.indices, (False,), (1.0,), (True,), 1.0, True, False,
                                    marked=True, edges=edges_of(r)))
                readers[slot].append(made[-1])
            else:
                first, names = found.origins.get(r, (r, {}))
                o = operands[first]
                axes = tuple([names.get(e, e) for e in o.axes]) if names else o.axes
                made.append(o.at(r, axes, edges_of(r)))
        return made

    main = of(found.body)
    sizes = dict(found.extents)
    made = [Fill(let.depth, let.loops, of(let.body), Wanted(support(let.body)),
                 readers[let.slot], about([sizes[let.axis]])) for let in found.lets]
    made += [Fill(s.depth, tuple(a.name for a in s.value.axes), of(s.value.body),
                  Wanted(support(s.value.body)), []) for s in found.sums]
    return main, made


def outer_reads(e: Expr) -> list[Read]:
    """Reads that are not inside a reduction."""
    found: dict[Read, None] = {}
    left = [e]
    while left:
        reads = [x for x in below_calls(*left) if isinstance(x, Read) and x not in found]
        found.update(dict.fromkeys(reads))
        left = [i for x in reads for i in x.indices]
    return list(found)
