"""A pickled tensor is its format, shape, dtype, fill and arrays: nothing found out travels.
Equal tensors have equal hashes."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import cloudpickle
import dask
import joblib
import numpy as np
import pytest
import scipy.sparse as sp
import travelling
from handing import BY_ROWS

import tensorel as tr
from tensorel.algebra import ops
from tensorel.errors import TensorelError
from tensorel.front.array.tensor import Tensor
from tensorel.testing import difference, run_numpy, sample_program

Array = np.ndarray[Any, np.dtype[Any]]
HASHES = (travelling.hashed, travelling.token)


def there_and_back(t: Any) -> Any:
    return pickle.loads(pickle.dumps(t, protocol=5))


def from_copy(t: Any) -> Any:
    """A copy of the stored tensor itself."""
    return Tensor(None, copy.copy(t.stored))


# -- another process ---------------------------------------------------------------------------
def process(first: Callable[[], None] | None = None) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), first)


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[ProcessPoolExecutor]:
    with process(travelling.have_a_past) as made:
        yield made


def test_programs_run_on_tensors_that_were_sent(elsewhere: Any) -> None:
    """From a process that has just begun to one that did other things before."""
    with process() as sender:
        sent = [sender.submit(travelling.send, number) for number in range(25)]
        for number, message in enumerate(sent):
            program = travelling.program_of(number)
            trace = run_numpy(program)
            expected = [trace.values[program.root]] * 2
            with np.errstate(all="ignore"):
                for leaf in program.leaves:
                    expected += [np.asarray(x) for x in travelling.usual(leaf.array)]
            found = elsewhere.submit(travelling.receive, number, message.result()).result()
            assert len(found) == len(expected)
            for k, (f, e) in enumerate(zip(found, expected)):
                wrong = difference(f, e, trace.tolerance if k < 2 else None,
                                   values=trace.comparable or k > 1)
                assert wrong is None, f"program {number}, result {k}: {wrong}\n{program.text}"


SENT = np.arange(12.0).reshape(4, 3)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_multiprocessing(method: str) -> None:
    t = tr.tensor(SENT, format="csr")
    for _ in range(5):
        (t @ t.T).compute()
    with ProcessPoolExecutor(1, multiprocessing.get_context(method)) as pool:
        np.testing.assert_array_equal(pool.submit(travelling.product, t).result(), SENT @ SENT.T)
        back = pool.submit(travelling.doubled, t).result()
    np.testing.assert_array_equal(back.to_numpy(), 2 * SENT)


def test_joblib_processes() -> None:
    """Arrays of a megabyte arrive as files that are mapped."""
    large = np.random.default_rng(0).random((400, 500))
    tensors = [tr.tensor(SENT, format="csr"), tr.asarray(large), tr.tensor(large, format="csr")]
    for t in tensors:
        (t @ t.T).compute()
    found = joblib.Parallel(2, max_nbytes="100K")(
        joblib.delayed(travelling.product)(t) for t in tensors)
    for f, a in zip(found, (SENT, large, large)):
        np.testing.assert_allclose(f, a @ a.T)


def test_dask_processes() -> None:
    t = tr.tensor(SENT, format="csr")
    (t @ t.T).compute()
    task = dask.delayed(travelling.product)(t)
    with dask.config.set(scheduler="processes", num_workers=1):
        np.testing.assert_array_equal(task.compute(), SENT @ SENT.T)


def test_cloudpickle_takes_functions_over_tensors() -> None:
    t = tr.tensor(SENT, format="csf")
    y = t.sum(1) * 2
    assert y.nnz == 4
    f = pickle.loads(cloudpickle.dumps(lambda: (t.sum().item(), y.to_numpy())))
    total, rows = f()
    assert total == SENT.sum()
    np.testing.assert_array_equal(rows, SENT.sum(1) * 2)


# -- users' functions --------------------------------------------------------------------------
def test_users_operators_are_equal_everywhere(elsewhere: Any) -> None:
    x = np.random.default_rng(0).random((4, 3)) * (np.arange(3) < 2)
    t = tr.tensor(x, format="csr")
    lazy = travelling.either(t)
    op = travelling.operator_of(lazy)
    assert travelling.operator_of(travelling.either(t * 2)) is op
    assert copy.copy(op) is copy.deepcopy(op) is there_and_back(op) is op
    assert travelling.operator_of(there_and_back(lazy)) is op
    for message in (pickle.dumps((lazy, op)), cloudpickle.dumps((lazy, op))):
        found, sent_back, same, equal = elsewhere.submit(travelling.met_again, message).result()
        np.testing.assert_array_equal(found, lazy.to_numpy())
        assert sent_back is op and same and equal
    with process() as fresh:  # that has never seen it
        found, *_ = fresh.submit(travelling.met_again, pickle.dumps((lazy, op))).result()
    np.testing.assert_array_equal(found, lazy.to_numpy())


def test_what_users_functions_differ_in_is_told_apart() -> None:
    t = tr.asarray(np.ones((2, 2)))
    functions: list[Any] = [lambda a, b: a + b - a * b, lambda a, b: a + b - a * b * 1.0,
                            lambda a, b: b, lambda a, b: a]
    made = [tr.reduce(f, x, identity=0, commutative=c)
            for f in functions for x in (t, t.astype("f4")) for c in (True, False)]
    made += [tr.reduce(functions[0], t, identity=i) for i in (-0.0, 1.0, np.nan)]
    assert len({travelling.operator_of(y) for y in made}) == len(made)
    assert len({travelling.hashed(y) for y in made}) == len(made)
    again = tr.reduce(functions[0], t, identity=np.nan)
    assert travelling.operator_of(again) is travelling.operator_of(made[-1])


@pytest.mark.parametrize("hashed", HASHES)
def test_programs_with_users_functions_have_equal_hashes(hashed: Callable[[Any], str],
                                                         elsewhere: Any) -> None:
    t = tr.tensor(SENT / 12, format="csr")
    for make in (travelling.either, lambda t: travelling.scaled(travelling.either(t), 3.0)):
        y = make(t)
        found = {hashed(y), hashed(make(t)), hashed(there_and_back(y))}
        found.add(elsewhere.submit(hashed, y).result())
        assert len(found) == 1


def test_long_functions_are_pickled_without_recursion() -> None:
    def f(a: Any, b: Any) -> Any:
        for _ in range(3000):
            b = b * 1.0
        return a + b + 0 * a

    y = tr.reduce(f, tr.asarray(np.ones(3)), identity=0.0)
    assert travelling.operator_of(there_and_back(y)) is travelling.operator_of(y)


def test_what_cannot_be_traced_is_refused_before_it_is_sent() -> None:
    t = tr.asarray(np.ones((2, 2)))
    with pytest.raises(TensorelError, match="cannot branch on a value"):
        tr.reduce(lambda a, b: a if a else b, t, identity=0.0)
    outer: list[Any] = []
    tr.map(lambda x: outer.append(x) or x, t)
    with pytest.raises(TensorelError, match="its two arguments and numbers only"):
        tr.reduce(lambda a, b: a + b * outer[0], t, identity=0.0)
    python = ops.user_monoid("gcd", np.gcd, np.gcd, 0)
    with pytest.raises(TensorelError, match="operator gcd is a Python function"):
        pickle.dumps(python)


# -- what travels ------------------------------------------------------------------------------
def test_nothing_that_was_found_out_travels() -> None:
    for number in range(30):
        rng = np.random.default_rng([4, number])
        for t in travelling.leaves_of(sample_program(18, number, operators=1), rng).values():
            for made in (there_and_back(t), from_copy(t)):
                a, b = t.stored, made.given
                assert b is not None
                assert (a.format, a.shape, a.dtype) == (b.format, b.shape, b.dtype)
                assert a.fill.tobytes() == b.fill.tobytes() and set(a.arrays) == set(b.arrays)
                assert [x.format for x in a.alternatives] == [x.format for x in b.alternatives]
                assert not b.derived
                np.testing.assert_array_equal(t.to_numpy(), made.to_numpy())
            assert not there_and_back(t).stored.shared


def test_a_lazy_tensor_is_its_program() -> None:
    a = tr.tensor(np.arange(16.0).reshape(4, 4), format="csr")
    y = a @ a + 1
    assert y.nnz == 16
    made, pair = there_and_back(y), there_and_back((a, y, a))
    assert made.is_lazy and pair[0].stored is pair[2].stored
    assert pair[1].node.body.reads  # the same source, not a second copy
    np.testing.assert_array_equal(made.to_numpy(), y.to_numpy())


def test_long_programs_are_pickled_without_recursion() -> None:
    x = a = tr.asarray(np.ones((2, 2)))
    for _ in range(3000):
        x = x + a
    made = pickle.loads(pickle.dumps(x))
    assert made.shape == (2, 2) and made.is_lazy


def test_a_window_is_sent_without_what_lies_around_it() -> None:
    m = tr.tensor(np.eye(2000), format="csr")
    window = m[10:12].compute()
    assert len(pickle.dumps(window)) < 2000
    np.testing.assert_array_equal(there_and_back(window).to_numpy(), np.eye(2000)[10:12])


def test_large_arrays_go_out_of_band() -> None:
    buffers: list[pickle.PickleBuffer] = []
    t = tr.asarray(np.arange(1000.0))
    sent = pickle.dumps(t, protocol=5, buffer_callback=buffers.append)
    assert len(sent) < 1000 and len(buffers) == 1
    np.testing.assert_array_equal(pickle.loads(sent, buffers=buffers).to_numpy(), np.arange(1000.0))


def test_formats_without_a_text_are_sent_themselves() -> None:
    mapping = tr.storage(BY_ROWS, name="rows")
    t = tr.tensor(SENT, format=mapping)
    made = there_and_back(t)
    assert made.format == t.format == "rows" and made.stored.format == t.stored.format
    np.testing.assert_array_equal((made @ made.T).to_numpy(), SENT @ SENT.T)


def test_a_damaged_pickle_is_no_tensor() -> None:
    build, (header, format, arrays, others) = tr.tensor(SENT, format="csr").stored.__reduce__()
    for bad in (header.replace("csr", "rsc"), header[:-3], header.replace("<f8", "?!"), "[]"):
        with pytest.raises(TensorelError):
            build(bad, format, arrays, others)
    with pytest.raises(TensorelError):
        build(header, format, arrays[:-1], others)


# -- hashes ------------------------------------------------------------------------------------
def same_tensors(tmp: Path) -> Iterator[list[Any]]:
    """Groups of equal tensors whose arrays came about in different ways."""
    a = np.arange(12.0).reshape(4, 3)
    np.save(tmp / "a.npy", a)
    wide = np.zeros((8, 6))
    wide[::2, ::2] = a
    read_only = a.copy()
    read_only.setflags(write=False)
    yield [tr.asarray(a), tr.asarray(a.tolist()), tr.asarray(wide[::2, ::2]),
           tr.asarray(np.load(tmp / "a.npy", mmap_mode="r")), tr.asarray(read_only),
           tr.tensor(np.asfortranarray(a), format="dense"), tr.read(tmp / "a.npy"),
           (tr.asarray(a) + 0).compute(), tr.asarray(wide).compute()[::2, ::2].compute()]
    m = sp.csr_array(a)
    long = sp.csr_array((m.data, m.indices.astype(np.int64), m.indptr.astype(np.int64)), m.shape)
    rows = tr.tensor(np.vstack([a + 1, a, a + 2]), format="csr")[4:8].compute(format="csr")
    yield [tr.asarray(m), tr.asarray(long), tr.tensor(a, format="csr"), rows,
           tr.asarray(m, copy=True), tr.from_coo(np.nonzero(a), a[a != 0], a.shape, format="csr")]
    yield [tr.asarray(np.array([1.0, 2.0, 3.0])[k::5]) for k in (0, 0)]
    yield [tr.tensor(a, format="dok"), tr.tensor(a, format="coo").to_format("dok")]
    s, t = tr.tensor(a, format="csr"), tr.tensor(a, format="csr")
    yield [x @ x.T + 1 for x in (s, t)]


@pytest.mark.parametrize("hashed", HASHES)
def test_equal_tensors_have_equal_hashes(hashed: Callable[[Any], str], tmp_path: Path,
                                         elsewhere: Any) -> None:
    groups = list(same_tensors(tmp_path))
    seen = set()
    for group in groups:
        found = {hashed(t) for t in group}
        for t in group:
            travelling.use(t, np.random.default_rng(1))
            t.nnz, t.stored, pickle.dumps(t)
        found |= {hashed(t) for t in group} | {hashed(there_and_back(t)) for t in group}
        found.add(elsewhere.submit(hashed, group[0]).result())
        assert len(found) == 1
        seen |= found
    assert len(seen) == len(groups)


@pytest.mark.parametrize("hashed", HASHES)
def test_different_tensors_have_different_hashes(hashed: Callable[[Any], str]) -> None:
    a = np.arange(12.0).reshape(4, 3)
    b = a.copy()
    b[3, 2] = 12
    t = tr.asarray(a)
    made = [t, tr.asarray(b), tr.asarray(a.astype("f4")), t.to_format("csr"), t.to_format("csc"),
            tr.tensor(a, fill=1.0), tr.asarray(a.reshape(3, 4)), t + 1, t + 2, t * 2, t.sum(0),
            t.sum(1), tr.asarray(b) + 1, tr.sort(t, axis=0), tr.sort(t, axis=1),
            tr.alternatives(t, t.to_format("csr"))]
    assert len({hashed(x) for x in made}) == len(made)


def test_hashes_of_random_tensors_do_not_depend_on_use() -> None:
    for number in range(20):
        rng = np.random.default_rng([6, number])
        program = sample_program(19, number, operators=3)
        for hashed in HASHES:
            fresh = {leaf.name: leaf.build() for leaf in program.leaves}
            used = {leaf.name: leaf.build() for leaf in program.leaves}
            for t in used.values():
                travelling.use(t, rng)
            pairs = [(fresh[n], used[n]) for n in fresh]
            pairs.append((travelling.lazily(program, fresh), travelling.lazily(program, used)))
            assert pairs[-1][1].format
            assert all(hashed(a) == hashed(b) for a, b in pairs), program.text


def test_memory_of_joblib_finds_results_again(tmp_path: Path) -> None:
    calls: list[int] = []

    def total(t: Any) -> float:
        calls.append(1)
        return float(t.sum().item())

    cached = joblib.Memory(tmp_path, verbose=0).cache(total)
    assert cached(tr.asarray(SENT)) == cached(tr.asarray(SENT.copy())) == SENT.sum()
    assert cached(tr.asarray(SENT + 1)) == (SENT + 1).sum()
    assert len(calls) == 2
