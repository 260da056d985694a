"""Printer and parser: exact round trip, and nothing but ParseError for bad text."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorel.algebra import bulk, ops
from tensorel.errors import ParseError, TypeError_
from tensorel.ir.nodes import (
    Axis,
    Bulk,
    Call,
    Const,
    Expr,
    Index,
    Lambda,
    Local,
    Node,
    Read,
    Reduce,
    Source,
    Tensor,
    const,
)
from tensorel.ir.parser import parse, parse_program
from tensorel.ir.printer import name_tensors, show, show_program

INDEX_NAMES = ("i", "j", "k", "A", "in", "two words", "back`quote\\", "sum", "t1")
LAST = ops.user_monoid("last one", lambda a, b: b, lambda a, b: b, 0, commutative=False)
A = Source("A", (3, 4), np.dtype("float64"), const(0.0))
B = Source("B", (), np.dtype("int32"), const(0, np.dtype("int32")))


def literals() -> st.SearchStrategy[Const]:
    def of(dtype: ops.DType) -> st.SearchStrategy[Const]:
        if dtype.kind == "b":
            return st.booleans().map(const)
        raw = st.binary(min_size=dtype.itemsize, max_size=dtype.itemsize)
        nice = st.integers(-3, 3).map(lambda v: const(v, dtype))
        special = st.sampled_from([np.nan, np.inf, -np.inf, -0.0, 1e30, 0.1])
        more = special.map(lambda v: const(v, dtype)) if dtype.kind in "fc" else nice
        return raw.map(lambda bits: Const(bits, dtype)) | nice | more

    return st.sampled_from(ops.DTYPES).flatmap(of)


def _call(op: ops.Operator, args: tuple[Expr, ...]) -> Expr:
    try:
        return Call(op, args)
    except TypeError_:
        return args[0]


def _grown(below: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    by_arity = {
        n: [o for o in ops.operators() if o.arity == n] + ([ops.cast(ops.BOOL)] if n == 1 else [])
        for n in (1, 2, 3)
    }
    calls = [
        st.builds(_call, st.sampled_from(by_arity[n]), st.tuples(*[below] * n)) for n in (1, 2, 3)
    ]
    axes = st.lists(
        st.builds(Axis, st.sampled_from(INDEX_NAMES), st.integers(0, 9)),
        max_size=2, unique_by=lambda a: a.name,
    ).map(tuple)
    monoids = st.sampled_from([o for o in ops.operators() if o.is_monoid] + [LAST])
    indices = st.tuples(below, below)
    return st.one_of(
        *calls,
        st.builds(Reduce, monoids, axes, below),
        st.builds(lambda i: Read(A, i), indices),
        st.builds(_read_of_formula, axes, below),
        st.builds(_read_of_sort, below),
    )


def _read_of_formula(axes: tuple[Axis, ...], body: Expr) -> Expr:
    missing = tuple(Axis(n, 2) for n in sorted(body.free - {a.name for a in axes}))
    formula = Lambda(axes + missing, body)
    return Read(formula, tuple(const(0) for _ in formula.axes))


def _read_of_sort(index: Expr) -> Expr:
    same = Bulk(bulk.sort, (A,), (0, False))
    flat = Bulk(bulk.reshape, (same,), ((12,),))
    return Read(Bulk(bulk.take, (flat, Bulk(bulk.argmin, (A,), (0,))), (0,)), (index,))


exprs: st.SearchStrategy[Expr] = st.recursive(
    literals()
    | st.sampled_from(INDEX_NAMES).map(Index)
    | st.just(Read(B, ()))
    | st.builds(Local, st.sampled_from(INDEX_NAMES), st.sampled_from(ops.DTYPES)),
    _grown,
    max_leaves=12,
)


def back(text: str, node: Node) -> tuple[Node, ...]:
    names = {name: tensor for tensor, name in name_tensors(node).items()}
    return parse_program(text, names, {LAST.name: LAST})


@settings(max_examples=400, deadline=None)
@given(exprs)
def test_round_trip(e: Expr) -> None:
    assert back(show(e), e) == (e,)


@settings(max_examples=150, deadline=None)
@given(exprs)
def test_round_trip_of_programs(e: Expr) -> None:
    formula = Lambda(tuple(Axis(n, 3) for n in sorted(e.free)), e)
    again = Bulk(bulk.cumulative_sum, (formula,), (0,))
    text = show_program([again, formula])
    assert back(text, again) == (again, formula)


@pytest.mark.parametrize(
    "text",
    [
        "2.5", "3:int8", "nan", "-inf", "1.0+2.0j:complex64", "True", "0.1:float32", "-0.0",
        "i + j * k", "(i + j) * k", "i - (j - k)", "i ** j ** k", "(i ** j) ** k", "-i ** 2",
        "(-2) ** i", "-(2)", "-(-2)", "~i & j", "not (i and j)", "i < j and j < k",
        "(i < j) == (j < k)", "sum(k in 4, r in 3) k * r", "2 * (sum(k in 4) k)",
        "max(k in 4) min(r in 2) k * r", "any() i < 3", "where(i < 3, 2.5)",
        "where(i < 3, 2.5, 1.0)", "float32(i)", "exp(i / 2)", "minimum(i, j)",
        "reduce(bitwise_or, k in 4, k & i)", "[i in 3, j in 4] -> i * j", "([i in 3] -> i)[k]",
        "sort([i in 3] -> i; 0, False)", "argmax([i in 3] -> i; None)",
        "sum(p in 7) where(i <= p and p < i + 1 and j == p, 1.5)", "$x:float32 + 1:int8",
    ],
)
def test_text_is_kept(text: str) -> None:
    assert show(parse(text)) == text


def test_names_and_extents_come_from_the_environment() -> None:
    found = parse("[i in N] -> A[i, 0] + N", {"A": A, "N": 3})
    assert found is parse("[i in 3] -> A[i, 0] + 3", {"A": A})


def test_chained_comparison_is_a_conjunction() -> None:
    assert parse("i <= j < k") is parse("i <= j and j < k")


def test_csr_as_a_storage_mapping() -> None:
    def physical(size: int) -> Source:
        return Source(("array", size), (size,), ops.INT64, const(0))

    names = {"pos1": physical(4), "idx1": physical(6), "val": physical(7), "N": 6}
    entry = "where(pos1[i] <= p < pos1[i+1] and j == idx1[p], val[p])"
    found = parse(f"[i in 3, j in 5] -> sum(p in N) {entry}", names)
    assert isinstance(found, Lambda) and found.shape == (3, 5)


def test_shared_tensors_are_named_once() -> None:
    text = "t1 = [i in 3] -> i + 1\nt2 = [i in 3] -> t1[i] * t1[2 - i]\nreturn t2, t1"
    assert show_program(parse_program(text)) == text


def test_default_names_avoid_index_names() -> None:
    assert show(Read(A, (Index("A"), Index("B")))) == "C[A, B]"


def test_deep_nesting_and_wide_sharing() -> None:
    deep: Expr = Index("i")
    for _ in range(5000):
        deep = Call(ops.exp, (Call(ops.negative, (deep,)),))
    assert parse(show(deep)) is deep
    shared: Expr = Index("i")
    for _ in range(200):
        shared = Call(ops.multiply, (shared, shared))
    assert parse(show(shared)) is shared
    assert parse("(" * 20_000 + "i" + ")" * 20_000) is Index("i")


def test_long_chain_of_tensors() -> None:
    t: Tensor = Lambda((Axis("i", 3),), Index("i"))
    for _ in range(1500):
        t = Lambda((Axis("i", 3),), Call(ops.add, (Read(t, (Index("i"),)), const(1))))
    assert parse(show_program([t])) is t


@pytest.mark.parametrize(
    "text, line, column, message",
    [
        ("i +", 1, 4, "text ends"),
        ("i +\n  * j", 2, 3, "expected an expression"),
        ("Q[i]", 1, 1, "unknown tensor 'Q'"),
        ("expp(i)", 1, 1, "unknown operator 'expp'"),
        ("sum(k of 3) k", 1, 7, "expected 'in'"),
        ("sum(k in x) k", 1, 10, "extent"),
        ("[i in 3, i in 4] -> i", 1, 10, "bound twice"),
        ("[i in 3] -> j", 1, 1, "not bound"),
        ("300:int8", 1, 1, "out of bounds"),
        ("3:int7", 1, 1, "not a dtype"),
        ("i ? j", 1, 3, "unexpected character"),
        ("A + 1", 1, 1, "tensor stands where a value"),
        ("A[i]", 1, 1, "rank"),
        ("exp(i, j)", 1, 1, "takes 1"),
        ("t = 1\nt = 2\nreturn t", 2, 1, "defined twice"),
        ("i j", 1, 3, "operator or the end"),
        ("2.5 << 1", 1, 5, "does not take"),
    ],
)
def test_errors_say_where(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(ParseError, match=message) as caught:
        parse(text, {"A": A})
    assert (caught.value.line, caught.value.column) == (line, column)


def test_fuzzed_text_gives_a_node_or_a_parse_error() -> None:
    pieces = [
        "i", "j", "A", "B", "[", "]", "(", ")", ",", ";", ":", "->", "in", "sum", "reduce", "where",
        "exp", "sort", "3", "2.5", "nan", "1+2j", ":int8", "0x", "0xff", "-", "not", "and", "**",
        "<", "==", "=", "return", "`", "'", '"s"', "None", "$", "~", " ", "\n", "#", "float32",
        "9" * 30, "é", "\\", "True", "t1",
    ]
    rng = random.Random(0)
    for _ in range(20_000):
        count = rng.randint(0, 14)
        text = "".join(rng.choice(pieces) + rng.choice(["", " "]) for _ in range(count))
        try:
            parse_program(text, {"A": A, "B": B, "N": 3})
        except ParseError as error:
            assert str(error)


@settings(max_examples=200, deadline=None)
@given(exprs, st.integers(0, 10**6), st.text(max_size=3))
def test_damaged_text_gives_a_node_or_a_parse_error(e: Expr, place: int, more: str) -> None:
    text = show(e)
    cut = place % (len(text) + 1)
    for damaged in (text[:cut] + more + text[cut:], text[:cut], text[cut:]):
        try:
            parse_program(damaged, {"A": A, "B": B})
        except ParseError as error:
            assert str(error)
