"""The law of bounds: never below the true number of points."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from stats_support import KINDS, joined, random_pattern, relation_of, stored_pattern

from tensorel.ir.build import as_expr, plus, times
from tensorel.ir.nodes import Index, Read, Source, const
from tensorel.kernels.lowering.support import FALSE, TRUE, conjunction, disjunction, has
from tensorel.stats.collected.collect import collect
from tensorel.stats.estimates import bounds
from tensorel.stats.estimates.joins import join, union
from tensorel.stats.estimates.pointset import rename
from tensorel.stats.estimates.reads import as_stats, of_read
from tensorel.stats.estimates.reduction import project, reduce_over
from tensorel.stats.estimates.simplex import maximum
from tensorel.stats.estimates.support import points, reader

JOINS = {
    "product": ("ik", "kj"), "elementwise": ("ij", "ij"), "chain": ("ij", "jk", "kl"),
    "triangle": ("ij", "jk", "ki"), "cycle": ("ij", "jk", "kl", "li"),
    "star": ("ai", "bi", "ci"), "mttkrp": ("ijk", "jr", "kr"), "clique": (
        "ij", "ik", "il", "jk", "jl"), "vectors": ("i", "ij", "j"), "cross": ("i", "j"),
    "tensors": ("ijk", "kjl"), "cubes": ("ijk", "jkl", "il"),
}
EXTENTS = {"a": 4, "b": 5, "c": 3, "i": 6, "j": 5, "k": 7, "l": 4, "r": 3}


def patterns(rng, names):
    return [(random_pattern(rng, tuple(EXTENTS[n] for n in ns), str(rng.choice(KINDS))), ns)
            for ns in names]


def check(relation, truth, order):
    """Bounds of all projections hold; estimates are sane."""
    names = tuple(relation.names)
    axes = [order.index(n) for n in names]
    assert sorted(axes) == list(range(truth.ndim))
    actual = np.count_nonzero(truth)
    assert relation.bound >= actual
    assert 0 <= relation.estimate <= relation.cardinality
    for count in range(len(order) + 1):
        for keep in itertools.combinations(order, count):
            gone = tuple(k for k, n in enumerate(order) if n not in keep)
            held = np.count_nonzero(truth.any(axis=gone)) if gone else actual
            smaller = project(relation, keep)
            assert smaller.bound >= held, (keep, relation)
            assert smaller.cardinality >= held, (keep, relation)
            assert smaller.estimate <= smaller.cardinality * (1 + 1e-9)
    for n in order:
        others = tuple(k for k, m in enumerate(order) if m != n)
        degrees = np.count_nonzero(truth, axis=others)
        assert relation.degree_bound(frozenset(n)) >= degrees.max()
    for (given, counted, p), value in relation.constraints.items():
        assert value * (1 + 1e-9) >= norm(truth, order, given, counted, p), (given, counted, p)
    for n, limit in relation.limits.items():
        if limit is not None:
            others = tuple(k for k, m in enumerate(order) if m != n)
            true = np.count_nonzero(truth, axis=others)
            assert (evaluate(limit, EXTENTS[n]) >= true - 1e-9).all()


def norm(truth, order, given, counted, p):
    if not given and not counted:
        return float(truth.any())
    gone = tuple(k for k, n in enumerate(order) if n not in given | counted)
    pairs = truth.any(axis=gone)
    left = [n for n in order if n in given | counted]
    degrees = np.count_nonzero(pairs, axis=tuple(k for k, n in enumerate(left) if n in counted))
    return np.linalg.norm(np.ravel(degrees).astype(float), p)


def evaluate(poly, extent):
    result = np.zeros(extent)
    for scale, vectors in poly:
        part = np.full(extent, scale)
        for v in vectors:
            whole = np.zeros(extent)
            whole[slice(None) if v.keys is None else v.keys] = v.counts
            part = part * whole
        result += part
    return result


@pytest.mark.parametrize("shape", JOINS)
def test_joins_are_bounded(shape):
    rng = np.random.default_rng(len(shape))
    names = JOINS[shape]
    order = sorted(set("".join(names)))
    extents = {n: EXTENTS[n] for n in order}
    for _ in range(12 if len(order) < 5 else 5):
        terms = patterns(rng, names)
        relation = join(*[relation_of(p, ns, EXTENTS)
                          for p, ns in terms])
        check(relation, joined(extents, terms), order)


@pytest.mark.parametrize("names", [("ij", "ij"), ("ij", "i"), ("ij", "jk"), ("ij", "ij", "ji"),
                                   ("ijk", "ij", "k"), ("i", "i", "i", "i", "i", "i")])
def test_unions_are_bounded(names):
    rng = np.random.default_rng(7)
    order = sorted(set("".join(names)))
    extents = dict.fromkeys(order, 6)
    for _ in range(15):
        terms = [(random_pattern(rng, (6,) * len(ns), str(rng.choice(KINDS))), ns) for ns in names]
        relation = union(*[relation_of(p, ns, extents) for p, ns in terms])
        truth = joined(extents, terms, np.logical_or)
        for keep in itertools.chain.from_iterable(
                itertools.combinations(order, k) for k in range(len(order) + 1)):
            gone = tuple(k for k, n in enumerate(order) if n not in keep)
            assert project(relation, keep).bound >= np.count_nonzero(truth.any(axis=gone))
        for (given, counted, p), value in relation.constraints.items():
            assert value * (1 + 1e-9) >= norm(truth, order, given, counted, p)


def test_reductions_between_joins():
    """(A @ B) * C, and a further product."""
    rng = np.random.default_rng(3)
    for _ in range(60):
        (a, _), (b, _), (c, _), (d, _) = terms = patterns(rng, ("ik", "kj", "ij", "jl"))
        ra, rb, rc, rd = (relation_of(p, ns, EXTENTS) for p, ns in terms)
        product = reduce_over(join(ra, rb), ["k"])
        ab = joined({n: EXTENTS[n] for n in "ikj"}, terms[:2]).any(axis=1)
        check(product, ab, ["i", "j"])
        check(join(product, rc), ab & c, ["i", "j"])
        chain = joined({n: EXTENTS[n] for n in "ijl"}, [(ab, "ij"), (d, "jl")])
        check(join(product, rd), chain, ["i", "j", "l"])
        check(union(product, rc), ab | c, ["i", "j"])
        del a, b


INDICES = {
    "plain": lambda i, j: (i, j), "shift": lambda i, j: (plus(i, 2), j),
    "outside": lambda i, j: (plus(i, 3), plus(j, -2)), "stride": lambda i, j: (times(i, 2), j),
    "reversed": lambda i, j: (plus(times(i, -1), 4), j), "diagonal": lambda i, j: (i, i),
    "shifted diagonal": lambda i, j: (i, plus(i, 1)), "row": lambda i, j: (as_expr(3), j),
    "cell": lambda i, j: (as_expr(3), as_expr(2)), "sum": lambda i, j: (plus(i, j), j),
    "only sum": lambda i, j: (plus(i, j), as_expr(1)),
    "both": lambda i, j: (plus(i, j), plus(i, j)),
}


@pytest.mark.parametrize("form", INDICES)
@pytest.mark.parametrize("fmt", ["coo", "csr", "dcsc", "dense"])
def test_computed_indices(form, fmt):
    rng = np.random.default_rng(11)
    i, j = Index("i"), Index("j")
    exprs = INDICES[form](i, j)
    free = sorted(set().union(*[e.free for e in exprs]))
    for _ in range(25):
        m, n = rng.integers(5, 12, 2)
        pattern = random_pattern(rng, (m, n), str(rng.choice(KINDS)))
        extents = {"i": int(rng.integers(1, 8)), "j": int(rng.integers(1, 8))}
        sliced = form in ("shift", "stride", "row", "reversed") and fmt != "dense"
        if sliced:
            extents["j"] = int(n)
        relation = of_read(collect(stored_pattern(pattern, fmt)), exprs, extents)
        dense = fmt == "dense"
        whole = np.ones_like(pattern) if dense else pattern
        truth = np.zeros(tuple(extents[f] for f in free), bool)
        for at in np.ndindex(truth.shape):
            values = dict(zip(free, at))
            r, c = (evaluate_index(e, values) for e in exprs)
            truth[at] = 0 <= r < m and 0 <= c < n and whole[r, c]
        assert relation.bound >= np.count_nonzero(truth)
        assert set(relation.names) == set(free)
        for (given, counted, p), value in relation.constraints.items():
            assert value * (1 + 1e-9) >= norm(truth, free, given, counted, p)
        if sliced:  # the count vector of the one axis that is cut tells exactly
            assert relation.estimate == pytest.approx(np.count_nonzero(truth)) == relation.bound


def evaluate_index(e, values):
    if isinstance(e, Index):
        return values[e.name]
    if not e.free:
        return int(e.value)
    a, b = (evaluate_index(x, values) for x in e.args)
    return {"add": a + b, "subtract": a - b, "multiply": a * b}[e.op.name]


@pytest.mark.parametrize("form", INDICES)
def test_reads_of_intermediates(form):
    """The cells of A @ B, read at computed indices."""
    rng = np.random.default_rng(31)
    exprs = INDICES[form](Index("i"), Index("j"))
    free = sorted(set().union(*[e.free for e in exprs]))
    for _ in range(15):
        terms = [(random_pattern(rng, (7, 8), str(rng.choice(KINDS))), "xk"),
                 (random_pattern(rng, (8, 6), str(rng.choice(KINDS))), "ky")]
        sizes = {"x": 7, "k": 8, "y": 6}
        cells = joined({"x": 7, "y": 6, "k": 8}, terms).any(axis=2)
        product = project(join(*[relation_of(p, ns, sizes) for p, ns in terms]), "xy")
        extents = {"i": int(rng.choice([3, 7])), "j": int(rng.choice([4, 6]))}
        relation = of_read(as_stats(product, "xy"), exprs, extents)
        truth = np.zeros(tuple(extents[f] for f in free), bool)
        for at in np.ndindex(truth.shape):
            r, c = (evaluate_index(e, dict(zip(free, at))) for e in exprs)
            truth[at] = 0 <= r < 7 and 0 <= c < 6 and cells[r, c]
        assert relation.bound >= np.count_nonzero(truth)
        for (given, counted, p), value in relation.constraints.items():
            assert value * (1 + 1e-9) >= norm(truth, free, given, counted, p)


def test_gathers_are_bounded():
    rng = np.random.default_rng(13)
    pattern = random_pattern(rng, (8, 6), "skewed")
    stats = collect(stored_pattern(pattern, "csr"))
    rows = Source("rows", (20,), np.dtype(np.int64), const(0))
    index = Read(rows, (Index("p"),))
    relation = of_read(stats, (index, Index("j")), {"p": 20, "j": 6})
    worst = np.argmax(pattern.sum(1))
    assert relation.bound >= pattern[np.full(20, worst)].sum()


def test_formulas():
    rng = np.random.default_rng(17)
    extents = {"i": 6, "j": 5, "k": 7}
    for _ in range(40):
        terms = [(random_pattern(rng, tuple(extents[n] for n in ns), str(rng.choice(KINDS))), ns)
                 for ns in ("ik", "kj", "ij")]
        sources = [Source(f"T{k}", p.shape, np.dtype(np.float64), const(0.0))
                   for k, (p, _) in enumerate(terms)]
        stats = {s: collect(stored_pattern(p, "coo")) for s, (p, _) in zip(sources, terms)}
        a, b, c = (has(Read(s, tuple(Index(n) for n in ns)))
                   for s, (_, ns) in zip(sources, terms))
        ta, tb, tc = (joined(extents, [t]) for t in terms)
        of = reader(stats.get, extents)
        for formula, truth in (
            (conjunction([a, disjunction([b, c])]), ta & (tb | tc)), (disjunction([a, b]), ta | tb),
            (conjunction([a, b, c]), ta & tb & tc), (TRUE, ta | True), (FALSE, ta & False),
            (conjunction([disjunction([a, b]), disjunction([b, c])]), (ta | tb) & (tb | tc)),
        ):
            found = points(formula, extents, of)
            assert set(found.names) == set(extents)
            assert found.bound >= np.count_nonzero(truth)
            assert project(found, "ij").bound >= np.count_nonzero(truth.any(axis=2))


def test_exact_where_count_vectors_decide():
    rng = np.random.default_rng(19)
    for kind in KINDS:
        a, b = random_pattern(rng, (30, 20), kind), random_pattern(rng, (20, 25), kind)
        extents = {"i": 30, "k": 20, "j": 25}
        pair = join(relation_of(a, "ik", extents), relation_of(b, "kj", extents))
        actual = (a.sum(0) * b.sum(1)).sum()
        assert pair.estimate == actual == pair.bound
        assert project(relation_of(a, "ik", extents), "i").estimate == a.any(1).sum()


def test_triangle_bound_is_the_root():
    """n edges make at most n ** 1.5 / ... triangles: sqrt of the product of the three sizes."""
    full = np.ones((8, 8), bool)
    wide = np.zeros((64, 64), bool)
    wide[:8, :8] = full
    extents = dict.fromkeys("ijk", 64)
    parts = [relation_of(wide, names, extents) for names in ("ij", "jk", "ki")]
    assert join(*parts).bound == 512


def test_renaming():
    rng = np.random.default_rng(23)
    pattern = random_pattern(rng, (6, 6), "skewed")
    relation = rename(relation_of(pattern, "ij", {"i": 6, "j": 6}), {"i": "j", "j": "i"})
    again = relation_of(pattern, "ji", {"i": 6, "j": 6})
    assert relation.constraints == again.constraints and relation.names == ("j", "i")


def test_step_functions_suffice_for_simple_constraints():
    """The small program and the one with all Shannon inequalities agree (LpBound)."""
    rng = np.random.default_rng(37)
    for _ in range(60):
        n = int(rng.integers(2, 5))
        rows = {(0, 1 << k, 1.0): float(rng.random() * 5) for k in range(n)}
        for _ in range(rng.integers(1, 7)):
            given = int(rng.choice([0, *(1 << k for k in range(n))]))
            both = given | int(rng.integers(1, 1 << n))
            if both != given:
                p = float(rng.choice([2.0, np.inf])) if given else 1.0
                rows[given, both, p] = float(rng.random() * 6)
        found = [bounds.solve(tuple(rows.items()), n, (1 << n) - 1, simple)
                 for simple in (True, False)]
        assert found[0] == pytest.approx(found[1], abs=1e-6)


def test_simplex_against_scipy():
    from scipy.optimize import linprog

    rng = np.random.default_rng(29)
    for _ in range(200):
        rows, columns = rng.integers(1, 12, 2)
        a = np.round(rng.normal(size=(rows, columns)), 1)
        a = np.concatenate([a, np.ones((1, columns))])
        b = np.append(np.where(rng.random(rows) < 0.5, 0.0, rng.random(rows) * 5), 10.0)
        c = rng.normal(size=columns)
        found = maximum(a, b, c, 10.0)
        true = -linprog(-c, A_ub=a, b_ub=b).fun
        assert found is not None and true - 1e-7 <= found <= true + 1e-5
