"""The cells of a mapping, all at once: cursors are enumerated as arrays, no loop over entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from tensorel.errors import StorageError
from tensorel.sdql.syntax import Apply, Expr, Name, parts
from tensorel.storage.limits import require
from tensorel.storage.mapped.pieces import Cursor, Piece
from tensorel.storage.mapped.terms import IntArray, Values, evaluate


def cells(pieces: tuple[Piece, ...], arrays: Mapping[str, Values]
          ) -> tuple[list[IntArray], Values, IntArray]:
    """Keys, values and places of the pieces, in the order of the cursors. A read outside of an
    array is refused: kernels trust the arrays."""
    keys, places = check_places(pieces, arrays)
    piece, count = pieces[0], places.size
    array = arrays[piece.array] if piece.array is not None else None
    if array is not None and count and not 0 <= places.min() <= places.max() < array.size:
        wrong = int(places.min() if places.min() < 0 else places.max())
        raise _outside(str(piece.array), wrong, array.size)
    values = array[places] if array is not None else np.broadcast_to(
        np.asarray(piece.value.value), (count,))  # type: ignore[attr-defined]
    return keys, values, places


def check_places(pieces: tuple[Piece, ...], arrays: Mapping[str, Values]
                 ) -> tuple[list[IntArray], IntArray]:
    """Keys and places, without looking at the values."""
    found = [_places(p, arrays) for p in pieces]
    if len(found) == 1:
        return found[0]
    keys = [np.concatenate(ks) for ks in zip(*(ks for ks, _ in found))]
    return keys, np.concatenate([places for _, places in found])


def _places(piece: Piece, arrays: Mapping[str, Values]) -> tuple[list[IntArray], IntArray]:
    env: dict[str, IntArray] = {}
    count = 1
    for c in piece.cursors:
        env, count = _next(c, env, count, arrays)
    keep = np.ones(count, dtype=bool)
    for test in piece.tests:
        check_reads(test, env, arrays)
        keep &= evaluate(test, env, arrays).astype(bool)
    if not keep.all():
        env, count = {n: x[keep] for n, x in env.items()}, int(keep.sum())
    for term in (*piece.keys, piece.place):
        check_reads(term, env, arrays)
    keys = [_wide(evaluate(k, env, arrays), count) for k in piece.keys]
    return keys, _wide(evaluate(piece.place, env, arrays), count)


def _next(c: Cursor, env: dict[str, IntArray], count: int, arrays: Mapping[str, Values]
          ) -> tuple[dict[str, IntArray], int]:
    """All values of one more cursor, for each row so far."""
    for bound in (c.low, c.high):
        check_reads(bound, env, arrays)
    low = _wide(evaluate(c.low, env, arrays), count)
    lengths = np.maximum(_wide(evaluate(c.high, env, arrays), count) - low, 0)
    total = int(lengths.sum())
    require(total * 8 * (2 * len(env) + 5), f"the {total} values of a mapping's cursors")
    grown = {n: np.repeat(x, lengths) for n, x in env.items()}
    before = np.cumsum(lengths) - lengths
    grown[c.name] = np.arange(total) - np.repeat(before - low, lengths)
    return grown, total


def _wide(x: Values, count: int) -> IntArray:
    return np.broadcast_to(x, (count,)).astype(np.int64)


def check_reads(e: Expr, env: Mapping[str, IntArray], arrays: Mapping[str, Values]) -> None:
    """Refuse a term that reads outside of an array."""
    for read in _reads(e):
        assert isinstance(read.target, Name)
        at = np.asarray(evaluate(read.keys[0], env, arrays))
        size = arrays[read.target.name].size
        if at.size and (at.min() < 0 or at.max() >= size):
            wrong = int(at.min() if at.min() < 0 else at.max())
            raise _outside(read.target.name, wrong, size)


def _outside(array: str, at: int, size: int) -> StorageError:
    return StorageError(
        f"the mapping reads {array}({at}), which has {size} elements",
        hint="check the array's size and the bounds of the cursors")


def _reads(e: Expr) -> Iterator[Apply]:
    """Innermost reads first."""
    for part in parts(e):
        yield from _reads(part)
    if isinstance(e, Apply):
        yield e
