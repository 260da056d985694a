"""Random syntax trees: every shape that the grammar has, typed or not."""

from __future__ import annotations

from hypothesis import strategies as st

from tensorel.sdql import syntax as s
from tensorel.sdql.functions import FUNCTIONS, SEMIRINGS
from tensorel.sdql.parser import LEVELS

NAMES = st.sampled_from(["a", "b", "A", "B_val", "i", "j", "_k", "x1", "unique", "real_"])
VARS = st.one_of(NAMES, st.just("_"))
NUMBERS = st.one_of(
    st.builds(s.Number, st.integers(0, 2**63 - 1), st.just("int")),
    st.builds(s.Number, st.floats(0.0, allow_nan=False).map(abs), st.just("real")),
    st.sampled_from([s.Number(1, "bool"), s.Number(0, "bool")]),
)


def some(of: st.SearchStrategy, least: int = 1, most: int = 3) -> st.SearchStrategy:
    return st.lists(of, min_size=least, max_size=most).map(tuple)


def _call(below: st.SearchStrategy) -> st.SearchStrategy:
    def of(name: str) -> st.SearchStrategy:
        args = st.tuples(*[below] * FUNCTIONS[name])
        return st.builds(s.Call, st.just(name), args)

    return st.sampled_from(sorted(FUNCTIONS)).flatmap(of)


def _sum(generators: tuple[s.Generator, ...], body: s.Expr) -> s.Sum:
    """Values that were bound before are not bound again."""
    bound: set[str] = set()
    kept = []
    for g in generators:
        bound |= set(g.keys) - {"_"}
        kept.append(s.Generator(g.keys, "_" if g.value in bound else g.value, g.source))
        bound.add(kept[-1].value)
    return s.Sum(tuple(kept), body)


def _merge(keys: tuple[str, str], value: str, *rest: s.Expr) -> s.Merge:
    return s.Merge(keys, "_" if value in keys else value, *rest)


def _ordered(marks: set[str]) -> tuple[str, ...]:
    return tuple(m for m in s.MARKS if m in marks)


def _is_key(e: s.Expr) -> bool:
    return not isinstance(e, s.Range)


def _extend(below: st.SearchStrategy) -> st.SearchStrategy:
    generator = st.builds(s.Generator, some(VARS, 0), VARS, below)
    marks = st.sets(st.sampled_from(s.MARKS)).map(_ordered)
    entry = st.builds(s.Entry, some(below, 0), below, marks)
    symbols = st.sampled_from(sorted(set(LEVELS) - {":"}))
    key = below.filter(_is_key)
    return st.one_of(
        st.builds(s.Unary, st.sampled_from("-!"), below),
        st.builds(s.Binary, symbols, below, below),
        _call(below),
        st.builds(s.Range, below, below),
        st.builds(s.Apply, below, some(key)),
        st.builds(s.Slice, below, below, below),
        st.builds(s.If, below, below, st.none() | below),
        st.builds(s.Let, some(st.tuples(NAMES, below)), below),
        st.builds(_sum, some(generator), below),
        st.builds(_merge, st.tuples(VARS, VARS), VARS, below, below, below),
        st.builds(s.Dict, some(entry)),
        st.builds(s.Promote, st.sampled_from(sorted(SEMIRINGS)), below),
    )


EXPRS = st.recursive(st.one_of(NUMBERS, NAMES.map(s.Name)), _extend, max_leaves=12)

_KINDS = st.sampled_from(s.KINDS)


def _physical(form: str, least: int, most: int) -> st.SearchStrategy:
    declared = some(st.builds(s.Declaration, NAMES, some(EXPRS, least, most)), 1, 2)
    return st.builds(s.CreatePhysical, _KINDS, st.just(form), declared)


STATEMENTS = st.one_of(
    _physical("SCALAR", 0, 0), _physical("ARRAY", 1, 1), _physical("HASHMAP", 1, 3),
    _physical("TRIE", 1, 3),
    st.builds(s.CreateTensor, NAMES, EXPRS, st.none() | some(EXPRS)),
)
SCRIPTS = st.builds(s.Script, some(STATEMENTS, 0), st.none() | EXPRS)
