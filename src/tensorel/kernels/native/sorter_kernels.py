"""The kernels of ``native.sorter``: words from coordinates, and entries from sorted words."""

from __future__ import annotations

from functools import cache

import numpy as np

from tensorel.base.records import dataclass
from tensorel.ir.nodes import INT64, DType, Local
from tensorel.kernels.loopir.statements import Kernel
from tensorel.kernels.native.notation import UINT64, Code, Memory, X, scalar, whole

_UNSIGNED = {n: np.dtype(f"uint{8 * n}") for n in (1, 2, 4, 8)}
Widths = tuple[DType, ...]
_TURN_ENTRIES = 2048  # entries at a time: what is fetched stays in the nearest cache


@dataclass(frozen=True, slots=True)
class Payload:
    """Values as kernels move them: ``parts`` elements each. ``rule`` says what becomes of values
    in one cell: "add" (integers wrap), "or" (booleans), or "last"."""

    elem: DType
    parts: int
    rule: str

    @property
    def name(self) -> str:
        return f"{self.elem.name}_{self.parts}_{self.rule}"


def payload(dtype: DType, add: bool) -> Payload:
    """How values of a dtype are moved, and added up where they may have to be."""
    size, rule = dtype.itemsize, "or" if dtype.kind == "b" else "add"
    if add and dtype.kind == "c":
        return Payload(np.dtype(f"float{4 * size}"), 2, rule)
    if add and dtype.kind == "f":
        return Payload(dtype, 1, rule)
    rule = rule if add else "last"
    return Payload(UINT64, 2, rule) if size == 16 else Payload(_UNSIGNED[size], 1, rule)


def _finish(code: Code, name: str, written: set[str], scalars: list[str]) -> Kernel:
    arrays = tuple(m.source for m in code.arrays.values())
    lo, hi = Local("lo", INT64), Local("hi", INT64)
    parameters = tuple(Local(s, INT64) for s in scalars)
    return Kernel(name, arrays, frozenset(written), (), parameters, lo, hi, code.done())


def _coordinates(code: Code, widths: Widths) -> tuple[list[Memory], list[str]]:
    """The coordinate arrays, and the scalars with the bits of all but the first."""
    arrays = [code.array(f"c{a}", w) for a, w in enumerate(widths)]
    return arrays, [f"bits{a}" for a in range(1, len(widths))]


def _key(code: Code, arrays: list[Memory], k: X) -> X:
    found = arrays[0][k].to(INT64)
    for a, array in enumerate(arrays[1:], 1):
        found = (found << scalar(f"bits{a}")) | array[k].to(INT64)
    return code.let("key", found)


def _named(name: str, widths: Widths) -> str:
    return "_".join((name, *(w.name for w in widths)))


@cache
def count_kernel(widths: Widths) -> Kernel:
    """counts[group] += 1 for each entry."""
    code = Code()
    arrays, bits = _coordinates(code, widths)
    counts = code.array("counts", INT64)
    k = code.let("k", scalar("lo"))
    with code.loop(k < scalar("hi"), checked=True):
        group = code.let("group", _key(code, arrays, k) >> scalar("low"))
        code.store(counts, group, counts[group] + 1)
        code.set(k, k + 1)
    return _finish(code, _named("count", widths), {"counts"}, [*bits, "low"])


@cache
def scatter_kernel(widths: Widths) -> Kernel:
    """The word of entry k, without its group, goes to place next[group]++."""
    code = Code()
    arrays, bits = _coordinates(code, widths)
    words, following = code.array("words", INT64), code.array("next", INT64)
    k = code.let("k", scalar("lo"))
    with code.loop(k < scalar("hi"), checked=True):
        key = _key(code, arrays, k)
        group = code.let("group", key >> scalar("low"))
        place = code.let("place", following[group])
        code.store(following, group, place + 1)
        code.store(words, place, ((key & scalar("mask")) << scalar("entry")) | k)
        code.set(k, k + 1)
    scalars = [*bits, "entry", "low", "mask"]
    return _finish(code, _named("scatter", widths), {"words", "next"}, scalars)


@cache
def digits_kernel() -> Kernel:
    """Sorts the words [lo, hi) by their bits from ``first`` to ``last``, digit by digit, the least
    first; words with the same bits keep their order. Two digits at a time: to spare and back."""
    code = Code()
    words, spare = code.array("words", INT64), code.array("spare", INT64)
    shift = code.let("shift", scalar("first"))
    with code.loop(shift < scalar("last"), checked=True):
        _distribute(code, words, scalar("lo"), spare, whole(0), shift)
        code.set(shift, shift + scalar("width"))
        _distribute(code, spare, whole(0), words, scalar("lo"), shift)
        code.set(shift, shift + scalar("width"))
    scalars = ["first", "last", "width", "digits"]
    return _finish(code, "digits", {"words", "spare", "counts"}, scalars)


def _distribute(code: Code, source: Memory, begin: X, target: Memory, start: X, shift: X) -> None:
    """From ``begin`` on in the source to ``start`` on in the target, by the digit at ``shift``."""
    counts = code.array("counts", INT64)
    d, k = code.let("d", whole(0)), code.let("k", whole(0))
    size = code.let("size", scalar("hi") - scalar("lo"))

    def digit(word: X) -> X:
        return code.let("digit", (word >> shift) & (scalar("digits") - 1))

    with code.loop(d < scalar("digits")):
        code.store(counts, d, 0)
        code.set(d, d + 1)
    with code.loop(k < size):
        here = digit(source[begin + k])
        code.store(counts, here, counts[here] + 1)
        code.set(k, k + 1)
    code.set(d, 0)
    total = code.let("total", whole(0))
    with code.loop(d < scalar("digits")):
        count = code.let("count", counts[d])
        code.store(counts, d, total)
        code.set(total, total + count)
        code.set(d, d + 1)
    code.set(k, 0)
    with code.loop(k < size):
        word = code.let("word", source[begin + k])
        here = digit(word)
        place = code.let("place", counts[here])
        code.store(counts, here, place + 1)
        code.store(target, start + place, word)
        code.set(k, k + 1)


class _Values:
    """Moves of values from where they were given to where they are stored."""

    def __init__(self, code: Code, kind: Payload) -> None:
        self.code, self.kind = code, kind
        self.given, self.made = code.array("values", kind.elem), code.array("val", kind.elem)

    def fetch(self, source: X, target: X) -> None:
        n = self.kind.parts
        for p in range(n):
            self.code.store(self.made, target * n + p, self.given[source * n + p])

    def move(self, source: X, target: X) -> None:
        n = self.kind.parts
        for p in range(n):
            self.code.store(self.made, target * n + p, self.made[source * n + p])

    def combine(self, source: X, target: X) -> None:
        n = self.kind.parts
        for p in range(n):
            at = self.code.let(f"at{p}", target * n + p)
            value, before = self.made[source * n + p], self.made[at]
            rules = {"add": before + value, "last": value}
            made = before | value if self.kind.rule == "or" else rules[self.kind.rule]
            self.code.store(self.made, at, made)


class _Rows:
    """Segment bounds of the first axis, written as its coordinates go by."""

    def __init__(self, code: Code, pos: Memory, row: X) -> None:
        self.code, self.pos, self.row = code, pos, row

    def below(self, stop: X, place: X) -> None:
        """Lines before ``stop`` that have no bound yet begin at ``place``."""
        with self.code.loop(self.row < stop):
            self.code.store(self.pos, self.row, place)
            self.code.set(self.row, self.row + 1)


@cache
def emit_kernel(widths: Widths, pos_width: DType | None, kind: Payload) -> Kernel:
    """The sorted words [lo, hi) of a group as entries from place lo on: leading coordinates in
    ``c0``, ... of ``widths``, or segment bounds in ``pos`` for the first axis; the last
    coordinate in place of the word. report[0] is the number of cells."""
    code = Code()
    words, values = code.array("words", INT64), _Values(code, kind)
    report = code.array("report", INT64)
    axes = [code.array(f"c{a}", w) for a, w in enumerate(widths)]
    rows: _Rows | None = None
    if pos_width is not None:
        rows = _Rows(code, code.array("pos", pos_width), code.let("row", scalar("start")))
    k, out = code.let("k", scalar("lo")), code.let("out", scalar("lo"))
    last, end = code.let("last", whole(-1)), code.let("end", whole(0))
    with code.loop(k < scalar("hi"), checked=True):
        code.set(end, k + _TURN_ENTRIES)
        code.set(end, (end < scalar("hi")).pick(end, scalar("hi")))
        # Nothing but far reads in this loop: the more of them are under way, the better.
        ahead = code.let("ahead", k)
        with code.loop(ahead < end):
            values.fetch(words[ahead] & scalar("numbers"), ahead)
            code.set(ahead, ahead + 1)
        with code.loop(k < end):
            key = code.let("key", words[k] >> scalar("entry"))
            with code.when(key.is_(last)):
                values.combine(k, out - 1)
            with code.unless():
                cell = code.let("cell", key | scalar("base"))
                if rows is not None:
                    rows.below((cell >> scalar("lead")) + 1, out)
                for a, axis in enumerate(axes):
                    code.store(axis, out, (cell >> scalar(f"shift{a}")) & scalar(f"mask{a}"))
                code.store(words, out, cell & scalar("mask"))
                values.move(k, out)
                code.set(out, out + 1)
                code.set(last, key)
            code.set(k, k + 1)
    if rows is not None:
        rows.below(scalar("stop"), out)
    code.store(report, 0, out - scalar("lo"))
    scalars = ["entry", "numbers", "base"]
    for a in range(len(widths)):
        scalars += (f"shift{a}", f"mask{a}")
    scalars += ["mask"] if rows is None else ["mask", "lead", "start", "stop"]
    written = {"words", "val", "report", *(f"c{a}" for a in range(len(widths)))}
    name = f"{_named('emit', widths)}_{kind.name}"
    if pos_width is not None:
        written, name = written | {"pos"}, f"{name}_{pos_width.name}"
    return _finish(code, name, written, scalars)


@cache
def bounds_kernel(width: DType, pos_width: DType) -> Kernel:
    """``pos`` of entries whose first coordinates ascend."""
    code = Code()
    major = code.array("major", width)
    rows = _Rows(code, code.array("pos", pos_width), code.let("row", whole(0)))
    k = code.let("k", scalar("lo"))
    with code.loop(k < scalar("hi"), checked=True):
        rows.below(major[k].to(INT64) + 1, k)
        code.set(k, k + 1)
    rows.below(scalar("lines") + 1, k)
    return _finish(code, f"bounds_{width.name}_{pos_width.name}", {"pos"}, ["lines"])
