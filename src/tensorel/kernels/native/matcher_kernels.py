"""The kernels of ``native.matcher``: hash tables from words to the numbers of their groups.

A table is pairs of words: a key, and one more than the number of its group (0: a free slot). Slots
are probed one after the other from the one that the leading bits of the mixed key name. A filter is
words of bits: a key sets four bits of one word, so a look-up reads one word of it.
"""

from __future__ import annotations

from functools import cache

from tensorel.algebra import ops
from tensorel.ir.nodes import INT64, Call, Local
from tensorel.kernels.loopir.statements import Kernel
from tensorel.kernels.native.notation import UINT64, Code, Memory, X, scalar, word

_MIXER = 0x9E3779B97F4A7C15
_FILTER_FIELDS = (0, 6, 12, 18)  # places of six bits each that name a bit of the word


def _finish(code: Code, name: str, written: set[str], scalars: list[str]) -> Kernel:
    arrays = tuple(m.source for m in code.arrays.values())
    lo, hi = Local("lo", INT64), Local("hi", INT64)
    parameters = tuple(Local(s, INT64) for s in scalars)
    return Kernel(name, arrays, frozenset(written), (), parameters, lo, hi, code.done())


def _mixed(code: Code, key: X) -> X:
    """A one-to-one function of the key whose leading bits depend on all of it."""
    folded = X(Call(ops.bitwise_xor, (key.e, (key >> 32).e)))
    return code.let("mixed", folded * word(_MIXER))


def _probe(code: Code, table: Memory, key: X, mixed: X) -> X:
    """Twice the slot where the key is, or where it belongs."""
    slot = code.let("slot", (mixed >> scalar("shift").to(UINT64)).to(INT64) << 1)
    with code.loop(table[slot + 1].is_not(0).also(table[slot].is_not(key))):
        code.set(slot, (slot + 2) & scalar("wrap"))
    return slot


@cache
def insert_kernel() -> Kernel:
    """The group of each key, in the order of first appearance; ``report``: how many there are, and
    the key at which the table has become too full."""
    code = Code()
    keys, table = code.array("keys", UINT64), code.array("table", UINT64)
    ids, first = code.array("ids", INT64), code.array("first", INT64)
    report = code.array("report", INT64)
    k, groups = code.let("k", scalar("lo")), code.let("groups", report[0])
    with code.loop((k < scalar("hi")).also(groups < scalar("most")), checked=True):
        key = code.let("key", keys[k])
        slot = _probe(code, table, key, _mixed(code, key))
        found = code.let("found", table[slot + 1].to(INT64))
        with code.when(found.is_(0)):
            code.store(first, groups, k)
            code.set(groups, groups + 1)
            code.set(found, groups)
            code.store(table, slot, key)
            code.store(table, slot + 1, groups.to(UINT64))
        code.store(ids, k, found - 1)
        code.set(k, k + 1)
    code.store(report, 0, groups)
    code.store(report, 1, k)
    return _finish(code, "match_insert", {"table", "ids", "first", "report"},
                   ["shift", "wrap", "most"])


@cache
def rehash_kernel() -> Kernel:
    """Slots of an old table into an empty one."""
    code = Code()
    old, table = code.array("old", UINT64), code.array("table", UINT64)
    k = code.let("k", scalar("lo"))
    with code.loop(k < scalar("hi"), checked=True):
        group = code.let("group", old[k * 2 + 1])
        with code.when(group.is_not(0)):
            key = code.let("key", old[k * 2])
            slot = _probe(code, table, key, _mixed(code, key))
            code.store(table, slot, key)
            code.store(table, slot + 1, group)
        code.set(k, k + 1)
    return _finish(code, "match_rehash", {"table"}, ["shift", "wrap"])


@cache
def lookup_kernel(filtered: bool) -> Kernel:
    """The group of each key, -1 if it has none."""
    code = Code()
    keys, table = code.array("keys", UINT64), code.array("table", UINT64)
    ids = code.array("ids", INT64)
    k = code.let("k", scalar("lo"))
    with code.loop(k < scalar("hi"), checked=True):
        key = code.let("key", keys[k])
        mixed = _mixed(code, key)
        if filtered:
            bits = code.array("filter", UINT64)
            wanted = _bits(code, mixed)
            code.store(ids, k, -1)
            with code.when((bits[_filter_word(mixed)] & wanted).is_(wanted)):
                code.store(ids, k, table[_probe(code, table, key, mixed) + 1].to(INT64) - 1)
        else:
            code.store(ids, k, table[_probe(code, table, key, mixed) + 1].to(INT64) - 1)
        code.set(k, k + 1)
    return _finish(code, f"match_lookup_{int(filtered)}", {"ids"},
                   ["shift", "wrap", *(["filter_shift"] if filtered else [])])


def _filter_word(mixed: X) -> X:
    return (mixed >> scalar("filter_shift").to(UINT64)).to(INT64)


def _bits(code: Code, mixed: X) -> X:
    """The bits of a key in its word: other bits of the mixed key than those that name the word."""
    found = word(0)
    for field in _FILTER_FIELDS:
        found = found | (word(1) << ((mixed >> field) & 63))
    return code.let("wanted", found)


@cache
def filter_kernel() -> Kernel:
    """Keys into an empty filter."""
    code = Code()
    keys, bits = code.array("keys", UINT64), code.array("filter", UINT64)
    k = code.let("k", scalar("lo"))
    with code.loop(k < scalar("hi"), checked=True):
        mixed = _mixed(code, code.let("key", keys[k]))
        at = code.let("at", _filter_word(mixed))
        code.store(bits, at, bits[at] | _bits(code, mixed))
        code.set(k, k + 1)
    return _finish(code, "match_filter", {"filter"}, ["filter_shift"])


@cache
def direct_insert_kernel() -> Kernel:
    """As ``insert_kernel`` for keys within a small range: a place for each."""
    code = Code()
    keys, table = code.array("keys", INT64), code.array("table", INT64)
    ids, first = code.array("ids", INT64), code.array("first", INT64)
    report = code.array("report", INT64)
    k, groups = code.let("k", scalar("lo")), code.let("groups", report[0])
    with code.loop(k < scalar("hi"), checked=True):
        at = code.let("at", keys[k] - scalar("least"))
        found = code.let("found", table[at])
        with code.when(found.is_(0)):
            code.store(first, groups, k)
            code.set(groups, groups + 1)
            code.set(found, groups)
            code.store(table, at, groups)
        code.store(ids, k, found - 1)
        code.set(k, k + 1)
    code.store(report, 0, groups)
    return _finish(code, "match_direct_insert", {"table", "ids", "first", "report"}, ["least"])


@cache
def direct_lookup_kernel() -> Kernel:
    """As ``lookup_kernel`` in a table with a place for each key."""
    code = Code()
    keys, table = code.array("keys", INT64), code.array("table", INT64)
    ids = code.array("ids", INT64)
    k = code.let("k", scalar("lo"))
    with code.loop(k < scalar("hi"), checked=True):
        key = code.let("key", keys[k])
        found = code.let("found", X(Local("lo", INT64)) * 0)
        with code.when((key >= scalar("least")).also(key <= scalar("largest"))):
            code.set(found, table[key - scalar("least")])
        code.store(ids, k, found - 1)
        code.set(k, k + 1)
    return _finish(code, "match_direct_lookup", {"ids"}, ["least", "largest"])


@cache
def count_kernel() -> Kernel:
    """counts[group] += 1 for each member; members of no group (-1) are left out."""
    code = Code()
    ids, counts = code.array("ids", INT64), code.array("counts", INT64)
    k = code.let("k", scalar("lo"))
    with code.loop(k < scalar("hi"), checked=True):
        group = code.let("group", ids[k])
        with code.when(group >= 0):
            code.store(counts, group, counts[group] + 1)
        code.set(k, k + 1)
    return _finish(code, "match_count", {"counts"}, [])


@cache
def scatter_kernel() -> Kernel:
    """Member k goes to place next[group]++."""
    code = Code()
    ids, following = code.array("ids", INT64), code.array("next", INT64)
    members = code.array("members", INT64)
    k = code.let("k", scalar("lo"))
    with code.loop(k < scalar("hi"), checked=True):
        group = code.let("group", ids[k])
        with code.when(group >= 0):
            place = code.let("place", following[group])
            code.store(members, place, k)
            code.store(following, group, place + 1)
        code.set(k, k + 1)
    return _finish(code, "match_scatter", {"next", "members"}, [])


@cache
def total_kernel() -> Kernel:
    """report[0]: how many pairs ``expand_kernel`` makes."""
    code = Code()
    ids, starts = code.array("ids", INT64), code.array("starts", INT64)
    report = code.array("report", INT64)
    k = code.let("k", scalar("lo"))
    total = code.let("total", X(Local("lo", INT64)) * 0)
    with code.loop(k < scalar("hi"), checked=True):
        group = code.let("group", ids[k])
        with code.when(group >= 0):
            code.set(total, total + starts[group + 1] - starts[group])
        with code.unless():
            code.set(total, total + scalar("outer"))
        code.set(k, k + 1)
    code.store(report, 0, total)
    return _finish(code, "match_total", {"report"}, ["outer"])


@cache
def expand_kernel() -> Kernel:
    """Pairs of k and each member of its group, from place ``out`` on; with ``outer``, one with
    -1 where it has none."""
    code = Code()
    ids, starts = code.array("ids", INT64), code.array("starts", INT64)
    members = code.array("members", INT64)
    left, right = code.array("left", INT64), code.array("right", INT64)
    k, out = code.let("k", scalar("lo")), code.let("out", scalar("start"))
    with code.loop(k < scalar("hi"), checked=True):
        group = code.let("group", ids[k])
        with code.when(group >= 0):
            at, end = code.let("at", starts[group]), code.let("end", starts[group + 1])
            with code.loop(at < end):
                code.store(left, out, k)
                code.store(right, out, members[at])
                code.set(out, out + 1)
                code.set(at, at + 1)
        with code.unless(), code.when(scalar("outer").is_(1)):
            code.store(left, out, k)
            code.store(right, out, -1)
            code.set(out, out + 1)
        code.set(k, k + 1)
    return _finish(code, "match_expand", {"left", "right"}, ["start", "outer"])
