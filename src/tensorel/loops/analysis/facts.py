"""Facts about whole numbers in a program, and variables that count."""

from __future__ import annotations

from enum import IntFlag

from tensorel.loops.syntax import (
    Apply,
    Assign,
    Body,
    Expr,
    Extent,
    For,
    Name,
    Number,
    assigned_names,
    walk,
)
from tensorel.loops.types import PY_INT
from tensorel.loops.typing import Typing


class Fact(IntFlag):
    """Of a whole number: INSIDE 0 <= i < n as an index, BEHIND -n <= i < 0; FITS in 63 bits, is
    SMALL enough for a double, in 32 or in 16 bits; POSITIVE, NATURAL, NEGATIVE. ONCE: of a
    remainder, the divisor is added or subtracted once at most. Of an entry (``reuse``): STILL the
    same in all turns of the innermost loop, PREVIOUS what the turn before has stored, SPLIT the
    same before and after one turn."""

    INSIDE = 1
    BEHIND = 2
    FITS = 4
    SMALL = 8
    INT32 = 16
    INT16 = 32
    POSITIVE = 64
    NATURAL = 128
    NEGATIVE = 256
    ONCE = 512
    STILL = 1024
    PREVIOUS = 2048
    SPLIT = 4096


SIZES = ((2**62, Fact.FITS), (2**53, Fact.SMALL), (2**31 - 1, Fact.INT32),
          (2**15 - 1, Fact.INT16))
Facts = dict[Expr, Fact]
#: A variable that starts below this and moves by less than a thousand at a time stays below twice
#: as much: to get there takes months of turns.
COUNTED = 2**61
_MAX_STEP = 1000


def counters(body: Body, known: set[str], typing: Typing) -> set[str]:
    """Variables that are only moved by small steps, and set to literals, counters of loops, or
    other such variables."""
    names = {n for n in assigned_names(body) if typing.names[n] == PY_INT}
    while True:
        out = {s.name for s in walk(body) if isinstance(s, Assign) and s.name in names
               and not _counted(s.value, names | known)}
        if not out:
            return names
        names -= out


def _counted(e: Expr, names: set[str]) -> bool:
    match e:
        case Number(value=int() as value):
            return abs(value) <= _MAX_STEP
        case Name(name=name):
            return name in names
        case Extent():
            return True
        case Apply(function="+" | "-", args=(a, Number(value=int() as c))):
            return abs(c) <= _MAX_STEP and _counted(a, names)
    return False


def target(stmt: Assign | For) -> str:
    return stmt.name if isinstance(stmt, Assign) else stmt.target


def step_of(stmt: Assign | For) -> int | None:
    """By how much ``x = x + c`` moves x, None for other statements."""
    match stmt:
        case Assign(name=name, value=Apply(function="+" | "-" as op, args=(
                Name(name=same), Number(value=int() as c)))) if same == name:
            return c if op == "+" else -c
    return None
