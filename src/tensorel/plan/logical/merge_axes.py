"""Formulas of very many axes are written over fewer.

A kernel has a loop for each index, and compilers take longer than in proportion to loops inside one
another: sixty end in minutes. An index of one value needs no loop. Two indices that stand side by
side wherever they stand are one: ``x[i, j] + y[i, j]`` over dense tensors is a formula over the
pairs. Operands and results then lie as they did, under another shape (``reshape`` copies nothing of
dense tensors)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensorel.algebra.bulk import reshape
from tensorel.base.records import dataclass
from tensorel.ir.nodes import (
    INT64,
    Axis,
    Bulk,
    Call,
    Expr,
    Index,
    Lambda,
    Read,
    Reduce,
    Source,
    const,
    postorder,
    reads_in,
)
from tensorel.ir.replacing import substitute
from tensorel.plan.definitions import Definition, Program, replace_exprs
from tensorel.plan.estimate import Estimator

#: Loops inside one another that are left as they are.
MAX_LOOPS = 12


def merge_axes(program: Program) -> None:
    """Give formulas of more than ``MAX_LOOPS`` loops fewer."""
    program.map_formulas(lambda program, d, lam: _Merger(program, lam).run(d) if len(
        lam.axes) + len(_reduced(lam.body)) > MAX_LOOPS else [d])


def _reduced(body: Expr) -> tuple[Axis, ...]:
    return body.axes if isinstance(body, Reduce) else ()


@dataclass(frozen=True, slots=True)
class _Run:
    """Axes side by side that are one, under the name of the first."""

    names: tuple[str, ...]
    extent: int

    @property
    def axis(self) -> Axis:
        return Axis(self.names[0], self.extent)


class _Merger:
    """One formula, without the indices of one value, and the operands under their new shapes."""

    def __init__(self, program: Program, lam: Lambda) -> None:
        self.program = program
        ones = {a.name: const(0, INT64) for a in (*lam.axes, *_reduced(lam.body)) if a.extent == 1}
        body = lam.body
        self.op = body.op if isinstance(body, Reduce) else None
        core = substitute(body.body if isinstance(body, Reduce) else body, ones)
        self.core, self.elsewhere = core, _elsewhere(core)
        self.dense = Estimator(program.stats).is_dense(core)
        self.kept = self._runs([a for a in lam.axes if a.extent != 1])
        self.reduced = self._runs([a for a in _reduced(body) if a.extent != 1])
        self.operands: dict[tuple[Source, tuple[int, ...]], Definition] = {}

    def run(self, d: Definition) -> list[Definition]:
        """The definitions in place of one."""
        runs = {r.names[0]: r for r in (*self.kept, *self.reduced)}
        table: dict[Expr, Expr] = {}
        for r in reads_in(self.core):  # reads at which others read come first
            table[r] = self._read(r, tuple([replace_exprs(i, table) for i in r.indices]), runs)
        body = replace_exprs(self.core, table)
        if self.op is not None and self.reduced:
            body = Reduce(self.op, tuple([r.axis for r in self.reduced]), body)
        formula = Lambda(tuple([r.axis for r in self.kept]), body)
        if formula.shape == d.shape:
            return [d]
        fill, whole = d.source().fill, d.ref.whole
        inner = Definition(self.program.fresh(), formula, None, fill, whole)
        known = self.program.stats.get(d.ref)
        if known is not None:
            self.program.stats[inner.ref] = replace(known, facts=None)
        self.program.fire("merge-axes: indices side by side are one")
        result = Bulk(reshape, (inner.source(),), (d.shape,))
        return [*self.operands.values(), inner, replace(d, tensor=result, fill=fill, whole=whole)]

    def _runs(self, axes: Sequence[Axis]) -> list[_Run]:
        found: list[_Run] = []
        for a in axes:
            if found and self.dense and self._is_beside(found[-1].names[-1], a):
                found[-1] = _Run((*found[-1].names, a.name), found[-1].extent * a.extent)
            else:
                found.append(_Run((a.name,), a.extent))
        return found

    def _is_beside(self, before: str, a: Axis) -> bool:
        """The two stand side by side in all reads that have one of them, and nowhere else."""
        if before in self.elsewhere or a.name in self.elsewhere:
            return False
        for r in reads_in(self.core):
            if before in r.free or a.name in r.free:
                long = [(i, n) for i, n in zip(r.indices, r.tensor.shape) if n != 1]
                names = [i.name if isinstance(i, Index) else None for i, _ in long]
                if names.count(before) != 1 or names.count(a.name) != 1:
                    return False
                k = names.index(a.name)
                if k == 0 or names[k - 1] != before or long[k][1] != a.extent:
                    return False
        return True

    def _read(self, r: Read, at: tuple[Expr, ...], runs: dict[str, _Run]) -> Read:
        """The read of its tensor under a shape without axes of one value, and with runs merged."""
        assert isinstance(r.tensor, Source)
        shape: list[int] = []
        indices: list[Expr] = []
        merged = {n for run in runs.values() for n in run.names[1:]}
        for k, i in enumerate(at):
            if r.tensor.shape[k] == 1 and not i.reads:
                continue
            if isinstance(i, Index) and i.name in merged:
                shape[-1] *= r.tensor.shape[k]
                continue
            shape.append(r.tensor.shape[k])
            indices.append(i)
        if len(shape) == len(at):
            return Read(r.tensor, at)
        return Read(self._operand(r.tensor, tuple(shape)), tuple(indices))

    def _operand(self, source: Source, shape: tuple[int, ...]) -> Source:
        found = self.operands.get((source, shape))
        if found is None:
            view = Bulk(reshape, (source,), (shape,))
            found = self.operands[source, shape] = Definition(self.program.fresh(), view)
            known = self.program.stats.get(source.data)
            if known is not None:
                self.program.stats[found.ref] = replace(known, facts=None, rows=None)
        return found.source()


def _elsewhere(e: Expr) -> set[str]:
    """Indices that are used for more than to read a tensor at them, and those of inner sums."""
    found: set[str] = {e.name} if isinstance(e, Index) else set()
    for x in postorder(e):
        match x:
            case Call():
                found.update([a.name for a in x.args if isinstance(a, Index)])
            case Read():
                for i in x.indices:
                    found.update(() if isinstance(i, Index) else i.free)
            case Reduce():
                found.update([a.name for a in x.axes])
            case _:
                pass
    return found
