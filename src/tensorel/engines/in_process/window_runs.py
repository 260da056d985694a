"""Runs long programs window by window.

Each window is a program over stored tensors, among them results of earlier windows, and is planned
for the sizes that these really have. Its plan is kept for the same program: ten thousand steps of a
loop are a hundred runs of one plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorel.ir.analysis import fill as fill_of
from tensorel.ir.analysis import is_whole
from tensorel.ir.nodes import Source, Tensor
from tensorel.ir.replacing import replaced
from tensorel.plan.logical.windows import Window
from tensorel.storage.derived import Derived
from tensorel.storage.stored import Stored

#: Tensors, a format for each, and bytes that are held beside their operands.
Evaluate = Callable[[Sequence[Tensor], Sequence[object], int], list[Stored]]


def in_windows(windows: Sequence[Window], nodes: Sequence[Tensor], formats: Sequence[object],
               evaluate: Evaluate) -> list[Stored]:
    """The results of a program that is cut into windows."""
    wanted: dict[Tensor, list[object]] = {}
    for node, format in zip(nodes, formats):
        wanted.setdefault(node, []).append(format)
    results: dict[tuple[Tensor, object], Stored] = {}
    stored = [(n, f) for n, f in zip(nodes, formats) if isinstance(n, Source)]
    results.update(zip(stored, evaluate([n for n, _ in stored], [f for _, f in stored], 0)))
    sources: dict[Tensor, Source] = {}  # what later windows read
    for w in windows:
        asked = [(t, f) for t in w.made for f in dict.fromkeys(wanted.get(t, [None]))]
        new = replaced([t for t, _ in asked], {t: sources[t] for t in w.read})
        beside = sum([_bytes(s) for t, s in sources.items() if t not in w.read])
        found = evaluate(new, [f for _, f in asked], beside)
        for (t, f), value in zip(asked, found):
            sources.setdefault(t, _source(t, value))
            if t in wanted:
                results[t, f] = value
        for t in w.done:
            del sources[t]
    return [results[n, f] for n, f in zip(nodes, formats)]


def _bytes(source: Source) -> int:
    assert isinstance(source.data, Stored)
    return source.data.nbytes


def _source(t: Tensor, value: Stored) -> Source:
    """The result of a window as an operand of later ones. Whether it has a value everywhere follows
    from its formula, not from its storage; in a result for the user this is not noted."""
    derived = Derived()
    derived.count, derived.nbytes = value.derived.count, value.derived.nbytes
    whole = is_whole(t)
    data = Stored(value.format, value.shape, value.dtype, value.fill, value.arrays, derived,
                  whole=None if whole == value.format.is_dense else whole)
    return Source(data, t.shape, t.dtype, fill_of(t))
