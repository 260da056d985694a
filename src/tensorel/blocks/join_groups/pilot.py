"""The pilot run: an aggregated join tree over keys alone, which gives its join groups.

Every row of an intermediate relation has its keys and the input block of each operand. Joins are
sort-merge joins on keys packed into one integer; there is no loop over rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from tensorel.base.records import dataclass
from tensorel.blocks.join_groups.lineage import JoinGroups
from tensorel.errors import ShapeError, ValueError_

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from tensorel.blocks.join_groups.lineage import Floats, Ints

#: A column by its number, or a function of all columns (rows, columns) that gives one value a row.
Key: TypeAlias = "int | Callable[[NDArray[np.int64]], NDArray[np.int64]]"
Tree: TypeAlias = "Scan | Join | Project"

ABSENT = int(np.iinfo(np.int64).min)  # a key of an operand that is missing; it joins with nothing
_LIMIT = 2**62


@dataclass(frozen=True, slots=True)
class Scan:
    """A relation by its number; the same one may be scanned several times."""

    relation: int


@dataclass(frozen=True, slots=True)
class Join:
    """Pairs of rows with equal keys; columns are those of ``left``, then those of ``right``.

    ``outer`` keeps rows without partner: the missing operands are -1, and so are columns ABSENT,
    except those that are joined by number: there the partner's key is known."""

    left: Tree
    right: Tree
    on: tuple[tuple[Key, Key], ...]
    outer: Literal["", "left", "right", "full"] = ""


@dataclass(frozen=True, slots=True)
class Project:
    """Other columns for the same rows."""

    source: Tree
    keys: tuple[Key, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Lineage:
    """``blocks`` and ``target`` as in ``JoinGroups``; ``keys`` of the join groups and
    ``target_keys`` of the aggregation groups; block ``i`` of relation ``r`` has the id
    ``first[r] + i``."""

    blocks: Ints
    target: Ints
    keys: Ints
    target_keys: Ints
    first: Ints

    def groups(self, home: ArrayLike = -1, size: ArrayLike = 1.0, work: ArrayLike = 1.0,
               made: ArrayLike = 1.0, merge: ArrayLike = 1.0) -> JoinGroups:
        """Join groups with these costs: arrays, or one number for all."""

        def filled(values: ArrayLike, count: int) -> Floats:
            given = np.asarray(values, np.float64)
            return given if given.ndim else np.full(count, given)

        blocks, targets = int(self.first[-1]), len(self.target_keys)
        homes = np.asarray(home, np.int64)
        return JoinGroups(
            self.blocks, self.target, homes if homes.ndim else np.full(blocks, homes),
            filled(size, blocks), filled(work, len(self.target)), filled(made, targets),
            filled(merge, targets)).check()


def pilot(relations: Sequence[ArrayLike], tree: Tree, group_by: Sequence[Key]) -> Lineage:
    """The lineage of an aggregated join tree over ``relations``, arrays (blocks, key columns).

    >>> keys = np.array([(i, k) for i in range(2) for k in range(2)])
    >>> product = pilot([keys, keys], Join(Scan(0), Scan(1), ((1, 0),)), group_by=(0, 3))
    >>> product.blocks[0], product.target_keys[product.target[0]]
    (array([0, 4]), array([0, 0]))
    """
    arrays = [np.asarray(r, np.int64) for r in relations]
    if any(a.ndim != 2 for a in arrays):
        shapes = ", ".join(str(a.shape) for a in arrays)
        raise ShapeError(f"keys of relations have shapes {shapes}",
                         hint="give arrays (blocks, key columns)")
    first = np.cumsum([0, *(len(a) for a in arrays)])
    keys, blocks = _run(tree, arrays, first)
    wanted = np.stack([_column(keys, k) for k in group_by], 1) if len(group_by) else keys[:, :0]
    _, one, target = np.unique(_packed(wanted), return_index=True, return_inverse=True)
    return Lineage(blocks, target.astype(np.int64), keys, wanted[one], first)


def _run(tree: Tree, relations: list[Ints], first: Ints) -> tuple[Ints, Ints]:
    """Keys (rows, columns) and blocks (rows, operands)."""
    if isinstance(tree, Scan):
        if not 0 <= tree.relation < len(relations):
            raise ValueError_(f"a scan of relation {tree.relation} of {len(relations)}")
        keys = relations[tree.relation]
        return keys, (first[tree.relation] + np.arange(len(keys)))[:, None]
    if isinstance(tree, Project):
        keys, blocks = _run(tree.source, relations, first)
        columns = [_column(keys, k) for k in tree.keys]
        return np.stack(columns, 1) if columns else keys[:, :0], blocks
    left, right = _run(tree.left, relations, first), _run(tree.right, relations, first)
    on = [np.stack([_column(side[0], pair[at]) for pair in tree.on], 1) if tree.on
          else side[0][:, :0] for at, side in enumerate((left, right))]
    rows = _matches(on[0], on[1], tree.outer)
    parts = [_taken(side, row) for side, row in zip((left, right), rows)]
    for at in (0, 1):  # what is missing on one side is joined by the other side's key
        lost = rows[at] < 0
        for number, pair in enumerate(tree.on):
            column = pair[at]
            if isinstance(column, int) and lost.any():
                parts[at][0][lost, column] = on[1 - at][rows[1 - at][lost], number]
    return (np.concatenate([parts[0][0], parts[1][0]], 1),
            np.concatenate([parts[0][1], parts[1][1]], 1))


def _taken(side: tuple[Ints, Ints], rows: Ints) -> tuple[Ints, Ints]:
    """Rows of keys and blocks; row -1 is missing."""
    keys, blocks = side
    lost = rows < 0
    if not lost.any():
        return keys[rows], blocks[rows]
    taken = (np.full((len(rows), keys.shape[1]), ABSENT), np.full((len(rows), blocks.shape[1]), -1))
    for made, given in zip(taken, side):
        made[~lost] = given[rows[~lost]]
    return taken


def _column(keys: Ints, key: Key) -> Ints:
    if isinstance(key, int):
        if not 0 <= key < keys.shape[1]:
            raise ValueError_(f"key column {key} of a relation with {keys.shape[1]} columns")
        return keys[:, key]
    values = np.asarray(key(keys))
    if values.shape != (len(keys),) or values.dtype.kind not in "iub":
        raise ShapeError(f"a key function gave shape {values.shape} and dtype {values.dtype}, "
                         f"expected ({len(keys)},) integers")
    return values.astype(np.int64)


def _packed(columns: Ints) -> Ints:
    """One integer a row: equal where rows are, in the order of rows."""
    code, span = np.zeros(len(columns), np.int64), 1
    if not len(columns):
        return code
    for column in columns.T:
        low = int(column.min())
        width = int(column.max()) - low + 1
        if span * width >= _LIMIT:  # ranks instead of values
            _, column = np.unique(column, return_inverse=True)
            _, code = np.unique(code, return_inverse=True)
            low, width, span = 0, int(column.max()) + 1, int(code.max()) + 1
        code = code * width + (column - low)
        span *= width
    return code


def _matches(left: Ints, right: Ints, outer: str) -> tuple[Ints, Ints]:
    """Rows of both sides with equal keys, in the order of left rows, then of right rows; -1 for
    the partner that a row of an outer join does not have."""
    code = _packed(np.concatenate([left, right]))
    of_left, of_right = code[: len(left)], code[len(left) :]
    known = np.flatnonzero(~(right == ABSENT).any(1))
    by_key = known[np.argsort(of_right[known], kind="stable")]
    ordered = of_right[by_key]
    start = np.searchsorted(ordered, of_left, "left")
    count = np.searchsorted(ordered, of_left, "right") - start
    count[(left == ABSENT).any(1)] = 0
    rows = np.repeat(np.arange(len(left)), count)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
    found = by_key[np.repeat(start, count) + within]
    if outer in ("left", "full"):
        lonely = np.flatnonzero(count == 0)
        rows = np.concatenate([rows, lonely])
        found = np.concatenate([found, np.full(len(lonely), -1)])
        order = np.argsort(rows, kind="stable")
        rows, found = rows[order], found[order]
    if outer in ("right", "full"):
        met = np.zeros(len(right), bool)
        met[found[found >= 0]] = True
        lonely = np.flatnonzero(~met)
        rows = np.concatenate([rows, np.full(len(lonely), -1)])
        found = np.concatenate([found, lonely])
    return rows, found
