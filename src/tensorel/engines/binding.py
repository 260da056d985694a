"""Programs over slots: what plans are made for, and the keys that they are found again by.

A program is a graph of nodes that is gone after the call. Its plan is found by one flat tuple, with
nodes numbered by first visit; the program over slots is built only to make a plan."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from tensorel import rules
from tensorel.config import Config
from tensorel.ir.nodes import Call, Expr, Lambda, Read, Reduce, Source, Tensor, children
from tensorel.ir.replacing import replaced
from tensorel.kernels.lowering.magnitude import rounded
from tensorel.kernels.lowering.nest import Slot
from tensorel.storage.refreshing import ready
from tensorel.storage.stored import Stored


class Bound:
    """A program over slots and the tensors for them."""

    __slots__ = ("_refs", "key", "nodes", "size", "slots", "stored")

    def __init__(self, nodes: Sequence[Tensor], writer: _Writer, key: tuple[object, ...]) -> None:
        self.nodes, self._refs = nodes, writer.refs
        self.slots: list[Source] = writer.slots
        self.stored: dict[str, Stored] = writer.stored
        self.key = key
        self.size = len(writer.refs)  # tensors and expressions

    @property
    def roots(self) -> list[Tensor]:
        """The program with slots in place of stored tensors."""
        return self.over_slots(self.nodes)

    def over_slots(self, nodes: Sequence[Tensor]) -> list[Tensor]:
        """Parts of the program with slots in place of stored tensors."""
        return replaced(nodes, {n: cast(Source, s) for n, s in self._refs.items()
                                if type(n) is Source})


def bind(nodes: Sequence[Tensor], formats: Sequence[object], config: Config) -> Bound:
    """Give stored tensors slots, numbered by first appearance; write the key of the plan."""
    writer = _Writer(config.strict)
    for n in nodes:
        writer.visit(n)
    stats = tuple([class_of(s) for s in writer.stored.values()])
    key = (tuple(writer.parts), tuple([writer.refs[n] for n in nodes]), tuple(formats), stats,
           settings_of(config))
    return Bound(nodes, writer, key)


def settings_of(config: Config) -> tuple[object, ...]:
    """The settings that plans depend on."""
    return (config.optimize, config.strict, config.disabled, config.memory, config.workers,
            config.effort, config.costs, rules.version())


def class_of(stored: Stored) -> object:
    """What plans depend on beside the format: about how many entries, and in which other formats
    the same tensor is stored."""
    size = stored.count.bit_length()
    if not stored.alternatives:
        return size
    return size, tuple([s.kind for s in stored.alternatives])


class _Writer:
    """Visits a program once. ``refs``: what stands for a node that was visited: a slot, or the
    length of ``parts`` after it. Every node begins with its class, so that different programs are
    different tuples. It has no closures, because a reference cycle would keep the user's tensors
    alive until the next collection of garbage."""

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
        ready(data)
        name = _letter(len(self.slots))
        most = largest(data) if self.strict else math.inf
        known = data.derived.slots
        if known is None:
            known = data.derived.slots = {}
        found = known.get((name, most))
        if found is None:
            slot = Slot(name, *data.signature, data.whole, most)
            found = known[name, most] = Source(slot, source.shape, source.dtype, source.fill)
        self.slots.append(found)
        self.stored[name] = data
        return found


def largest(stored: Stored) -> float:
    """A bound on the absolute values, the same for all tensors of about the same magnitude."""
    if stored.shared:
        return _largest(stored)
    found = stored.derived.largest
    if found is None:
        found = stored.derived.largest = _largest(stored)
    return found


def _largest(stored: Stored) -> float:
    values = stored.values
    if stored.dtype.kind in "biu" or values is None:
        return math.inf  # integers are finite anyway; the format computes its values
    with np.errstate(all="ignore"):
        most = float(np.abs(values).max(initial=0))
    return rounded(most) if most == most else math.inf


def _letter(k: int) -> str:
    return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[k % 26] + (str(k // 26) if k >= 26 else "")
