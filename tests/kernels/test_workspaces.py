"""Nests with workspaces inside their loops, made by hand: values as NumPy computes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from interpreter import interpret

import tensorel as tr
from tensorel.algebra import ops
from tensorel.config import Config
from tensorel.engines.in_process.kernel_job import SMALL_COST, prepare
from tensorel.engines.in_process.kernel_step import run_kernel
from tensorel.engines.in_process.plan_state import KernelState
from tensorel.ir.nodes import INT64, Axis, Call, Expr, Index, Read, Reduce, Source
from tensorel.ir.nodes import const as literal
from tensorel.kernels.loopir.printing import show
from tensorel.kernels.lowering.assembly import lower_nest
from tensorel.kernels.lowering.nest import Assembly, Let, Nest, Output, Slot
from tensorel.kernels.lowering.workspaces import start, workspace
from tensorel.plan.physical import KernelStep
from tensorel.storage.convert import from_dense, to_dense, to_format
from tensorel.storage.registry import resolve
from tensorel.storage.stored import Stored

N = 23
FORMATS = ["csr", "csc", "dcsr", "coo", "csf(0,1)", "dense", "trie", "csf(1,0)"]


def matrix(seed: int, density: float = 0.2, fill: float = 0.0) -> Any:
    rng = np.random.default_rng(seed)
    made = np.where(rng.random((N, N)) < density, rng.integers(1, 9, (N, N)), fill)
    made[3] = fill
    return made.astype(float)


def stored(array: Any, fmt: str, fill: float = 0.0) -> Stored:
    return to_format(from_dense(array, fill), resolve(fmt, array.shape, array.dtype))


def source(name: str, value: Stored) -> Source:
    slot = Slot(name, *value.signature)
    return Source(slot, value.shape, value.dtype, literal(value.fill, value.dtype))


def read(tensor: Source, *names: str) -> Read:
    return Read(tensor, tuple(Index(n) for n in names))


def product(*factors: Expr) -> Expr:
    made = factors[0]
    for f in factors[1:]:
        made = Call(ops.multiply, (made, f))
    return made


def let(name: str, depth: int, axis: str, loops: tuple[str, ...], op: Any, body: Expr,
        fill: float = 0.0) -> tuple[Let, Source]:
    slot = workspace(name, N, body.dtype, loops == (axis,))
    made = Let(slot, depth, axis, loops, op, body)
    return made, Source(slot, (N,), body.dtype, literal(fill, body.dtype))


def nest(loops: str, reduced: str, op: Any, body: Expr, lets: tuple[Let, ...],
         assembly: Assembly = Assembly.DENSE) -> Nest:
    axes = tuple(n for n in loops if n not in reduced)
    names = {*loops, *(n for x in lets for n in x.loops)}
    output = Output(assembly, axes, tuple(Index(n) for n in axes),
                    len(axes) if assembly is Assembly.DENSE else 1, body.dtype,
                    literal(0, body.dtype),
                    (INT64,) * len(axes))
    return Nest(tuple(loops), tuple((n, N) for n in sorted(names)), frozenset(reduced), op, body,
                output, lets=lets)


def run(made: Nest, threads: int = 1, **operands: Stored) -> Any:
    """The result of a nest, compiled; the interpreter, which checks each access, agrees."""
    shape = tuple(N for _ in made.output.axes)
    dtype = made.body.dtype
    fmt = resolve("csr" if made.output.assembly is Assembly.LEVELS else "dense", shape, dtype)
    step = KernelStep(Slot("out", fmt, ()), shape, dtype, literal(0, dtype), 1.0, 8.0, 8.0,
                      1.0 if threads == 1 else 40 * SMALL_COST, nest=made,
                      operands=tuple(operands), order=tuple(range(len(shape))), direct=fmt,
                      threads=threads)
    config = Config(threads=threads, disk_cache=False)
    state = KernelState(step)
    found = to_dense(run_kernel(state, operands, config, 2**30))
    if made.output.assembly is Assembly.DENSE:
        np.testing.assert_allclose(_interpreted(state, config, operands), found, rtol=1e-12)
    return found


def _interpreted(state: KernelState, config: Config, operands: dict[str, Stored],
                 careful: bool = False) -> Any:
    ready = prepare(state, operands, config, careful=careful)
    size = int(np.prod(state.step.shape))
    op = ready.nest.op
    first = 0.0 if op is None or op.identity is None else op.identity(state.step.dtype)
    own = {"out": np.full(size, first, state.step.dtype)}
    for x in ready.nest.lets:
        own |= {f"{x.slot.name}.{n}": np.full(N + 1, start(x) if n == "val" else 0, d)
                for n, d in x.slot.dtypes}
    bindings = ready.lowered.bindings
    arrays = [operands[s].physical(n) if s else own[n] for s, n in bindings.arrays]
    interpret(ready.lowered.kernel, arrays, ready.scalars, 0, N)
    marks = [a for n, a in own.items() if n.endswith(".mark")]
    assert not any(m.any() for m in marks), "a workspace is forgotten where it was filled"
    if ready.nest.speculative and np.isnan(own["out"]).any():
        return _interpreted(state, config, operands, careful=True)
    return own["out"].reshape(state.step.shape)


@pytest.mark.parametrize(("fmt", "threads"), [*((f, 1) for f in FORMATS), ("csr", 2)])
def test_a_marked_row(fmt: str, threads: int) -> None:
    """Triangles: row i is marked once, each row j is looked up in it."""
    m = matrix(1)
    value = stored(m, fmt)
    a = source("A", value)
    w, tensor = let("w", 1, "x", ("x",), None, read(a, "i", "x"))
    body = product(read(a, "i", "j"), read(a, "j", "k"), read(tensor, "k"))
    made = nest("ijk", "ijk", ops.add, body, (w,))
    assert run(made, threads, A=value) == np.einsum("ij,jk,ik->", m, m, m)


@pytest.mark.parametrize("fmt", FORMATS[::2])
def test_workspaces_of_workspaces(fmt: str) -> None:
    """4-cliques: common neighbours of i and j, walked as k and looked up as l."""
    m = matrix(2, 0.4)
    value = stored(m, fmt)
    a = source("A", value)
    u, row = let("u", 1, "x", ("x",), None, read(a, "i", "x"))
    w, common = let("w", 2, "y", ("y",), None, product(read(row, "y"), read(a, "j", "y")))
    body = product(read(a, "i", "j"), read(common, "k"), read(a, "k", "l"), read(common, "l"))
    made = nest("ijkl", "ijkl", ops.add, body, (u, w))
    assert run(made, A=value) == np.einsum("ij,ik,il,jk,jl,kl->", m, m, m, m, m, m)


@pytest.mark.parametrize(("fmt", "other"), list(zip(FORMATS, [FORMATS[-1], *FORMATS])))
def test_a_row_of_a_product(fmt: str, other: str) -> None:
    """4-cycles: a row of A @ B is summed up and used once for each path."""
    m, n = matrix(3), matrix(4)
    left, right = stored(m, fmt), stored(n, other)
    a, b = source("A", left), source("B", right)
    w, row = let("w", 1, "x", ("y", "x"), ops.add, product(read(a, "i", "y"), read(b, "y", "x")))
    body = product(read(b, "i", "j"), read(a, "j", "k"), read(row, "k"))
    made = nest("ijk", "ijk", ops.add, body, (w,))
    assert run(made, A=left, B=right) == ((m @ n) * (n @ m)).sum()
    squares = nest("ik", "ik", ops.add, product(read(row, "k"), read(row, "k")), (w,))
    assert run(squares, 2, A=left, B=right) == ((m @ n) ** 2).sum()


@pytest.mark.parametrize("fmt", ["csr", "csc", "dcsr"])
def test_results_with_axes(fmt: str) -> None:
    m, n = matrix(5), matrix(6)
    value, mask = stored(m, fmt), stored(n, "csr")
    a, b = source("A", value), source("B", mask)
    w, row = let("w", 1, "x", ("y", "x"), ops.add, product(read(a, "i", "y"), read(a, "y", "x")))
    masked = product(read(b, "i", "k"), read(row, "k"))
    for assembly in (Assembly.DENSE, Assembly.LEVELS):
        made = nest("ik", "", None, masked, (w,), assembly)
        np.testing.assert_array_equal(run(made, 2, A=value, B=mask), (m @ m) * n)
    sums = nest("ik", "k", ops.add, masked, (w,))
    np.testing.assert_array_equal(run(sums, A=value, B=mask), ((m @ m) * n).sum(axis=1))
    chain = nest("ijk", "j", ops.add, product(read(b, "i", "j"), read(a, "j", "k"), read(row, "k")),
                 (w,))
    np.testing.assert_array_equal(run(chain, A=value, B=mask), (n @ m) * (m @ m))


def test_an_inner_sum_of_a_workspace_waits_for_it() -> None:
    m = matrix(7)
    value = stored(m, "csr")
    a = source("A", value)
    w, row = let("w", 1, "x", ("x",), None, read(a, "i", "x"))
    total = Reduce(ops.add, (Axis("k", N),), read(row, "k"))
    made = nest("ij", "ij", ops.add, product(read(a, "i", "j"), total), (w,))
    assert run(made, A=value) == (m.sum(axis=1) ** 2).sum()


def test_another_semiring() -> None:
    """Who is reached in two steps and in one: booleans under or and and."""
    m = matrix(8) != 0
    value = stored(m, "csr", False)
    a = source("A", value)
    both = Call(ops.logical_and, (read(a, "i", "y"), read(a, "y", "x")))
    w, row = let("w", 1, "x", ("y", "x"), ops.logical_or, both, False)
    made = nest("ik", "k", ops.logical_or, Call(ops.logical_and, (read(a, "i", "k"),
                                                                 read(row, "k"))), (w,))
    np.testing.assert_array_equal(run(made, A=value), ((m @ m) & m).any(axis=1))


def test_what_is_not_marked_annihilates() -> None:
    """inf and nan beside an entry that is not stored count for nothing."""
    m = matrix(9)
    wild = m.copy()
    wild[wild == 5] = np.inf
    wild[wild == 6] = np.nan
    left, right = stored(m, "csr"), stored(wild, "csr")
    a, b = source("A", left), source("B", right)
    w, row = let("w", 1, "x", ("x",), None, read(a, "i", "x"))
    made = nest("ijk", "jk", ops.add, product(read(a, "i", "j"), read(b, "j", "k"),
                                              read(row, "k")), (w,))
    with np.errstate(invalid="ignore"):
        points = m[:, :, None] * wild[None] * m[:, None, :]
    here = np.where((m[:, None, :] != 0) & (wild[None] != 0) & (m[:, :, None] != 0),
                    points, 0)
    np.testing.assert_array_equal(run(made, A=left, B=right), here.sum(axis=(1, 2)))


def test_the_kernel_shows_its_workspaces() -> None:
    a = source("A", stored(matrix(1), "csr"))
    w, row = let("w", 1, "x", ("x",), None, read(a, "i", "x"))
    made = nest("ijk", "ijk", ops.add, product(read(a, "i", "j"), read(a, "j", "k"),
                                               read(row, "k")), (w,))
    text = show(lower_nest(made).kernel)
    assert "] = True" in text and "w_n = 0" in text, text
    assert "if has" in text and " if has:" not in text, "looked up without a branch"


@pytest.mark.parametrize("text", ["ij,jk,ik->", "ij,jk,ik->i", "ij,ik,il,jk,jl,kl->",
                                  "ij,ik,il,jk,jl,kl->j"])
@pytest.mark.parametrize("wild", [np.inf, np.nan, 1e200, 1e300])  # no sum that overflows cancels
def test_hope_that_fails_is_given_up(text: str, wild: float) -> None:
    """Sums multiply by zeros where nothing is stored; an infinite factor there makes a nan, and
    all is computed again with marks. The value is that of the entries alone."""
    rng = np.random.default_rng(5)
    n = 40
    whole = np.where(rng.random((n, n)) < 0.2, rng.integers(1, 4, (n, n)), 0).astype(float)
    whole[rng.random((n, n)) < 0.01] = wild
    whole[3], whole[:, 4] = 0, 0
    t = tr.tensor(whole, format="csr", fill=0)
    names = text.split("->")[0].split(",")
    with tr.options(threads=1):
        program = tr.einsum(text, *(t for _ in names))
        found = program.to_numpy()
    with np.errstate(all="ignore"):
        expected = _by_entries(text, whole)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def _by_entries(text: str, a: Any) -> Any:
    """The sum over tuples of stored entries, and nothing else."""
    inputs, output = text.split("->")
    pairs = inputs.split(",")
    names = sorted(set("".join(pairs)))
    points = np.zeros((1, 0), int)
    bound: list[str] = []
    for n in names:
        points = np.column_stack((np.repeat(points, len(a), axis=0),
                                  np.tile(np.arange(len(a)), len(points))))
        bound.append(n)
        for p in pairs:
            if n in p and set(p) <= set(bound):
                points = points[a[points[:, bound.index(p[0])], points[:, bound.index(p[1])]] != 0]
    terms = np.ones(len(points))
    for p in pairs:
        terms = terms * a[points[:, bound.index(p[0])], points[:, bound.index(p[1])]]
    if not output:
        return terms.sum()
    return np.bincount(points[:, bound.index(output)], terms, len(a))


def test_hope_is_for_sums_of_products() -> None:
    """The greatest of products may not see a zero that is not stored."""
    rng = np.random.default_rng(6)
    a = np.where(rng.random((30, 30)) < 0.3, -rng.random((30, 30)), 0)
    t = tr.tensor(a, format="csr", fill=0)
    for text, add in (("ij,jk,ik->i", tr.sum), ("ij,jk,ik->", tr.sum)):
        found = tr.einsum(text, t, t, t, add=add).to_numpy()
        np.testing.assert_allclose(found, np.einsum(text, a, a, a))
