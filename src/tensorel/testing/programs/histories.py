"""What happens to a random program and its tensors between computations."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel.testing.programs.data import random_values
from tensorel.testing.programs.program import Event, Leaf, Program, is_exact
from tensorel.testing.programs.sizes import Size

Array = npt.NDArray[Any]
Rng = np.random.Generator


def random_settings(rng: Rng) -> dict[str, object]:
    """Options of a computation."""
    settings: dict[str, object] = {}
    if rng.random() < 0.2:
        settings["optimize"] = False
    if rng.random() < 0.25:
        settings["threads"] = int(rng.integers(1, 4))
    if rng.random() < 0.08:
        settings["strict"] = True
    if rng.random() < 0.1:
        settings["memory"] = "6GB"
    return settings


def random_results(rng: Rng, program: Program) -> tuple[str, ...]:
    """Steps that are computed together with the last one."""
    if len(program.steps) < 2 or rng.random() < 0.8:
        return ()
    return tuple(s.name for s in program.steps[:-1] if rng.random() < 0.4)


def random_history(rng: Rng, program: Program, size: Size) -> tuple[Event, ...]:
    """Events; most programs have none, for most of the time goes to compiling."""
    if rng.random() < 0.65:
        return ()
    events: list[Event] = []
    for _ in range(int(rng.integers(1, size.events + 1))):
        moved = {e.name for e in events if e.kind == "move"}
        events.append(_random_event(rng, program, moved))
        lent = _lent(program, moved)
        if events[-1].kind == "ask" and lent:  # what is said later is what the memory holds then
            events.append(_random_write(rng, lent))
    last = max((k for k, e in enumerate(events) if e.kind in ("write", "move")), default=-1)
    return tuple(e for k, e in enumerate(events)  # a pickled result is cut off from its tensors
                 if k > last or e.kind != "pickle" or e.name != program.root)


def _random_event(rng: Rng, program: Program, moved: set[str]) -> Event:
    """The entries of ``moved`` lie elsewhere than in the program."""
    lent = _lent(program, moved)
    kinds = ["again", "again", "rebuild", "pickle", "copy", "elsewhere", "settings", "ask"]
    if lent:
        kinds += ["write"] * 8
    if any(leaf.how == "scipy_csr" for leaf in lent):
        kinds += ["move"] * 4
    kind = str(rng.choice(kinds))
    if kind == "write":
        return _random_write(rng, lent)
    if kind == "move":
        return Event(kind, next(leaf.name for leaf in lent if leaf.how == "scipy_csr"))
    if kind == "settings":
        changed = {"optimize": True, "threads": None, "strict": False, **random_settings(rng)}
        if rng.random() < 0.3:
            changed |= {"effort": "full" if rng.random() < 0.3 else "quick"}
        return Event("again", settings=changed)
    if kind in ("again", "rebuild", "ask"):
        return Event(kind)
    names = [leaf.name for leaf in program.leaves]
    if kind == "pickle" and program.steps and rng.random() < 0.4:
        return Event(kind, program.root)
    return Event(kind, str(rng.choice(names)))


def _lent(program: Program, moved: set[str]) -> list[Leaf]:
    return [leaf for leaf in program.leaves
            if leaf.how not in ("tensor", "alternatives") and leaf.name not in moved]


def _random_write(rng: Rng, lent: list[Leaf]) -> Event:
    leaf = lent[int(rng.integers(len(lent)))]
    return Event("write", leaf.name, _other_values(rng, leaf))


def _other_values(rng: Rng, leaf: Leaf) -> Array:
    """Other values where the leaf has entries; for memory of every cell, anywhere. Exact ones stay
    exact: steps that jump were chosen for them."""
    array = leaf.array.copy()
    with np.errstate(all="ignore"):
        chosen = rng.random(array.shape) < rng.choice([0.1, 0.5, 1.0])
        if leaf.how not in ("memory", "fortran", "window"):
            chosen &= ~np.isnan(array) if leaf.fill != leaf.fill else array != leaf.fill
        new = random_values(rng, array.dtype, int(chosen.sum()))
        array[chosen] = np.rint(new) if is_exact(leaf.array) and new.dtype.kind in "fc" else new
        zeros = chosen & (rng.random(array.shape) < 0.2)
        array[zeros] = 0
    return array
