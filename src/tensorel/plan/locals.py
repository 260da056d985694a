"""Which parts of a nest's body are worth a workspace under a loop order.

*Hoisted joins*: in loops (i, j, k, l) the factors over l whose other indices are bound some loops
before are joined there, once: A[i, l] * A[j, l] under (i, j), and each k looks its row up in that.
Triangles mark a row and look other rows up in it instead of merging them. Workspaces that are
equal but for the name of their axis are one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from tensorel.algebra.ops import DType, Operator
from tensorel.ir.nodes import Call, Const, Expr, Index, Read, Reduce, Source
from tensorel.kernels.spec import Let
from tensorel.kernels.support import Analysis, Formula, is_sparse
from tensorel.kernels.workspaces import support_of, workspace
from tensorel.plan.definitions import product, replace_exprs
from tensorel.plan.loops import Fill, Operand, is_plain
from tensorel.records import dataclass
from tensorel.stats.pilot import Edge

#: tensors and indices of reads, with the axis left out, depth by depth
Key = tuple[tuple[tuple[int, tuple[str, ...]], ...], ...]


@dataclass(frozen=True, slots=True)
class Sum:
    """A reduction inside the body, evaluated under so many loops."""

    depth: int
    value: Reduce


@dataclass(frozen=True, slots=True)
class Locals:
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
        return sum(sizes[let.axis] * (let.body.dtype.itemsize + 9.0) for let in self.lets)

    def converted(self, table: Mapping[Expr, Expr]) -> Locals:
        """The same over operands that are stored another way: ``table`` has the reads as they
        were."""
        full = dict(table)
        for r, (first, _) in self.origins.items():
            if first in table:
                full[r] = Read(table[first].tensor, r.indices)  # type: ignore[attr-defined]
        lets = tuple(replace(let, body=replace_exprs(let.body, full)) for let in self.lets)
        return replace(self, body=replace_exprs(self.body, full), lets=lets)


class Hoisting:
    """Joins of one product that an order of loops allows to do early."""

    def __init__(self, order: tuple[str, ...], factors: list[Expr], joined: list[Read],
                 times: Operator, extents: Mapping[str, int]) -> None:
        """``joined``: the factors that can be (``hoistable``)."""
        self.order, self.times, self.extents = order, times, extents
        self.place = {n: k for k, n in enumerate(order)}
        self.factors, self.joined = factors, joined
        self.dtype: DType = factors[0].dtype
        self.made: dict[Key, tuple[Let, Source]] = {}
        self.inner: dict[str, int] = {}
        self.origins: dict[Read, tuple[Read, Mapping[object, Expr]]] = {}

    def run(self) -> Locals | None:
        """The body with all that can be joined early; None if nothing can."""
        chains = {name: self._chain(k, name) for k, name in enumerate(self.order) if k > 1}
        early = {name: [g for g in chain if g[0] < self.place[name]]
                 for name, chain in chains.items()}
        for name, chain in early.items():
            for k in range(len(chain)):
                self._workspace(name, chain[: k + 1])
        gone: list[Expr] = []
        reads: list[Expr] = []
        for name, chain in chains.items():
            key = _key(chain, name)
            if key not in self.made:  # what is bound just now may be there for another index
                chain, key = early[name], _key(early[name], name)
            if chain:
                reads.append(Read(self.made[key][1], (Index(name),)))
                gone += [f for _, group in chain for f in group]
        if not reads:
            return None
        left = list(self.factors)
        for f in gone:
            left.remove(f)
        body = product([*left, *reads], self.times)
        used = self._used(reads)
        return Locals(body, tuple(used), tuple(
            (let.axis, self.inner[let.axis]) for let in used), self.origins)

    def _used(self, reads: list[Expr]) -> list[Let]:
        """The workspaces that are read, with those that they read, shallow ones first."""
        by_source = {source: let for let, source in self.made.values()}
        found: dict[Let, None] = {}
        stack = [by_source[r.tensor] for r in reads]  # type: ignore[attr-defined]
        while stack:
            let = stack.pop()
            found[let] = None
            stack += [by_source[t] for t in let.body.reads if t in by_source]
        return sorted(found, key=lambda let: let.depth)

    def _chain(self, place: int, name: str) -> list[tuple[int, list[Read]]]:
        """The factors over an index by how many loops are bound when they can be joined."""
        groups: dict[int, list[Read]] = {}
        for f in self.joined:
            if name in f.free:
                depth = 1 + max([self.place[n] for n in f.free if n != name])
                if depth <= place:
                    groups.setdefault(depth, []).append(f)
        return sorted(groups.items())

    def _workspace(self, name: str, chain: list[tuple[int, list[Read]]]) -> None:
        key = _key(chain, name)
        if key in self.made:
            return
        axis = f"{name}_{len(self.made)}"
        depth, group = chain[-1]
        parts: list[Expr] = []
        for f in group:
            r = Read(f.tensor, tuple([
                Index(axis) if i.name == name else i for i in f.indices]))  # type: ignore[attr-defined]
            self.origins[r] = (f, {Index(name): Index(axis)})
            parts.append(r)
        if len(chain) > 1:
            parts.insert(0, Read(self.made[_key(chain[:-1], name)][1], (Index(axis),)))
        slot = workspace(f"w{len(self.made)}", self.extents[name], self.dtype, True)
        fill = group[0].tensor.fill  # type: ignore[attr-defined]
        assert isinstance(fill, Const)
        self.inner[axis] = self.extents[name]
        self.made[key] = (
            Let(slot, depth, axis, (axis,), None, product(parts, self.times)),
            Source(slot, (self.extents[name],), self.dtype, fill))


def hoistable(factors: list[Expr], times: Operator, extents: Mapping[str, int]) -> list[Read]:
    """The factors that a workspace can hold: where one has no entry, the product is nothing."""
    zero = times.annihilators[0] if times.annihilators else None
    return [] if zero is None else [
        f for f in factors if isinstance(f, Read) and len(f.indices) > 1 and is_plain(f)
        and is_sparse(f) and bool(f.tensor.fill.value == zero)  # type: ignore[attr-defined]
        and all(f.tensor.shape[k] == extents[i.name] for k, i in enumerate(f.indices))]  # type: ignore[attr-defined]


def _key(chain: list[tuple[int, list[Read]]], name: str) -> Key:
    return tuple([tuple(sorted([(id(f.tensor), tuple([
        "" if i.name == name else i.name for i in f.indices])) for f in group]))  # type: ignore[attr-defined]
        for _, group in chain])


def simulated(found: Locals, operands: Mapping[Read, Operand], support: Callable[[Expr], Formula]
              ) -> tuple[list[Operand], list[Fill]]:
    """The operands of the body and the workspaces with theirs, as the simulation sees them.
    ``operands``: of the reads before any of them was renamed; ``support``: of bodies."""
    lets = {let.slot: let for let in found.lets}
    readers: dict[object, list[Operand]] = {slot: [] for slot in lets}

    def edges_of(r: Read) -> frozenset[Edge]:
        """The matrices whose entries a read has."""
        let = lets.get(r.tensor.data)  # type: ignore[attr-defined]
        if let is None:
            first, names = found.origins.get(r, (r, {}))
            return renamed_edges(operands[first].edges, names)
        if let.op is not None:
            return frozenset()
        inner = frozenset[Edge]().union(*map(edges_of, outer_reads(let.body)))
        return renamed_edges(inner, {Index(let.axis): r.indices[0]})

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
                made.append(replace(o, read=r, axes=tuple(names.get(e, e) for e in o.axes),
                                    edges=edges_of(r)))
        return made

    main = of(found.body)
    sizes = dict(found.extents)
    made = [Fill(let.depth, let.loops, of(let.body), support(let.body),
                 readers[let.slot], float(sizes[let.axis])) for let in found.lets]
    made += [Fill(s.depth, tuple(a.name for a in s.value.axes), of(s.value.body),
                  support(s.value.body), []) for s in found.sums]
    return main, made


def renamed_edges(edges: frozenset[Edge], names: Mapping[object, Expr]) -> frozenset[Edge]:
    if not names:
        return edges
    table = {a.name: b.name for a, b in names.items()}  # type: ignore[attr-defined]
    return frozenset([(rows, table.get(a, a), table.get(b, b)) for rows, a, b in edges])


def outer_reads(e: Expr) -> list[Read]:
    """Reads that are not inside a reduction."""
    found: dict[Read, None] = {}
    stack = [e]
    while stack:
        x = stack.pop()
        if isinstance(x, Read):
            found[x] = None
            stack.extend(x.indices)
        elif isinstance(x, Call):
            stack.extend(x.args)
    return list(found)
