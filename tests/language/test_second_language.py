"""A second language, without a parser: comprehensions written as Python objects are lowered by the
operations that all languages share, and have the plans of the einsum and the SDQLite program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

import tensorel as tr
from tensorel.algebra import ops
from tensorel.errors import ExtentWarning, ParseError
from tensorel.front.array.base import wrap
from tensorel.front.array.tensor import Tensor
from tensorel.front.languages.program import lowered
from tensorel.ir import nodes as ir
from tensorel.ir.printer import show
from tensorel.language.builder import Builder
from tensorel.language.comprehension import (
    Binding,
    Comprehension,
    Env,
    Formula,
    Generator,
    Guard,
    conjuncts,
    flat,
)
from tensorel.language.dictionaries import Value, scalar
from tensorel.language.scalars import BOOL, INT, MAX_PLUS, MIN_PLUS, REAL, Semiring, arithmetic

rng = np.random.default_rng(3)
KINDS = {"b": BOOL, "i": INT, "f": REAL}


class Words:
    """The words of the little language over one program: names, numbers and operators."""

    def __init__(self, build: Builder, given: Mapping[str, Tensor]) -> None:
        self.build = build
        self.given: dict[str, Value] = {
            n: build.tensor(t.node, KINDS[t.dtype.kind], name=n) for n, t in given.items()}

    def op(self, op: ops.Operator, a: object, b: object, kind: Semiring) -> Formula:
        def made(env: Env) -> Value:
            args = [self.build.expr(self.value(x)(env)) for x in (a, b)]
            return scalar(arithmetic(op, *args), kind)
        return made

    def value(self, x: object) -> Formula:
        if isinstance(x, str):
            return lambda env: env[x]
        if isinstance(x, (int, float)):
            dtype = np.dtype(type(x))
            return lambda env: scalar(ir.const(x, dtype), INT if type(x) is int else REAL)
        assert callable(x)
        return x

    def times(self, a: object, b: object) -> Formula:
        return lambda env: self.build.times(self.value(a)(env), self.value(b)(env), 0)

    def equal(self, a: object, b: object) -> Formula:
        return self.op(ops.equal, a, b, BOOL)

    def range(self, low: int, high: int) -> Value:
        return self.build.span(ir.const(low), ir.const(high), 0)


def run(program: Callable[[Words], Comprehension], **tensors: object) -> Tensor:
    def lower(build: Builder, given: Mapping[str, Tensor]) -> ir.Tensor:
        words = Words(build, given)
        return build.result(program(words).lower(build, words.given), 0)

    return wrap(lowered("tiny", program.__name__, tensors, lower))


def keys(*names: str) -> Sequence[Formula]:
    return [lambda env, n=n: env[n] for n in names]


def sparse(*shape: int) -> np.ndarray:
    return np.where(rng.random(shape) < 0.3, rng.integers(1, 5, shape), 0).astype(float)


A, B, X = sparse(6, 5), sparse(5, 4), sparse(5)


def product(w: Words) -> Comprehension:
    """[ ((i,j), a*b) | ((i,k),a) <- A, ((kk,j),b) <- B, kk == k, group by + ]"""
    return Comprehension(
        [Generator(("i", "k"), "a", w.given["A"]), Generator(("kk", "j"), "b", w.given["B"]),
         Guard(w.equal("kk", "k"))],
        w.times("a", "b"), keys("i", "j"))


def joined_by_name(w: Words) -> Comprehension:
    return Comprehension(
        [Generator(("i", "k"), "a", w.given["A"]), Generator(("k", "j"), "b", w.given["B"])],
        w.times("a", "b"), keys("i", "j"))


def by_rows(w: Words) -> Comprehension:
    return Comprehension(
        [Generator("i", "row", w.given["A"]), Generator("k", "a", lambda env: env["row"]),
         Generator("k", "r", w.given["B"]), Generator("j", "b", lambda env: env["r"])],
        w.times("a", "b"), keys("i", "j"))


@pytest.mark.parametrize("program", [product, joined_by_name, by_rows])
@pytest.mark.parametrize("formats", [("csr", "csr"), ("coo", "dense"), ("dense", "csc")])
def test_a_product_is_the_einsum_and_the_program(
        program: Callable[[Words], Comprehension], formats: tuple[str, str]) -> None:
    given = {"A": tr.tensor(A, formats[0]), "B": tr.tensor(B, formats[1])}
    found = run(program, **given)
    wanted = tr.einsum("ik,kj->ij", *given.values())
    text = "sum(<(i,k), a> in A, <(k,j), b> in B) { (i,j) -> a * b }"
    assert found.node is wanted.node
    assert found.node is tr.sdql(text, **given).node
    assert str(found.explain()) == str(wanted.explain())
    assert np.array_equal(found.to_numpy(), A @ B)


def count(w: Words) -> Comprehension:
    return Comprehension([Generator(("i", "j"), "_", w.given["A"])], w.value(1), kind=INT)


def total(w: Words) -> Comprehension:
    return Comprehension([Generator(("i", "j"), "a", w.given["A"])], w.value("a"))


def large(w: Words) -> Comprehension:
    return Comprehension(
        [Generator(("i", "j"), "a", w.given["A"]), Guard(w.op(ops.greater, "a", 2, BOOL))],
        w.value("a"), keys("i"))


def smallest(w: Words) -> Comprehension:
    """The minimum of what is stored, not of the zeros around it."""
    return Comprehension(
        [Generator(("i", "j"), "a", w.given["A"])], w.value("a"), keys("i"), MIN_PLUS)


def below_diagonal(w: Words) -> Comprehension:
    return Comprehension(
        [Generator("i", "_", w.range(1, 5)), Generator("j", "_", w.range(0, 4)),
         Guard(w.op(ops.less, "j", "i", BOOL)),
         Binding("s", w.op(ops.add, "i", "j", INT))], w.value("s"), keys("i", "j"), INT)


def halves(w: Words) -> Comprehension:
    """Two rows are added at a time."""
    return Comprehension(
        [Generator(("i", "j"), "a", w.given["A"])], w.value("a"),
        [w.op(ops.floor_divide, "i", 2, INT)])


def having(w: Words) -> Comprehension:
    """The sums of rows that are above 8, doubled."""
    sums = Comprehension([Generator(("i", "j"), "a", w.given["A"])], w.value("a"), keys("i"))
    return Comprehension(
        [Generator("i", "s", lambda env: sums.lower(w.build, env)),
         Guard(w.op(ops.greater, "s", 8.0, BOOL))], w.times("s", 2.0), keys("i"))


def by_label(w: Words) -> Comprehension:
    """Groups whose keys are data."""
    return Comprehension(
        [Generator("k", "x", w.given["X"]), Generator("k", "l", w.given["L"])],
        w.value("x"), keys("l"))


def quotients(w: Words) -> Comprehension:
    """0/0 is no entry: what has none is not visited."""
    return Comprehension(
        [Generator(("i", "j"), "a", w.given["A"])], w.op(ops.divide, "a", "a", REAL), keys("j"))


def shadowing(w: Words) -> Comprehension:
    """Names from outside are hidden; those of this comprehension are joined."""
    return Comprehension(
        [Generator(("A", "B"), "X", w.given["A"]), Generator("B", "b", w.given["X"])],
        w.times("X", "b"), keys("A"))


def largest_sum(w: Words) -> Comprehension:
    return Comprehension(
        [Generator(("i", "k"), "a", w.given["A"]), Generator(("k", "j"), "b", w.given["B"])],
        w.op(ops.add, "a", "b", REAL), (), MAX_PLUS)


LABELS = np.array([2, 0, 2, 1, 0])
ROWS = A.sum(1)
CASES: dict[Callable[[Words], Comprehension], object] = {
    count: np.count_nonzero(A),
    total: A.sum(),
    large: np.where(A > 2, A, 0).sum(1),
    smallest: np.where(A != 0, A, np.inf).min(1),
    below_diagonal: np.array([[i + j if j < i else 0 for j in range(4)] for i in range(5)]),
    halves: A.reshape(3, 2, 5).sum((1, 2)),
    having: np.where(ROWS > 8, 2 * ROWS, 0),
    by_label: np.array([X[k == LABELS].sum() for k in range(3)]),
    quotients: np.count_nonzero(A, 0),
    shadowing: A @ X,
    largest_sum: max(A[i, k] + B[k, j] for i in range(6) for k in range(5) for j in range(4)
                     if A[i, k] and B[k, j]),
}


@pytest.mark.parametrize("program", CASES, ids=lambda p: p.__name__)
@pytest.mark.parametrize("fmt", ["csr", "coo", "dense"])
def test_what_flat_languages_say(program: Callable[[Words], Comprehension], fmt: str) -> None:
    given: dict[str, object] = {"A": tr.tensor(A, fmt), "B": B, "X": X}
    if program is by_label:
        given["L"] = LABELS + 1  # a label of zero would be no entry
        found = run(program, **given).to_numpy()[1:]
    else:
        found = run(program, **given).to_numpy()
    assert np.array_equal(found, CASES[program])


def test_only_what_is_needed_is_asked_to_be_there() -> None:
    """No test of an entry where nothing comes of one that is not there."""
    for program, tests in ((product, 0), (total, 0), (large, 1), (count, 1), (by_rows, 0)):
        text = show(run(program, A=tr.tensor(A, "csr"), B=tr.tensor(B, "csr")).node)
        assert text.count("where") == tests, program.__name__
        assert text.count("!=") == (program is count), program.__name__


def test_axes_of_two_extents_are_joined_with_a_warning() -> None:
    with pytest.warns(ExtentWarning, match="tiny: axis 1 of A has 5"):
        found = run(joined_by_name, A=A, B=B[:4])
    assert np.array_equal(found.to_numpy(), A[:, :4] @ B[:4])


def test_keys_that_may_be_negative_are_refused_at_their_place() -> None:
    def shifted(w: Words) -> Comprehension:
        return Comprehension(
            [Generator("k", "x", w.given["X"])], w.value("x"), [w.op(ops.subtract, "k", 1, INT)])

    with pytest.raises(ParseError, match="keys may be negative, from -1 to 3") as error:
        run(shifted, X=X)
    assert error.value.text == "shifted"


def test_patterns_and_tests_are_flat() -> None:
    assert flat((("i", ("j", "_")), "k")) == ["i", "j", "_", "k"]
    i = ir.Index("i")
    parts = [ir.Call(ops.less, (i, ir.const(n))) for n in (1, 2, 3)]
    both = ir.Call(ops.logical_and, (parts[0], ir.Call(ops.logical_and, (parts[1], parts[2]))))
    assert conjuncts(both) == parts
