"""Random SDQLite programs over random tensors, checked against the meaning of the language."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import tensorel as tr
from tensorel.base.records import dataclass
from tensorel.errors import ExtentWarning, ParseError
from tensorel.sdql import syntax as s
from tensorel.sdql.desugar import desugar
from tensorel.sdql.functions import SEMIRINGS
from tensorel.sdql.meaning import dense, meaning, table, zero_of
from tensorel.sdql.parser import parse
from tensorel.sdql.printer import show
from tensorel.sdql.typing import Type, Types
from tensorel.storage import registry

Rng = np.random.Generator
Scope = dict[str, Type]

#: Names of tensors with their types; I has indices, B truth values.
TENSORS: dict[str, Type] = {
    "x": Type("real"), "n": Type("int"), "X": Type("real", 1), "Y": Type("real", 1),
    "I": Type("int", 1), "A": Type("real", 2), "C": Type("real", 2), "B": Type("bool", 2),
    "T": Type("real", 3),
}
FORMATS: dict[int, tuple[str, ...]] = {
    1: ("dense", "coo", "csf", "dok"),
    2: ("dense", "dense_f", "coo", "csr", "csc", "dcsr", "dok", "trie", "bsr", "dia", "zorder"),
    3: ("dense", "coo", "csf", "csf(2,0,1)", "trie"),
}


@dataclass(frozen=True, eq=False)
class SdqlProgram:
    """An expression, its tensors, the formats that they are stored in, and which of them are
    declared as ARRAYs."""

    expression: str
    arrays: Mapping[str, Any]
    formats: Mapping[str, str | None]
    declared: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        lines = [f"CREATE {TENSORS[n].kind} ARRAY {n}({len(self.arrays[n])});\n"
                 for n in sorted(self.declared)]
        return "".join([*lines, self.expression])

    def __str__(self) -> str:
        given = "".join(
            f"\n  {n} = tr.tensor(np.array({a.tolist()}, {a.dtype.name!r}), {self.formats[n]!r})"
            for n, a in self.arrays.items())
        return f"{self.text}{given}"

    def tensors(self) -> dict[str, tr.Tensor]:
        return {n: tr.tensor(a, self.formats[n]) for n, a in self.arrays.items()}


def sample_sdql(seed: int, number: int = 0) -> SdqlProgram:
    """The random program of a seed and a number: the same in every process.

    >>> sample_sdql(0, 1).text == sample_sdql(0, 1).text
    True
    """
    rng = np.random.default_rng([seed, number])
    tree = _Maker(rng).of(_result_type(rng), dict(TENSORS), int(rng.integers(2, 8)))
    used = s.free(tree)
    arrays = {n: a for n, a in _arrays(rng).items() if n in used}
    formats = {n: _format(rng, a) for n, a in arrays.items()}
    declared = {n for n, a in arrays.items() if a.ndim == 1 and rng.random() < 0.25}
    return SdqlProgram(show(tree), arrays, formats, frozenset(declared))


def check_sdql(program: SdqlProgram) -> str | None:
    """None if the program gives what it means, else what differs; ParseError if it is refused."""
    types = {n: Type(TENSORS[n].kind, TENSORS[n].depth, n in program.declared)
             for n in program.arrays}
    core = desugar(parse(program.expression))
    known = Types(core, types, program.text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExtentWarning)  # random shapes are joined as they come
        lazy = tr.sdql(program.text, **program.tensors())
    found = np.asarray(lazy.to_numpy())
    value = meaning(core, {n: table(a) for n, a in program.arrays.items()}, known)
    try:
        wanted = dense(value, lazy.shape, zero_of(known[core].kind))
    except KeyError as error:
        return f"outside of the result: {error.args[0]}"
    wanted = np.asarray(wanted)
    if known[core].kind in SEMIRINGS or found.dtype.kind == "f":
        same = np.allclose(found, wanted, rtol=1e-9, atol=1e-9, equal_nan=True)
    else:
        same = bool(np.array_equal(found, wanted))
    return None if same else f"found {found.tolist()}, meant {wanted.tolist()}"


def fuzz_sdql(seed: int, numbers: range) -> tuple[int, list[tuple[int, str]]]:
    """How many of the programs were refused, and those that differ or break."""
    refused, wrong = 0, []
    for number in numbers:
        program = sample_sdql(seed, number)
        try:
            with np.errstate(all="ignore"):
                different = check_sdql(program)
        except ParseError:
            refused += 1
        except Exception as error:
            wrong.append((number, f"{type(error).__name__}: {error}\n{program}"))
        else:
            if different is not None:
                wrong.append((number, f"{different}\n{program}"))
    return refused, wrong


def _arrays(rng: Rng) -> dict[str, Any]:
    extents = rng.integers(1, 5, 3)
    found: dict[str, Any] = {}
    for name, of in TENSORS.items():
        shape = tuple(int(e) for e in rng.choice(extents, of.depth))
        if of.depth and rng.random() < 0.7:
            shape = tuple(int(e) for e in extents[:of.depth])
        kept = rng.random(shape) < rng.choice([0.3, 0.6, 1.0])
        values = rng.integers(0 if name in "In" else -3, 4, shape)
        found[name] = np.where(kept, values, 0).astype(
            {"real": np.float64, "int": np.int64, "bool": np.bool_}[of.kind])
    return found


def _format(rng: Rng, array: Any) -> str | None:
    names = [n for n in FORMATS.get(array.ndim, ()) if _takes(n, array)]
    return str(rng.choice(names)) if names and rng.random() < 0.8 else None


def _takes(name: str, array: Any) -> bool:
    try:
        registry.resolve(name, array.shape, array.dtype)
    except tr.errors.TensorelError:
        return False
    return True


def _result_type(rng: Rng) -> Type:
    kind = str(rng.choice(["real", "real", "real", "int", "bool", *SEMIRINGS]))
    return Type("bool" if kind == "boolean" else kind, int(rng.choice([0, 1, 1, 2, 2])))


class _Maker:
    """Trees of a wanted type over a scope of variables; ``fuel`` bounds their size."""

    def __init__(self, rng: Rng) -> None:
        self.rng = rng
        self.count = 0

    def pick(self, choices: list[Any]) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def of(self, want: Type, scope: Scope, fuel: int) -> s.Expr:
        if fuel <= 0:
            return self.leaf(want, scope)
        makers: list[Callable[[Type, Scope, int], s.Expr]] = [
            self.leaf, self.sum, self.sum, self.branch, self.let, self.plus, self.times]
        makers += [self.entry] * 3 + [self.slice] if want.depth else [self.lookup] * 2
        if not want.depth and want.kind == "bool":
            makers += [self.comparison] * 4
        if not want.depth and want.kind in ("int", "real"):
            makers += [self.call, self.quotient]
        made: s.Expr = self.pick(makers)(want, scope, fuel - 1)
        return made

    # -- leaves --------------------------------------------------------------------------------
    def leaf(self, want: Type, scope: Scope, fuel: int = 0) -> s.Expr:
        names = [n for n, t in scope.items() if (t.kind, t.depth) == (want.kind, want.depth)]
        if names and self.rng.random() < 0.8:
            return s.Name(self.pick(names))
        if want.depth:
            return self.entry(want, scope, 0)
        if want.kind in SEMIRINGS:
            value = self.leaf(Type("real"), scope)
            if want.kind.endswith("times"):  # products are monotone for numbers >= 0 alone
                value = s.Call("abs", (value,))
            return s.Promote(want.kind, value)
        if want.kind == "bool":
            return s.Number(int(self.rng.integers(2)), "bool")
        number = int(self.rng.integers(4))
        return s.Number(number, "int") if want.kind == "int" else s.Number(number / 2, "real")

    def key(self, scope: Scope) -> s.Expr:
        """A whole number with bounds that can be seen."""
        keys = [n for n, t in scope.items() if n[0] == "k" and t == Type("int")]
        at: s.Expr = s.Name(self.pick(keys)) if keys and self.rng.random() < 0.9 else s.Number(
            int(self.rng.integers(4)), "int")
        match int(self.rng.integers(10)):
            case 0:
                return s.Binary(self.pick(["+", "-"]), at, s.Number(1, "int"))
            case 1:
                return s.Apply(s.Name("I"), (at,))
            case 2:
                return s.Binary(self.pick(["%", "/"]), at, s.Number(2, "int"))
            case 3:
                return s.Call(self.pick(["even_bits", "odd_bits", "abs"]), (at,))
            case 4 if len(keys) > 1:
                return s.Binary("+", at, s.Name(self.pick(keys)))
            case _:
                return at

    # -- forms ---------------------------------------------------------------------------------
    def source(self, scope: Scope, fuel: int) -> tuple[s.Expr, Type]:
        """A dictionary to sum over."""
        if self.rng.random() < 0.2:
            low = s.Number(int(self.rng.integers(2)), "int")
            high = s.Name("n") if self.rng.random() < 0.5 else self.key(scope)
            return s.Range(low, high), Type("int", 1)
        names = [n for n, t in scope.items() if t.depth]
        if self.rng.random() < 0.75 or fuel <= 0:
            name = self.pick(names)
            return s.Name(name), scope[name]
        of = Type(self.pick(["real", "int", "bool", "min_plus"]), int(self.rng.integers(1, 3)))
        return self.of(of, scope, fuel - 1), of

    def sum(self, want: Type, scope: Scope, fuel: int) -> s.Expr:
        scope = dict(scope)
        bound: list[str] = []
        generators = []
        for _ in range(int(self.rng.integers(1, 4))):
            source, of = self.source(scope, fuel - 1)
            count = int(self.rng.integers(1, of.depth + 1))
            keys = []
            for _ in range(count):
                old = bound and self.rng.random() < 0.5
                keys.append(self.pick(bound) if old else self.name("k"))
            value = "_" if self.rng.random() < 0.1 else self.name("v")
            generators.append(s.Generator(tuple(keys), value, source))
            bound += [k for k in keys if k not in bound]
            scope |= {k: Type("int") for k in keys}
            if value != "_":
                scope[value] = Type(of.kind, of.depth - count)
        return s.Sum(tuple(generators), self.of(want, scope, fuel - 1))

    def branch(self, want: Type, scope: Scope, fuel: int) -> s.Expr:
        test = self.comparison(Type("bool"), scope, fuel - 1)
        then = self.of(want, scope, fuel - 1)
        rest = None if self.rng.random() < 0.6 else self.of(want, scope, fuel - 1)
        return s.If(test, then, rest)

    def let(self, want: Type, scope: Scope, fuel: int) -> s.Expr:
        of = Type(self.pick(["real", "real", "int"]), int(self.rng.integers(3)))
        name = self.name("t")
        value = self.of(of, scope, fuel - 2)
        return s.Let(((name, value),), self.of(want, scope | {name: of}, fuel - 1))

    def entry(self, want: Type, scope: Scope, fuel: int) -> s.Expr:
        count = int(self.rng.integers(1, want.depth + 1))
        entries = tuple(
            s.Entry(tuple(self.key(scope) for _ in range(count)),
                    self.of(Type(want.kind, want.depth - count), scope, fuel - 1))
            for _ in range(1 if self.rng.random() < 0.8 else 2))
        return s.Dict(entries)

    def slice(self, want: Type, scope: Scope, fuel: int) -> s.Expr:
        target = self.of(want, scope, fuel - 1)
        return s.Slice(target, s.Number(int(self.rng.integers(2)), "int"), self.key(scope))

    def lookup(self, want: Type, scope: Scope, fuel: int) -> s.Expr:
        names = [n for n, t in scope.items() if t.kind == want.kind and t.depth]
        if not names:
            return self.leaf(want, scope)
        name = self.pick(names)
        return s.Apply(s.Name(name), tuple(self.key(scope) for _ in range(scope[name].depth)))

    # -- operators -----------------------------------------------------------------------------
    def plus(self, want: Type, scope: Scope, fuel: int) -> s.Expr:
        symbol = self.pick(["+", "-"]) if want.kind in ("int", "real") else "+"
        left = self.converted(want, scope, fuel - 1)
        return s.Binary(symbol, left, self.of(want, scope, fuel - 1))

    def converted(self, want: Type, scope: Scope, fuel: int) -> s.Expr:
        """An operand, at times of a kind that becomes the wanted one."""
        lower = {"int": ["bool"], "real": ["bool", "int"]}.get(want.kind, [])
        if lower and self.rng.random() < 0.3:
            want = Type(self.pick(lower), want.depth)
        return self.of(want, scope, fuel)

    def times(self, want: Type, scope: Scope, fuel: int) -> s.Expr:
        other = want if self.rng.random() < 0.5 else Type(want.kind)
        left, right = self.converted(want, scope, fuel - 1), self.of(other, scope, fuel - 1)
        return s.Binary("*", left, right) if self.rng.random() < 0.5 else (
            s.Binary("*", right, left))

    def quotient(self, want: Type, scope: Scope, fuel: int) -> s.Expr:
        by = s.Number(2, "int") if want.kind == "int" else s.Number(2.0, "real")
        return s.Binary(self.pick(["/", "%"]), self.of(want, scope, fuel - 1), by)

    def call(self, want: Type, scope: Scope, fuel: int) -> s.Expr:
        arg = self.of(want, scope, fuel - 1)
        one = ["abs", "square", "sign", "floor"] + ["cos"] * (want.kind == "real")
        if self.rng.random() < 0.3:
            return s.Call(self.pick(["min", "max"]), (arg, self.of(want, scope, fuel - 1)))
        return s.Unary("-", arg) if self.rng.random() < 0.2 else s.Call(self.pick(one), (arg,))

    def comparison(self, want: Type, scope: Scope, fuel: int) -> s.Expr:
        if fuel > 0 and self.rng.random() < 0.3:
            if self.rng.random() < 0.3:
                return s.Unary("!", self.comparison(want, scope, fuel - 1))
            return s.Binary(self.pick(["&&", "||"]), self.comparison(want, scope, fuel - 1),
                            self.comparison(want, scope, fuel - 1))
        if self.rng.random() < 0.5:
            left, right = self.key(scope), self.key(scope)
        else:
            of = Type(self.pick(["int", "real"]))
            left, right = self.of(of, scope, fuel - 2), self.leaf(of, scope)
        return s.Binary(self.pick(["==", "!=", "<", "<=", ">", ">="]), left, right)
