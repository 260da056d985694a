"""Canonical polynomials: what is equal becomes one expression, what is not does not."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from rewrite_support import EXTENTS, Programs, equal, sources, value, values

from measures import calls
from tensorel.algebra import ops
from tensorel.ir.nodes import Axis, Call, Expr, Index, Read, Reduce, Source, const
from tensorel.ir.parser import parse
from tensorel.ir.printer import show
from tensorel.rewrite.names import relabel
from tensorel.rewrite.polynomial import canonical

FLOATS, INTS, BOOLS, BYTES = (sources(d) for d in ("float64", "int64", "bool", "uint8"))


def read(text: str, names: object = FLOATS) -> Expr:
    found = parse(text, names)  # type: ignore[arg-type]
    assert isinstance(found, Expr)
    return found


EQUAL = [
    ("u[i] * (v[i] + w[i])", "w[i] * u[i] + v[i] * u[i]"),
    ("square(u[i] - v[i])", "u[i]*u[i] - 2.0*u[i]*v[i] + v[i]*v[i]"),
    ("(u[i] + v[i]) ** 3", "u[i]**3 + 3.0*u[i]*u[i]*v[i] + 3.0*u[i]*v[i]**2 + v[i]**3"),
    ("(u[i] + v[i]) * (u[i] - v[i])", "square(u[i]) - square(v[i]) + 0.0 * u[i] * v[i]"),
    ("sum(k in 4, l in 3) A[k, l]", "sum(b in 3) sum(a in 4) A[a, b]"),
    ("sum(k in 4, l in 4) A[k, l] * u[k]", "sum(k in 4, l in 4) u[l] * A[l, k]"),
    ("sum(k in 4) u[i] * v[k]", "u[i] * (sum(l in 4) v[l])"),
    ("sum(k in 4) u[i]", "4.0 * u[i]"),
    ("sum(i in 4, j in 4, k in 4) A[i, k] * B[k, j]",
     "sum(k in 4) (sum(i in 4) A[i, k]) * (sum(j in 4) B[k, j])"),
    ("square(sum(k in 4) u[k])", "sum(a in 4, b in 4) u[b] * u[a]"),
    ("sum(k in 4, l in 4) square(A[k, l] - u[k] * v[l])",
     "(sum(k in 4, l in 4) A[k, l] * A[k, l]) - 2.0 * (sum(k in 4) u[k] * (sum(l in 4) "
     "v[l] * A[k, l])) + (sum(k in 4) u[k] * u[k]) * (sum(k in 4) square(v[k]))"),
    ("u[i] / 4.0", "0.25 * u[i]"),
    ("(u[i] + v[i]) / w[i]", "u[i] / w[i] + v[i] / w[i]"),
    ("exp(u[i] * (v[i] + 1.0))", "exp(u[i] + v[i] * u[i])"),
    ("maximum(u[i] + v[i], u[i] + w[i])", "u[i] + maximum(w[i], v[i])"),
    ("max(k in 4) u[i] + v[k]", "(max(l in 4) v[l]) + u[i]"),
    ("minimum(u[i], maximum(v[i], w[i]))", "maximum(minimum(w[i], u[i]), minimum(v[i], u[i]))"),
    ("sum(k in 4) exp(A[k, i] * (sum(l in 4) u[l] * B[l, k]))",
     "sum(l in 4) exp(sum(k in 4) B[k, l] * A[l, i] * u[k])"),
    ("-(u[i] - v[i])", "v[i] - u[i]"),
    ("A[i + 1, j * 2]", "A[1 + i, j + j]"),
]
UNEQUAL = [
    ("u[i] - u[i]", "0.0"),
    ("0.0 * u[i]", "0.0"),
    ("u[i] - v[i]", "v[i] - u[i]"),
    ("sum(k in 4, l in 4) A[k, l] * u[k]", "sum(k in 4, l in 4) A[k, l] * u[l]"),
    ("sum(k in 4) u[k] * v[k]", "(sum(k in 4) u[k]) * (sum(k in 4) v[k])"),
    ("sum(k in 4) u[k]", "sum(k in 3) u[k]"),
    ("sum(k in 4) A[k, k]", "sum(k in 4, l in 4) A[k, l]"),
    ("square(sum(k in 4) u[k])", "sum(k in 4) square(u[k])"),
    ("u[i] / v[i]", "v[i] / u[i]"),
    ("(u[i] * v[i]) / v[i]", "u[i]"),
    ("maximum(u[i], minimum(u[i], v[i]))", "u[i]"),
    ("max(k in 4) u[i] * v[k]", "u[i] * (max(k in 4) v[k])"),
    ("u[i] * inf", "u[i]"),
    ("A[i, j]", "A[j, i]"),
    ("sum(k in 4) A[i, k] * B[k, j]", "sum(k in 4) B[i, k] * A[k, j]"),
]


@pytest.mark.parametrize(("a", "b"), EQUAL)
def test_equal(a: str, b: str) -> None:
    one, other = canonical(read(a)), canonical(read(b))
    assert one is other, f"{show(one)} and {show(other)}"
    assert canonical(one) is one
    assert equal(read(a), read(b))
    data = values("float64", 5)
    if "+ 1" not in a:
        np.testing.assert_allclose(value(read(a), data), value(one, data), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("a", "b"), UNEQUAL)
def test_unequal(a: str, b: str) -> None:
    assert not equal(read(a), read(b))


def test_integers_wrap() -> None:
    assert equal(read("u[i] - u[i]", INTS), read("0"))
    assert equal(read("u[i] * 128:uint8 + u[i] * 128:uint8", BYTES), read("0:uint8"))
    assert equal(read("-u[i]", BYTES), read("u[i] * 255:uint8", BYTES))
    assert not equal(read("u[i] * 2 // 2", INTS), read("u[i]", INTS))
    assert not equal(read("u[i] + minimum(v[i], w[i])", INTS),
                     read("minimum(u[i] + v[i], u[i] + w[i])", INTS))


def test_truth() -> None:
    assert equal(read("u[i] and (v[i] or w[i])", BOOLS),
                 read("w[i] and u[i] or u[i] and v[i]", BOOLS))
    assert equal(read("u[i] + u[i]", BOOLS), read("u[i]", BOOLS))
    assert equal(read("u[i] * (u[i] + v[i])", BOOLS), read("u[i] + u[i] * v[i]", BOOLS))
    assert not equal(read("u[i] or v[i]", BOOLS), read("u[i] and v[i]", BOOLS))


def test_differences_keep_what_may_be_nan() -> None:
    assert equal(read("(u[i] + v[i]) - v[i]"), read("u[i] + 0.0 * v[i]"))


def test_past_the_limit_arguments_are_sorted() -> None:
    text = " * ".join(["(u[i] + v[i] + w[i])"] * 6)
    found = canonical(read(text))
    assert found is canonical(read(text.replace("u[i] + v[i] + w[i]", "w[i] + v[i] + u[i]")))
    data = values("float64", 1)
    np.testing.assert_allclose(value(found, data), value(read(text), data), rtol=1e-9)


SEMIRINGS = {(ops.multiply, ops.add), (ops.add, ops.maximum)}


def shuffled(e: Expr, programs: Programs) -> Expr:
    """The same program, written another way."""
    r = programs.random
    match e:
        case Call():
            args = tuple(shuffled(a, programs) for a in e.args)
            if e.op.commutative and r.random() < 0.5:
                args = args[::-1]
            if e.op is ops.subtract and e.dtype.kind != "b" and r.random() < 0.5:
                return Call(ops.add, (Call(ops.negative, (args[1],)), args[0]))
            a, b = args[0], args[-1]
            if isinstance(b, Call) and (e.op, b.op) in SEMIRINGS and e.dtype.kind != "b":
                return Call(b.op, (Call(e.op, (a, b.args[0])), Call(e.op, (b.args[1], a))))
            return Call(e.op, args)
        case Reduce():
            body = shuffled(e.body, programs)
            programs.count += 1
            names = {e.axes[0].name: f"z{programs.count}"}
            if isinstance(body, Call) and body.op is e.op and e.op in (
                    ops.add, ops.logical_or, ops.maximum):
                return Call(e.op, tuple(Reduce(e.op, e.axes, a) for a in body.args))
            return relabel(Reduce(e.op, e.axes, body), names)
        case _:
            return e


PURE = [("float64", "ring"), ("float64", "max-plus"), ("int64", "ring"), ("uint8", "ring"),
        ("bool", "")]


@pytest.mark.parametrize(("dtype", "pure"), PURE)
@pytest.mark.parametrize("seed", range(25))
def test_forms_of_one_program(seed: int, dtype: str, pure: str) -> None:
    programs = Programs(1000 + seed, dtype, pure)
    e = programs.make(4)
    one = canonical(e)
    for _ in range(4):
        assert canonical(shuffled(e, programs)) is one


@pytest.mark.parametrize("dtype", ["float64", "int64", "uint8", "bool"])
@pytest.mark.parametrize("seed", range(25))
def test_the_value_stays(seed: int, dtype: str) -> None:
    e = Programs(2000 + seed, dtype).make(4)
    one = canonical(e)
    assert one.dtype == e.dtype and one.free <= e.free
    assert canonical(one) is one
    data = values(dtype, seed)
    a, b = value(e, data, EXTENTS), value(one, data, EXTENTS)
    if dtype == "float64":
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-6)
    else:
        np.testing.assert_array_equal(a, b)


def graph_sum(edges: list[tuple[int, int]], names: list[str]) -> Expr:
    """The number of homomorphic images of a graph: a sum over all of its nodes."""
    product: Expr | None = None
    for a, b in edges:
        f = Read(FLOATS["A"], (Index(names[a]), Index(names[b])))
        product = f if product is None else Call(ops.multiply, (product, f))
    assert product is not None
    used = sorted({n for e in edges for n in e})
    return Reduce(ops.add, tuple(Axis(names[n], 4) for n in used), product)


GRAPHS = {
    "triangle": [(0, 1), (1, 2), (2, 0)],
    "path": [(0, 1), (1, 2), (2, 3)],
    "star": [(0, 1), (0, 2), (0, 3)],
    "in-star": [(1, 0), (2, 0), (3, 0)],
    "square": [(0, 1), (1, 2), (2, 3), (3, 0)],
    "two pairs": [(0, 1), (1, 0), (2, 3), (3, 2)],
    "transitive": [(0, 1), (1, 2), (0, 2)],
}


def test_graphs_up_to_isomorphism() -> None:
    """Regular graphs defeat refinement alone: ties are broken exactly."""
    forms = {}
    for name, edges in GRAPHS.items():
        found = {canonical(graph_sum(edges, list(p))) for p in permutations("abcd")}
        assert len(found) == 1, name
        forms[name] = found.pop()
    assert len(set(forms.values())) == len(GRAPHS)


def test_quick() -> None:
    e = read("sum(k in 4, l in 4) A[i, k] * B[k, l] * C[l, j] * (u[k] + v[l])")
    called, _ = calls(lambda: canonical(e))
    assert called < 10_000  # 4,000 are a millisecond


def test_an_inner_index_may_hide_an_outer_one() -> None:
    """sum_k x[k] * (sum_k y[k]) + z: the two k are two (fuzz 4001:8574)."""
    x, y = (Source(n, (3,), ops.FLOAT64, const(0.0)) for n in "xy")
    k, axes = Index("k"), (Axis("k", 3),)
    inner = Reduce(ops.add, axes, Read(y, (k,)))
    hiding = Reduce(ops.add, axes, Call(ops.multiply, (Read(x, (k,)), inner)))
    apart = Reduce(ops.add, axes, Call(ops.multiply, (
        Read(x, (k,)), Reduce(ops.add, (Axis("l", 3),), Read(y, (Index("l"),))))))
    twice = Reduce(ops.add, axes, inner)
    assert canonical(hiding) is canonical(apart)
    assert canonical(twice) is canonical(Call(ops.multiply, (const(3.0), inner)))
