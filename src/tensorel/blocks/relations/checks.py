"""What relations are held to: keys that are unique and not negative, dimensions that exist, joined
extents that agree, shapes that fit a kernel. Messages name keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import index

import numpy as np

from tensorel.algebra.ops import DType
from tensorel.blocks.relations.keys import Key, Keys, codes, shown, sorted_by
from tensorel.blocks.relations.tiles import Shape
from tensorel.errors import AxisError, ShapeError, TensorelError, TypeError_, ValueError_
from tensorel.ir.extents import MAX_EXTENT


def one_dim(given: object, count: int, what: str) -> int:
    """A checked number of a key dimension or axis, negative ones counted from the end."""
    try:
        k = index(given)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError_(f"{what} must be a whole number, not {given!r}") from None
    if not -count <= k < count:
        raise AxisError(f"{what} {k} does not exist: there are {count}",
                        hint=f"they are 0 to {count - 1}" if count else None)
    return k % count


def some_dims(given: object, count: int, what: str) -> tuple[int, ...]:
    """Checked numbers of dimensions, from a number or a sequence, in the order given."""
    listed = list(given) if isinstance(given, (list, tuple, range, np.ndarray)) else [given]
    found = tuple([one_dim(d, count, what) for d in listed])
    if len(set(found)) < len(found):
        raise ShapeError(f"{what}: {tuple(listed)} names one twice", hint="name each once")
    return found


def as_key(given: object, what: str) -> Key:
    """A key from a whole number or a sequence of them."""
    listed = given if isinstance(given, (list, tuple, np.ndarray)) else (given,)
    try:
        found = tuple([index(part) for part in listed])
    except TypeError:
        raise TypeError_(f"{what}: {given!r} is no key",
                         hint="a key is a whole number or a tuple of whole numbers") from None
    if any(isinstance(part, (bool, np.bool_)) for part in listed):
        raise TypeError_(f"{what}: {given!r} is no key", hint="True and False are no components")
    if any(k < 0 for k in found):
        raise ValueError_(f"{what}: key {found} has a negative component",
                          hint="components of keys are 0 or more")
    if any(k >= MAX_EXTENT for k in found):
        raise ValueError_(f"{what}: a component of key {found} is too large",
                          hint=f"components of keys are below {MAX_EXTENT}")
    return found


def one_arity(keys: Sequence[Key], what: str) -> int:
    """The number of components that all keys have."""
    arity = len(keys[0])
    for key in keys:
        if len(key) != arity:
            raise ShapeError(f"{what}: keys {keys[0]} and {key} have {arity} and {len(key)} "
                             "components", hint="all keys of a relation have the same number")
    return arity


def unique(keys: Keys, names: Keys | None, what: str) -> None:
    """Refuse a key that stands for two blocks; ``names``: what the keys were before."""
    order = sorted_by(keys)
    (numbers,) = codes(keys[order])
    twice = np.flatnonzero(numbers[1:] == numbers[:-1])
    if not len(twice):
        return
    at = int(twice[0])
    a, b = (tuple(k.tolist()) for k in (keys if names is None else names)[order[at : at + 2]])
    key = tuple(keys[order[at]].tolist())
    raise ValueError_(
        f"{what}: key {key} is given twice" if names is None else
        f"{what}: the blocks {a} and {b} would both have the key {key}",
        hint="each key has one block" + (
            "; aggregate the blocks that are to become one, or filter first" if names is not None
            else ""))


def joined(left: tuple[int, ...], right: tuple[int, ...], on_left: Sequence[int],
           on_right: Sequence[int]) -> None:
    """Refuse joined dimensions with other bounds."""
    if len(on_left) != len(on_right):
        raise ShapeError(f"join: {len(on_left)} dimensions of the left keys against "
                         f"{len(on_right)} of the right ones", hint="they are joined in pairs")
    for p, q in zip(on_left, on_right):
        if left[p] != right[q]:
            raise ShapeError(
                f"join: dimension {p} of the left keys has the extent {left[p]}, dimension {q} of "
                f"the right keys {right[q]}",
                hint="joined dimensions have the same extent: cut both tensors at the same places")


def same_dtype(found: DType, wanted: DType, what: str, key: Key) -> None:
    """Refuse blocks of several dtypes."""
    if found != wanted:
        raise TypeError_(f"{what}: the block {key} has dtype {found.name}, others {wanted.name}",
                         hint="all blocks of a relation have one dtype")


@contextmanager
def naming(what: str, kernel: str, keys: Sequence[Key], shapes: Sequence[Shape]) -> Iterator[None]:
    """Errors of a kernel name the blocks that it was given."""
    try:
        yield
    except (ShapeError, ValueError) as error:
        if isinstance(error, TensorelError) and not isinstance(error, ShapeError):
            error.add_note(_given(what, kernel, keys, shapes))
            raise
        said = getattr(error, "message", error)
        hint = getattr(error, "hint", None) or "the shapes of the blocks must fit the kernel"
        raise ShapeError(f"{_given(what, kernel, keys, shapes)}: {said}", hint=hint) from error
    except Exception as error:
        error.add_note(_given(what, kernel, keys, shapes))
        raise


def _given(what: str, kernel: str, keys: Sequence[Key], shapes: Sequence[Shape]) -> str:
    blocks = " and ".join(f"{k} of shape {s}" for k, s in zip(keys, shapes))
    return f"{what}: kernel {kernel!r} on block{'s' if len(keys) > 1 else ''} {blocks}"


def no_holes(holes: Sequence[Key], what: str) -> None:
    """Refuse a relation that lacks keys."""
    if holes:
        raise ShapeError(
            f"{what}: the relation has holes: there are no blocks with the keys "
            f"{shown(holes, True)}",
            hint="rekey the blocks to 0, 1, ..., or keep all of them")
