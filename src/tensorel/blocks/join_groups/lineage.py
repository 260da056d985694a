"""Join groups: what a step of a blocked program needs, makes and adds up, as arrays.

A join group needs some input blocks, makes a partial result and belongs to one aggregation group,
its target. A placement says where each of them is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorel.base.records import dataclass
from tensorel.errors import ShapeError, ValueError_

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

FREE = -1  # the home of a block that comes into being where the plan says; an absent operand


@dataclass(frozen=True, eq=False, slots=True)
class JoinGroups:
    """``blocks`` (groups, operands): ids of input blocks, -1 where an operand is absent;
    ``target`` (groups,): aggregation groups; ``home`` (blocks,): sites, -1: free; ``size``
    (blocks,): bytes; ``work`` (groups,): flops; ``made`` (targets,): bytes of a partial result and
    of the finished block; ``merge`` (targets,): flops of adding one partial result to another."""

    blocks: Ints
    target: Ints
    home: Ints
    size: Floats
    work: Floats
    made: Floats
    merge: Floats

    def check(self, sites: int | None = None) -> JoinGroups:
        """Itself, with arrays of the declared types; an error where they do not fit together."""
        blocks = np.asarray(self.blocks)
        if blocks.ndim != 2:
            raise ShapeError(f"blocks of join groups have shape {blocks.shape}",
                             hint="give an array (groups, operands)")
        counts = {"target": len(blocks), "work": len(blocks), "size": len(self.home),
                  "home": len(self.home), "made": len(self.made), "merge": len(self.made)}
        arrays: dict[str, NDArray[Any]] = {"blocks": blocks}
        for name, count in counts.items():
            arrays[name] = np.asarray(getattr(self, name))
            if arrays[name].shape != (count,):
                raise ShapeError(f"{name} of join groups has shape {arrays[name].shape}, "
                                 f"expected ({count},)")
        bounds = {"blocks": (-1, len(self.home)), "target": (0, len(self.made)),
                  "home": (-1, np.iinfo(np.int64).max if sites is None else sites)}
        for name, (low, high) in bounds.items():
            _in_range(name, arrays[name], low, high)
            arrays[name] = arrays[name].astype(np.int64, copy=False)
        for name in ("size", "work", "made", "merge"):
            found = arrays[name] = arrays[name].astype(np.float64, copy=False)
            if not (np.isfinite(found) & (found >= 0)).all():
                raise ValueError_(f"{name} of join groups is negative or not finite")
        return replace(self, **arrays)

    def subset(self, chosen: NDArray[np.generic]) -> JoinGroups:
        """The join groups at these positions, of the same blocks and targets."""
        return replace(self, blocks=self.blocks[chosen], target=self.target[chosen],
                       work=self.work[chosen])


@dataclass(frozen=True, eq=False, slots=True)
class Placement:
    """Where join groups run, where aggregation groups are finished, where blocks lie."""

    group_site: Ints
    target_site: Ints
    home: Ints

    def check(self, groups: JoinGroups, sites: int) -> Placement:
        """Itself; an error where it does not place these groups on so many sites."""
        wanted = {"group_site": len(groups.blocks), "target_site": len(groups.made),
                  "home": len(groups.home)}
        for name, count in wanted.items():
            found = getattr(self, name)
            if found.shape != (count,):
                raise ShapeError(f"{name} of a placement has shape {found.shape}, "
                                 f"expected ({count},)")
            _in_range(name, found, 0, sites)
        if ((groups.home >= 0) & (groups.home != self.home)).any():
            raise ValueError_("a placement moves the home of a block that lies somewhere",
                              hint="only blocks with home -1 come into being where a plan says")
        return self


def _in_range(name: str, found: NDArray[np.generic], low: int, high: int) -> None:
    if found.dtype.kind not in "iu":
        raise ValueError_(f"{name} has dtype {found.dtype}, expected integers")
    if found.size and (int(found.min()) < low or int(found.max()) >= high):
        raise ValueError_(f"{name} lies in {found.min()}..{found.max()}, "
                          f"expected {low}..{high - 1}")


def distinct(major: Ints, minor: Ints, width: int) -> tuple[Ints, Ints, Ints]:
    """The distinct pairs of both, ``minor`` below ``width``, ascending, and how often each is."""
    key = major * width + minor
    if len(key) and int(key.max()) < 8 * len(key) + 1024:
        count = np.bincount(key)
        key = np.flatnonzero(count)
        count = count[key]
    else:
        key, count = np.unique(key, return_counts=True)
    return key // width, key % width, count


def needed(groups: JoinGroups, label: Ints, width: int) -> tuple[Ints, Ints]:
    """The distinct pairs of a block and the label of a join group that needs it."""
    labels = np.broadcast_to(label[:, None], groups.blocks.shape).ravel()
    blocks = groups.blocks.ravel()
    if len(blocks) and blocks.min() < 0:
        labels, blocks = labels[blocks >= 0], blocks[blocks >= 0]
    block, found, _ = distinct(blocks, labels, width)
    return block, found
