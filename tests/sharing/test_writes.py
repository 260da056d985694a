"""Arrays that are handed in belong to the user, who writes to them between computations."""

from __future__ import annotations

import copy
import pickle
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from handing import MATRICES, Handed, by_mapping, by_scipy, handed

import tensorel as tr
from tensorel.errors import StorageError
from tensorel.testing import difference, run_numpy, sample_program
from tensorel.testing.programs.program import Leaf, Program

Array = np.ndarray[Any, np.dtype[Any]]


def program_over(given: dict[str, Handed], program: Program) -> Any:
    scope: dict[str, Any] = {"xp": tr, "np": np, "pickle": pickle}
    scope |= {n: h.tensor for n, h in given.items()}
    for step in program.steps:
        scope[step.name] = eval(step.code, scope)
    return scope[program.root]


def entries_of(h: Handed) -> None:
    """What the tensor says of its entries is what NumPy says of the array."""
    now = h.now()
    assert h.tensor.nnz == np.count_nonzero(now)
    assert tr.count_nonzero(h.tensor).item() == np.count_nonzero(now)
    coords, values = h.tensor.to_coo()
    np.testing.assert_array_equal(coords, np.stack(np.nonzero(now)) if now.ndim else coords)
    np.testing.assert_array_equal(values, now[np.nonzero(now)] if now.ndim else values)


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_programs_see_what_was_written(first: int) -> None:
    """Random programs over shared arrays, with random writes between runs."""
    for number in range(first, first + 20):
        rng = np.random.default_rng([5, number])
        program = sample_program(16, number, operators=5)
        if any(leaf.fill for leaf in program.leaves):
            continue
        given = {leaf.name: handed(rng, leaf.array) for leaf in program.leaves}
        kept = program_over(given, program)
        masked = program.is_settled  # a mask is read when it is given
        for _ in range(3):
            leaves = tuple(Leaf(n, h.now()) for n, h in given.items())
            try:
                trace = run_numpy(replace(program, leaves=leaves))
            except ValueError:  # what was written gives shapes that the program does not take
                break
            strict = bool(rng.random() < 0.4)
            again = masked or rng.random() < 0.5
            lazy = program_over(given, program) if again else kept
            found = lazy.compute(strict=strict, effort="quick").to_numpy()
            wrong = difference(found, trace.values[program.root], trace.tolerance,
                               values=trace.comparable)
            assert wrong is None, f"program {number}, strict={strict}: {wrong}\n{program.text}"
            for h in given.values():
                entries_of(h)
                h.write(rng)


HARD = np.array([0.0, -0.0, 1.0, -2.5, 1e300, 1e-300, np.inf, -np.inf, np.nan])


@pytest.mark.parametrize("layout", [*MATRICES, "dense"])
def test_strict_sees_values_that_are_not_finite(layout: str) -> None:
    rng = np.random.default_rng(3)
    for _ in range(6):
        a = np.where(rng.random((5, 5)) < 0.5, rng.integers(1, 5, (5, 5)), 0).astype(float)
        h = MATRICES[layout](a) if layout != "dense" else Handed(tr.asarray(a), a, lambda a=a: a)
        x = rng.integers(-2, 3, 5).astype(float)
        t = tr.asarray(x)
        for _ in range(4):
            now = h.now()
            with np.errstate(all="ignore"):
                expected = [now * x, np.array([[sum(r * x, 0.0)] for r in now]), now + now]
            found = [h.tensor * t, (h.tensor * t).sum(1, keepdims=True), h.tensor + h.tensor]
            for f, e in zip(found, expected):
                np.testing.assert_array_equal(f.compute(strict=True).to_numpy(), e)
            for values in (h.values.reshape(-1), x):
                at = rng.random(values.size) < 0.4
                values[at] = rng.choice(HARD, int(at.sum()))


@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "coordinates", "mapping"])
def test_refresh_after_entries_were_moved(layout: str) -> None:
    """Other places for as many entries, written into the same arrays."""
    rng = np.random.default_rng(8)
    for _ in range(5):
        first, second = (np.zeros(60) for _ in range(2))
        for flat in (first, second):
            flat[rng.permutation(60)[:20]] = rng.integers(1, 9, 20)
        make = by_mapping if layout == "mapping" else MATRICES[layout]
        h, other = make(first.reshape(6, 10)), make(second.reshape(6, 10))
        x = tr.asarray(rng.integers(0, 5, 10).astype(float))
        lazy = h.tensor @ x
        lazy.nnz, h.tensor.nnz, (h.tensor.T @ h.tensor).compute()
        for name, array in h.places.items():
            array[...] = other.places[name]
        h.values[...] = other.values
        now = h.now()
        assert h.tensor.refresh() is h.tensor
        entries_of(h)
        for t in (h.tensor @ x, lazy.refresh()):
            np.testing.assert_array_equal(t.to_numpy(), now @ x.to_numpy())
        np.testing.assert_array_equal((h.tensor.T @ h.tensor).to_numpy(), now.T @ now)


def test_moved_entries_are_noticed_without_refresh() -> None:
    """One-hot rows identify indices; afterwards they are rows of two."""
    m = sp.csr_array((np.ones(4), np.arange(4), np.arange(5)), shape=(4, 4))
    k, r = tr.asarray(m), tr.asarray(np.arange(16.0).reshape(4, 4))
    query = lambda: tr.einsum("ka,kb,bj->aj", k, k, r)  # noqa: E731
    np.testing.assert_array_equal(query().to_numpy(), np.arange(16.0).reshape(4, 4))
    m.indptr[...] = [0, 2, 4, 4, 4]
    m.indices[...] = [0, 1, 2, 3]
    dense = m.toarray()
    expected = np.einsum("ka,kb,bj->aj", dense, dense, r.to_numpy())
    np.testing.assert_array_equal(query().to_numpy(), expected)


#: What reads a matrix of ten rows, in a program that nobody has run before, and a vector.
READERS: tuple[Callable[[Any, Any], Any], ...] = (
    lambda t, x: (t @ x).compute(), lambda t, x: (t @ x).compute(strict=True),
    lambda t, x: tr.compute(t @ x, t + t), lambda t, x: (t @ x).compute(format="coo"),
    lambda t, x: (t.T @ (t @ x)).to_numpy(), lambda t, x: tr.sum(tr.exp(t) * x).item(),
    lambda t, x: t.to_numpy(), lambda t, x: t.to_coo(), lambda t, x: t.to_format("coo"),
    lambda t, x: t[1:, ::2].compute(), lambda t, x: t.nnz, lambda t, x: t.to_scipy(),
    lambda t, x: tr.sort(t).compute(), lambda t, x: pickle.dumps(t), lambda t, x: t.copy(),
    lambda t, x: tr.sdql("sum(<(i,j),v> in A) { i -> v }", A=t).to_numpy(),
)


@pytest.mark.parametrize("name, place, value", [
    ("indptr", -1, 100), ("indices", 2, -1), ("indices", 0, 10), ("indptr", 2, 0)])
def test_broken_arrays_are_refused(name: str, place: int, value: int) -> None:
    """By whoever reads them, for the first time or once more."""
    for read in READERS:
        for used in (False, True):
            h = by_scipy("csr", np.triu(np.ones((10, 10))))
            x = tr.asarray(np.ones(10))
            if used:
                read(h.tensor, x)
            assert h.tensor.stored.watch is not None
            before = h.places[name][place]
            h.places[name][place] = value
            with tr.options(bounds=True):  # who reads them all the same, fails in words
                for _ in range(2):
                    with pytest.raises(StorageError, match="changed since"):
                        read(h.tensor, x)
            h.places[name][place] = before
            np.testing.assert_array_equal((h.tensor @ x).to_numpy(), np.arange(10.0, 0.0, -1.0))


WILD = (-1, -(2**31), 2**31 - 1, 4_000, 120)


@pytest.mark.parametrize("layout", [*MATRICES, "mapping"])
def test_places_that_no_watch_sees_lead_nowhere(layout: str) -> None:
    """Garbage anywhere in long arrays, while programs run: the answer of before or an error."""
    rng = np.random.default_rng(11)
    dense = np.where(rng.random((120, 120)) < 0.3, rng.integers(1, 9, (120, 120)), 0).astype(float)
    if layout == "dia":
        dense = np.diag(np.arange(1.0, 121.0)) + sum(
            np.diag(np.ones(120 - k), k) for k in range(1, 100))
    h = (by_mapping if layout == "mapping" else MATRICES[layout])(dense)
    x = rng.integers(0, 5, 120).astype(float)
    readers = (lambda: (h.tensor @ x).to_numpy(), lambda: (h.tensor.T @ x).to_numpy(),
               lambda: (h.tensor + h.tensor.T).compute().to_numpy(), lambda: h.tensor.to_numpy(),
               lambda: h.tensor[7:90:3].to_numpy(), lambda: h.tensor.to_format("csf").to_numpy())
    expected = [read() for read in readers]
    seen = 0
    for array in h.places.values():
        flat, before = array.reshape(-1), array.copy()
        for _ in range(12):
            flat[rng.integers(flat.size, size=int(rng.integers(1, 4)))] = rng.choice(WILD)
            with tr.options(bounds=True):
                for read, wanted in zip(readers, expected):
                    try:
                        np.testing.assert_array_equal(read(), wanted)
                        seen += 1
                    except StorageError as error:
                        assert "changed since" in str(error)
            array[...] = before
    assert seen or not h.places


def test_places_that_nobody_else_holds_are_freed() -> None:
    m = sp.csr_array(np.triu(np.ones((9, 9))))
    t, gone = tr.asarray(m), weakref.ref(m.indices)
    del m
    assert gone() is None
    np.testing.assert_array_equal((t @ np.ones(9)).to_numpy(), np.arange(9.0, 0.0, -1.0))
    np.testing.assert_array_equal(t.refresh().to_numpy(), np.triu(np.ones((9, 9))))


def test_elements_that_no_kernel_could_load_are_copied() -> None:
    odd = np.frombuffer(b"abc" + np.arange(4.0).tobytes(), "f8", offset=3)
    at = np.frombuffer(b"abc" + np.arange(4).tobytes(), "i8", offset=3)
    assert (tr.asarray(odd) * 2).to_numpy().tolist() == [0, 2, 4, 6]
    assert (tr.from_coo([at], odd, (4,)) * 2).to_numpy().tolist() == [0, 2, 4, 6]
    assert tr.asarray(odd)[at].to_numpy().tolist() == [0, 1, 2, 3]


def test_statistics_kept_in_a_database_are_those_of_the_data(tmp_path: Any) -> None:
    a = np.zeros((4, 5))
    t = tr.asarray(a)
    assert t.nnz == 0 and t.explain()
    tr.einsum("ij,kj->ik", t, tr.tensor(np.eye(5), format="csr")).compute()
    a[1, 2:] = 7
    with tr.connect(str(tmp_path / "db")) as db:
        db["A"] = t
        assert db["A"].nnz == 3 and db["A"].to_coo()[1].tolist() == [7, 7, 7]


def test_index_arrays_are_what_they_were_when_they_were_given() -> None:
    a, at = np.arange(10.0), np.array([1, 2, 3])
    picked, taken = tr.asarray(a)[at], tr.take(tr.asarray(a), at)
    expected = a[at]
    at[...] = 10**9
    np.testing.assert_array_equal(picked.to_numpy(), expected)
    del taken


def test_copies_do_not_change() -> None:
    a = np.arange(6.0).reshape(2, 3)
    m = sp.csr_array(a)
    for t, values in ((tr.asarray(a), a), (tr.asarray(m), m.data)):
        made = [t.copy(), copy.deepcopy(t), tr.asarray(t, copy=True), (t + 1).copy() - 1,
                tr.asarray(m if values is m.data else a, copy=True)]
        before = a.copy()
        values *= 2
        for c in made:
            np.testing.assert_array_equal(c.to_numpy(), before)
        values /= 2
    made = (tr.asarray(a) + 1).compute()
    assert made.copy() is made and copy.deepcopy(made) is made


@pytest.mark.parametrize("hand_in", [
    tr.asarray, lambda a: tr.tensor(a, format="csr"), lambda a: tr.einsum("ij->ji", a),
    lambda a: tr.concat([a, a]), lambda a: tr.tensor(a, fill=1.0), lambda a: a[0] + tr.asarray(a),
    tr.from_dlpack, lambda a: tr.from_coo([np.arange(3)], a[0], (3,)),
    lambda a: tr.sdql("sum(<(i,j),v> in A) { i -> v }", A=a),
    lambda a: tr.storage("sum(<i,_> in 0:N) { i -> V(i) }").tensor(V=a[0], N=3),
    lambda a: tr.alternatives(a, sp.csr_array(a)), lambda a: tr.asarray(memoryview(a)),
])
def test_arrays_of_users_stay_writable_and_are_never_written_to(hand_in: Any) -> None:
    a = np.arange(9.0).reshape(3, 3)
    before = a.copy()
    t = hand_in(a)
    t.compute()
    array = np.asarray(t)
    assert a.flags.writeable and np.array_equal(a, before)
    assert not (array.flags.writeable and np.shares_memory(array, a))
    for held in t.stored.arrays.values():
        assert not held.flags.writeable
        assert t.stored.shared or not np.shares_memory(held, a)


def test_what_cannot_change_is_remembered() -> None:
    a = np.arange(6.0)
    a.setflags(write=False)
    assert not tr.asarray(a).stored.shared
    assert not tr.asarray([1.0, 2.0]).stored.shared
    assert not (tr.asarray(np.ones((3, 3))) @ tr.asarray(np.ones((3, 3)))).stored.shared
    assert not tr.asarray(np.frombuffer(b"12345678", "f8")).stored.shared
    assert tr.asarray(np.ones(3)).stored.shared
    assert tr.asarray(np.ones((3, 4))).T.compute().stored.shared
    view = np.ones(5)[1:]
    view.setflags(write=False)
    assert tr.asarray(view).stored.shared  # its base can be written to
    m = sp.csr_array(np.eye(3))
    assert tr.asarray(m).stored.watch is not None  # the indices are copies, the user's are watched
    assert (tr.asarray(m) * 2).stored.watch is None  # the copies cannot change
    mutable = bytearray(np.arange(4).tobytes())
    seen = memoryview(mutable).toreadonly()  # others write to what it shows
    assert tr.asarray(np.frombuffer(seen, np.int64)).stored.shared
