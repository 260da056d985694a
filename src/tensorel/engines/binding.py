"""Programs over slots: what plans are made for, and the keys that they are found again by.

A program is a graph of nodes that ends with the call. To find its plan it is written as one flat
tuple, nodes numbered by first visit; the program over slots is built only where a plan is made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from tensorel import rules
from tensorel.config import Config
from tensorel.ir.nodes import Call, Expr, Lambda, Read, Reduce, Source, Tensor, children, rebuild
from tensorel.kernels.magnitude import rounded
from tensorel.kernels.spec import Slot
from tensorel.storage.format import Format
from tensorel.storage.stored import Stored


class Bound:
    """A program over slots and the tensors for them."""

    __slots__ = ("_nodes", "_refs", "key", "slots", "stored")

    def __init__(self, nodes: Sequence[Tensor], writer: _Writer, key: tuple[object, ...]) -> None:
        self._nodes, self._refs = nodes, writer.refs
        self.slots: list[Source] = writer.slots
        self.stored: dict[str, Stored] = writer.stored
        self.key = key

    @property
    def roots(self) -> list[Tensor]:
        """The program with slots in place of stored tensors."""
        builder = _Builder({n: cast(Source, s) for n, s in self._refs.items()
                            if type(n) is Source})
        return [builder.bound(n) for n in self._nodes]


def bind(nodes: Sequence[Tensor], formats: Sequence[object], config: Config) -> Bound:
    """Give stored tensors slots, numbered by first appearance; write the key of the plan."""
    writer = _Writer(config.strict)
    for n in nodes:
        writer.visit(n)
    stats = tuple([class_of(s) for s in writer.stored.values()])
    key = (tuple(writer.parts), tuple([writer.refs[n] for n in nodes]), tuple(formats), stats,
           config.optimize, config.strict, config.disabled, config.memory, config.workers,
           config.effort, config.costs, rules.version())
    return Bound(nodes, writer, key)


def class_of(stored: Stored) -> object:
    """What plans depend on beside the format: about how many entries, and in which other formats
    the same tensor is stored."""
    size = stored.count.bit_length()
    others = stored.facts.get("alternatives")
    if others is None:
        return size
    return size, tuple([s.kind for s in others])  # type: ignore[attr-defined]


class _Writer:
    """Visits a program once. ``refs``: what stands for a node that was visited: a slot, or the
    length of ``parts`` after it. Every node begins with its class, so that different programs
    are different tuples. No closures: a cycle would keep the user's tensors alive until the next
    collection of garbage."""

    __slots__ = ("parts", "refs", "slots", "stored", "strict")

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.parts: list[object] = []
        self.refs: dict[Tensor | Expr, object] = {}
        self.slots: list[Source] = []
        self.stored: dict[str, Stored] = {}

    def visit(self, root: Tensor) -> None:
        """Iterative, as programs are long chains of tensors."""
        refs, parts, stack = self.refs, self.parts, [root]
        while stack:
            node = stack[-1]
            if node in refs:
                stack.pop()
                continue
            if type(node) is Source:
                refs[node] = self._slot(node)
                continue
            formula = type(node) is Lambda
            below = node.body.reads if formula else children(node)  # type: ignore[attr-defined]
            missing = []
            for t in below:
                if t not in refs:
                    if type(t) is Source:
                        refs[t] = self._slot(t)
                    else:
                        missing.append(cast(Tensor, t))
            if missing:
                stack.extend(reversed(missing))
                continue
            if formula:
                body = self._expr(node.body)  # type: ignore[attr-defined]
                parts += (Lambda, node.axes, body)  # type: ignore[attr-defined]
            else:
                about = [getattr(node, f) for f in node.__match_args__ if f != "args"]
                parts += (type(node), *about, *[refs[cast(Tensor, t)] for t in below])
            refs[node] = len(parts)

    def _expr(self, e: Expr) -> object:
        """What stands for an expression whose tensors were visited."""
        if not e.reads:
            return e
        refs = self.refs
        found = refs.get(e)
        if found is not None:
            return found
        kind, parts = type(e), self.parts
        if kind is Read:
            indices = e.indices  # type: ignore[attr-defined]
            if len(e.reads) > 1:  # indices that read
                indices = tuple([self._expr(i) for i in indices])
            parts += (Read, refs[e.tensor], indices)  # type: ignore[attr-defined]
        elif kind is Call:
            args = [self._expr(a) for a in e.args]  # type: ignore[attr-defined]
            parts += (Call, e.op, *args)  # type: ignore[attr-defined]
        else:
            assert isinstance(e, Reduce)
            body = self._expr(e.body)
            parts += (Reduce, e.op, e.axes, body)
        found = refs[e] = len(parts)
        return found

    def _slot(self, source: Source) -> Source:
        """The slot of a stored tensor, made once for each name that the tensor gets."""
        data = source.data
        assert isinstance(data, Stored), "sources of programs hold stored tensors"
        name = _letter(len(self.slots))
        key = f"{name}, strict" if self.strict else name
        found = data.facts.get(key)
        if found is None:
            fmt, dtypes, thick = data.signature
            most = largest(data) if self.strict else math.inf
            slot = Slot(name, fmt, dtypes, most=most, thick=thick)  # type: ignore[arg-type]
            found = data.facts[key] = Source(slot, source.shape, source.dtype, source.fill)
        assert isinstance(found, Source)
        self.slots.append(found)
        self.stored[name] = data
        return found


class _Builder:
    """Programs with other tensors in place of some."""

    __slots__ = ("exprs", "tensors")

    def __init__(self, instead: dict[Tensor, Source]) -> None:
        self.tensors: dict[Tensor, Tensor] = dict(instead)
        self.exprs: dict[Expr, Expr] = {}

    def bound(self, root: Tensor) -> Tensor:
        done, stack = self.tensors, [root]
        while stack:
            node = stack[-1]
            if node in done:
                stack.pop()
                continue
            below = node.body.reads if isinstance(node, Lambda) else children(node)
            missing = [cast(Tensor, t) for t in below if t not in done]
            if missing:
                stack.extend(reversed(missing))
            elif isinstance(node, Lambda):
                done[node] = Lambda(node.axes, self._expr(node.body))
            else:
                args = tuple([done[cast(Tensor, t)] for t in below])
                done[node] = cast(Tensor, rebuild(node, args))
        return done[root]

    def _expr(self, e: Expr) -> Expr:
        """An expression whose tensors are bound."""
        if not e.reads:
            return e
        found = self.exprs.get(e)
        if found is None:
            match e:
                case Read():
                    found = Read(self.tensors[e.tensor], tuple(map(self._expr, e.indices)))
                case Call():
                    found = Call(e.op, tuple(map(self._expr, e.args)))
                case _:
                    assert isinstance(e, Reduce)
                    found = Reduce(e.op, e.axes, self._expr(e.body))
            self.exprs[e] = found
        return found


def largest(stored: Stored) -> float:
    """A bound on the absolute values, the same for all tensors of about the same magnitude."""
    if stored.dtype.kind in "biu" or type(stored.format).value is not Format.value:
        return math.inf  # integers are finite anyway; the format computes its values
    with np.errstate(all="ignore"):
        most = float(np.abs(stored.arrays["val"]).max(initial=0))
    return rounded(most) if most == most else math.inf


def _letter(k: int) -> str:
    return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[k % 26] + (str(k // 26) if k >= 26 else "")
