"""Long programs are taken in windows: parts of bounded length, one after another.

What passes look for grows faster than a program: orders of contraction, equal formulas, ways to
write it, what waits for its one reader. Up to ``MAX_WHOLE_STEPS`` all is looked at together. A
longer program is cut where little passes from one part to the next: what does is stored, and
each part is a program of its own, with the whole optimizer. So planning grows with the length,
and parts of a loop that nobody stopped, which are the same program again and again, are planned
once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tensorel.base.records import dataclass
from tensorel.ir.analysis import is_whole
from tensorel.ir.nodes import Lambda, Read, Source, Tensor, children, is_gather

#: Steps of a program that is planned whole, and of a window of a longer one.
MAX_WHOLE_STEPS, WINDOW_STEPS = 128, 64
#: A formula that only reads its operand elsewhere is this part of a step.
MOVE_SHARE = 1 / 8
#: What has entries at some places alone is stored in less than all of its cells, by this estimate.
SPARSE_SHARE = 1 / 16


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a program: ``made`` are the tensors that others read later or that are asked for,
    ``read`` those of earlier parts that it needs, ``done`` those of both that nobody reads after
    it."""

    made: tuple[Tensor, ...]
    read: tuple[Tensor, ...]
    done: tuple[Tensor, ...]


def windows(roots: Sequence[Tensor]) -> list[Window]:
    """The parts of a long program in order of evaluation; none of a program that is not long."""
    tensors = _operands_first(roots)
    if len(tensors) <= MAX_WHOLE_STEPS:
        return []
    steps = [MOVE_SHARE if isinstance(t, Lambda) and isinstance(t.body, Read)
             and not is_gather(t.body) else 1.0 for t in tensors]
    if sum(steps) <= MAX_WHOLE_STEPS:
        return []
    number = {t: k for k, t in enumerate(tensors)}
    last = list(range(len(tensors)))  # the last reader of each
    for k, t in enumerate(tensors):
        for operand in _below(t):
            if not isinstance(operand, Source):
                last[number[operand]] = k
    ends = _cuts(steps, _crossing(tensors, last, set(roots)))
    return _parts(tensors, ends, last, number, set(roots))


def _below(t: Tensor) -> Iterable[Tensor]:
    return t.body.reads if isinstance(t, Lambda) else children(t)  # type: ignore[return-value]


def _operands_first(roots: Sequence[Tensor]) -> list[Tensor]:
    """Every formula and operator once, after what it reads; depth first, so that little waits."""
    done: dict[Tensor, None] = {}
    stack = [r for r in reversed(roots) if not isinstance(r, Source)]
    while stack:
        t = stack[-1]
        missing = [] if t in done else [
            x for x in _below(t) if not isinstance(x, Source) and x not in done]
        if missing:
            stack.extend(reversed(missing))
        else:
            done.setdefault(stack.pop())
    return list(done)


def _crossing(tensors: list[Tensor], last: list[int], asked: set[Tensor]) -> list[float]:
    """What would be stored for a cut after each tensor: estimated cells that are read later, and
    are not stored anyway."""
    begins, found, held = [0.0] * (len(tensors) + 1), [], 0.0
    for k, t in enumerate(tensors):
        if last[k] > k and t not in asked:
            size = 1.0 if is_whole(t) else SPARSE_SHARE
            for n in t.shape:
                size *= n
            held += size + 1.0
            begins[last[k]] += size + 1.0
        held -= begins[k]
        found.append(held)
    return found


def _cuts(steps: list[float], crossing: list[float]) -> list[int]:
    """Ends of the windows: each at the narrowest place of its second half, the last of equals."""
    ends: list[int] = []
    length, best = 0.0, -1
    k = 0
    while k < len(steps):
        length += steps[k]
        if length > WINDOW_STEPS and best >= 0:
            ends.append(best + 1)
            k, length, best = best + 1, 0.0, -1
            continue
        if length > WINDOW_STEPS / 2 and (best < 0 or crossing[k] <= crossing[best]):
            best = k
        k += 1
    return [*ends, len(steps)]


def _parts(tensors: list[Tensor], ends: list[int], last: list[int], number: dict[Tensor, int],
           asked: set[Tensor]) -> list[Window]:
    found = []
    begin = 0
    for end in ends:
        read: dict[Tensor, None] = {}
        for t in tensors[begin:end]:
            read.update(dict.fromkeys(
                x for x in _below(t) if not isinstance(x, Source) and number[x] < begin))
        made = [t for k, t in enumerate(tensors[begin:end], begin) if last[k] >= end or t in asked]
        done = [t for t in (*read, *made) if last[number[t]] < end]
        found.append(Window(tuple(made), tuple(read), tuple(done)))
        begin = end
    return found
