"""The law of a format: nothing that breaks its lengths can be made, nothing that breaks the rest
passes a whole look."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator

import numpy as np
import pytest

import tensorel as tr
from tensorel.errors import EngineError, StorageError, TensorelError
from tensorel.front.array.convert import stored_of
from tensorel.io.validate import checked, outside
from tensorel.storage import registry
from tensorel.storage.convert import from_dense, to_format
from tensorel.storage.format import PhysicalArrays
from tensorel.storage.identity import parts
from tensorel.storage.stored import Stored, restored
from tensorel.testing.programs.own_storages import own_formats

MIXED = {1: (), 2: (";0;1", ";1;0", "0,1;"), 3: ("0;1;2", ";0,1;2", ";0;1,2", "1;0,2", "2;0,1"),
         4: ("0;1;2,3", "0,1;2;3", ";0,1;2,3")}


def samples() -> Iterator[Stored]:
    """A tensor in each format of each rank, several entries and empty rows in it."""
    rng = np.random.default_rng(7)
    for rank, shape in {0: (), 1: (9,), 2: (6, 6), 3: (3, 4, 5), 4: (2, 3, 2, 3)}.items():
        array = rng.integers(1, 9, shape) * (rng.random(shape) < 0.4) * 1.0
        array = array * (rng.random((*shape[:-1], 1)) < 0.8) if rank > 1 else array
        for name in (*registry.names(), *MIXED.get(rank, ()), *own_formats(rank, rng),
                     *(("bsr(2,4)",) if rank == 2 else ())):
            fitted = np.asarray(array)
            if rank == 2:
                fitted = {"tril": np.tril(array), "triu": np.triu(array),
                          "symmetric": array + array.T}.get(name, array)
            if name == "bitmap":
                fitted = fitted > 2
            try:
                yield to_format(from_dense(fitted), name)
            except TensorelError:
                assert (rank != 2 and rank != 3) or name != "csf"


SAMPLES = list(samples())
NAMES = [f"{s.format.name} {len(s.shape)}" for s in SAMPLES]


def remade(stored: Stored, arrays: PhysicalArrays) -> Stored:
    return Stored(stored.format, stored.shape, stored.dtype, stored.fill, arrays)


def pickled(stored: Stored, arrays: PhysicalArrays) -> Stored:
    """What is read of a pickle that holds these arrays."""
    header, format, _, others = parts(stored)
    return restored(header, format, tuple(arrays[n] for n in sorted(arrays)), others)


def test_all_formats_are_among_the_samples() -> None:
    assert {s.format.name.split("(")[0] for s in SAMPLES} >= set(registry.names())


@pytest.mark.parametrize("stored", SAMPLES, ids=NAMES)
def test_what_packers_make_is_lawful(stored: Stored) -> None:
    stored.check(whole=True)


@pytest.mark.parametrize("stored", SAMPLES, ids=NAMES)
def test_lengths_and_kinds_are_demanded(stored: Stored) -> None:
    """Every array that is missing, too short, too long, not flat or of another kind is seen when
    the tensor is made; users' index arrays alone may be longer than the mapping reads."""
    own = "storage" in stored.format.text
    for name, array in stored.arrays.items():
        without = {n: a for n, a in stored.arrays.items() if n != name}
        damaged = {"missing": without, "not flat": without | {name: array.reshape(1, -1)},
                   "text": without | {name: array.astype("U8")}}
        if array.size and not own:
            damaged["short"] = without | {name: array[:-1]}
        if not own:
            damaged["long"] = without | {name: np.append(array, array[:1]).astype(array.dtype)
                                         if array.size else np.zeros(1, array.dtype)}
        for what, arrays in damaged.items():
            with pytest.raises(EngineError, match="break its law"):
                remade(stored, arrays)
                pytest.fail(f"{name} {what}")
            with pytest.raises(StorageError, match=r"^file"):
                outside(stored.format, stored.shape, stored.dtype, stored.fill, arrays, "file")


def contents(array: np.ndarray) -> Iterator[np.ndarray]:
    """The array with one element changed."""
    for k in range(array.size):
        for value in (-7, array[k] + 1, array[k] - 1, 10**6):
            if array[k] != value:
                changed = array.copy()
                changed[k] = value
                yield changed


@pytest.mark.parametrize("stored", SAMPLES, ids=NAMES)
def test_contents_are_looked_at(stored: Stored) -> None:
    """An index array with a wrong element is refused, or is another tensor in full order: what it
    holds, packed anew, is what it is."""
    values = stored.format.value_array
    refused = tried = 0
    for name, array in stored.arrays.items():
        if name in (values, "bits"):
            continue
        for changed in contents(array):
            tried += 1
            arrays = stored.arrays | {name: changed}
            try:
                made = remade(stored, arrays)
                made.check(whole=True)
            except EngineError:
                refused += 1
                with pytest.raises(StorageError, match="damaged"):
                    pickled(stored, arrays)
                continue
            pickled(stored, arrays)
            found = made.format.unpack(arrays, made.shape, made.fill, made.dtype)
            for c, n in zip(found.coords, made.shape):
                assert c.size == 0 or 0 <= c.min() <= c.max() < n
            for axis in range(found.count - 1):
                cell, after = (tuple(int(found.coords[a][axis + d]) for a in made.format.order)
                               for d in (0, 1))
                assert cell < after, (name, changed.tolist())
    assert refused > 0 or not tried


def test_bits_behind_the_last_cell() -> None:
    made = stored_of(tr.tensor(np.ones((3, 3), bool), format="bitmap"))
    bits = made.arrays["bits"].copy()
    bits[-1] |= 128
    with pytest.raises(EngineError, match="behind the last cell"):
        remade(made, {"bits": bits}).check(whole=True)


def test_views_of_rows_share_what_lies_below() -> None:
    for format in ("csr", "0;1;2", "0;1,2"):
        shape = (6, 4) if format == "csr" else (6, 4, 3)
        array = np.random.default_rng(0).integers(0, 2, shape) * 2.0
        part = tr.tensor(array, format=format)[2:5].compute(verify=True)
        np.testing.assert_array_equal(part.to_numpy(), array[2:5])
        stored_of(part).check(whole=True)


@pytest.mark.parametrize("again", [
    lambda s: pickle.loads(pickle.dumps(s)), copy.copy, copy.deepcopy,
], ids=["pickle", "copy", "deep"])
def test_no_way_around_the_law(again) -> None:  # type: ignore[no-untyped-def]
    """Pickles and copies go through the constructor, and pickles are read first."""
    again(to_format(from_dense(np.eye(4)), "csr")).check(whole=True)


def test_damaged_pickles_are_refused() -> None:
    header, format, (idx, pos, val), others = parts(to_format(from_dense(np.eye(4)), "csr"))
    restored(header, format, (idx, pos, val), others).check(whole=True)
    with pytest.raises(StorageError, match="3 values where 4 are needed"):
        restored(header, format, (idx, pos, val[:-1]), others)
    with pytest.raises(StorageError, match="outside axis 1"):
        restored(header, format, (idx + 1, pos, val), others)


def test_errors_name_format_array_and_lengths() -> None:
    stored = to_format(from_dense(np.eye(4)), "csr")
    with pytest.raises(EngineError, match=r"'csr'.*'pos1': 4 segment bounds where 5 are needed"):
        remade(stored, stored.arrays | {"pos1": stored.arrays["pos1"][:-1]})
    with pytest.raises(StorageError, match=r"^f\['idx1'\]: index 9 is outside axis 1 with ext"):
        checked(stored.format, stored.shape, stored.dtype, stored.fill,
                stored.arrays | {"idx1": np.array([0, 1, 2, 9], np.int32)}, "f")


def test_a_mapping_of_the_user_may_have_any_name() -> None:
    """Column-major, but called dense: products read it as it lies."""
    a = np.arange(6.0).reshape(2, 3)
    mapping = tr.storage("sum(<i,_> in 0:M, <j,_> in 0:N) { (i,j) -> V(j*M+i) }", name="dense")
    x = tr.tensor(a, format=mapping)
    np.testing.assert_array_equal((x @ np.ones((3, 2))).to_numpy(), a @ np.ones((3, 2)))
