"""What is tried at huge extents: storages that can hold three entries, and programs over them.

Extents are ``n`` everywhere, so that the same program runs at a small extent as well and both
answers can be compared: coordinates are 1, 2 and the last of an axis."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import tensorel as tr

FEW = 8  # the extent of an axis that is not huge


@dataclass(frozen=True)
class Storage:
    """A format with a shape: ``n`` a huge axis, ``few`` a short one."""

    format: str
    axes: str  # one letter for each axis: "n" or "f"
    own: bool = False  # a user's storage mapping, by name

    @property
    def text(self) -> str:
        return f"{self.format} ({self.axes})"

    def shape(self, n: int) -> tuple[int, ...]:
        return tuple(n if c == "n" else FEW for c in self.axes)


#: Users' storages: runs, rows that have entries, a hash map, a tree, short rows of one length.
MAPPINGS = {
    "own runs": "sum(<r,_> in 0:R) sum(<j,_> in start(r):start(r)+len(r)) { j -> val(r) }",
    "own rows": "sum(<r,i> in R, <p,j> in C(pos(r):pos(r+1))) { (i,j) -> V(p) }",
    "own hash": "CREATE real HASHMAP H(M,N); CREATE TENSOR C AS sum(<(i,j),v> in H) {(i,j) -> v};",
    "own ell": "sum(<i,_> in 0:M, <s,_> in 0:len(i)) { (i, idx(i*K+s)) -> val(i*K+s) }",
    "own tree": "sum(<p,j> in idx0) sum(<q,i> in idx1(pos1(p):pos1(p+1)))"
                " sum(<r,k> in idx2(pos2(q):pos2(q+1))) { (i,j,k) -> val(r) }",
}

STORAGES = [
    *(Storage(f, "n") for f in ("coo", "csf", "dok", "trie", ";0")),
    *(Storage(f, "nn") for f in (
        "coo", "csf", "csf(1,0)", "dcsr", "dcsc", "dok", "trie", "trie(1,0)", ";0,1", ";1,0")),
    Storage("own runs", "n", own=True), Storage("own rows", "nn", own=True),
    Storage("own hash", "nn", own=True), Storage("own ell", "fn", own=True),
    Storage("own tree", "nnn", own=True),
    *(Storage(f, "fn") for f in ("csr", "0;1", "coo", "dcsc", "dok", "bsr(2,2)", ";1;0")),
    *(Storage(f, "nf") for f in ("csc", "1;0", ";0;1", "dcsr", "trie")),
    *(Storage(f, "nnn") for f in (
        "coo", "csf", "csf(2,0,1)", "csf(1,2,0)", "dok", "trie", ";0,1,2")),
    Storage("0;1,2", "fnn"), Storage(";0,1;2", "nnf"), Storage("0;1;2", "fnf"),
]

#: Formats that need memory in proportion to a huge axis: they are refused when a tensor is made.
IN_PROPORTION = [
    *(Storage(f, "n") for f in ("dense", "dense_f", "zorder", "bitmap", "0;")),
    *(Storage(f, "nn") for f in (
        "dense", "dense_f", "csr", "csc", "bsr", "bsr(2,2)", "dia", "band", "tril", "triu",
        "symmetric", "zorder", "bitmap", "0;1", "1;0", ";0;1", ";1;0", "0,1;")),
    Storage("csc", "fn"), Storage("dia", "fn"), Storage("dia", "nf"), Storage("csr", "nf"),
    Storage(";0;1", "fn"),
    *(Storage(f, "nnn") for f in ("dense", "zorder", "bitmap", "0;1,2", ";0,1;2", "0;1;2")),
]


#: Where entries stand along each axis, -1 the last: two patterns with one entry in common.
PLACES = (((1, 2, -1), (2, -1, 1), (1, -1, 2)), ((1, -1, 2), (2, -1, 1), (1, 2, -1)))
VALUES = ((3.0, -2.0, 5.0), (4.0, 7.0, -2.0))


def entries(shape: tuple[int, ...], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Three entries at the places 1, 2 and the last of each axis."""
    coords = [[c % n for c in places] for n, places in zip(shape, PLACES[seed])]
    return np.array(coords), np.array(VALUES[seed])


@dataclass
class Given:
    """The operands of a program: ``a`` in the storage tried, ``b`` like it with another pattern,
    ``c`` the pattern of b as a coordinate list, ``whole`` integers, ``mask`` booleans."""

    n: int
    a: Any
    b: Any
    c: Any
    whole: Any
    mask: Any
    fresh: Callable[[], Any]  # makes ``a`` once more

    @property
    def last(self) -> int:
        return int(self.a.shape[-1])

    @property
    def first(self) -> int:
        return int(self.a.shape[0])

    def vector(self, extent: int, format: str = "coo") -> Any:
        return tr.from_coo([[1, 2, extent - 1]], [1.0, 2.0, 3.0], (extent,), format=format)

    def matrix(self, rows: int, columns: int, format: str) -> Any:
        coords = [[1, 2, rows - 1], [1, columns - 1, 2]]
        return tr.from_coo(coords, [1.0, 2.0, 3.0], (rows, columns), format=format)


def made(storage: Storage, n: int, seed: int = 0, dtype: Any = np.float64) -> Any:
    shape = storage.shape(n)
    coords, values = entries(shape, seed)
    values = values.astype(dtype)
    if not storage.own:
        return tr.from_coo(coords, values, shape, format=storage.format)
    mapping = tr.storage(MAPPINGS[storage.format])
    return tr.from_coo(coords, values, shape, format=mapping)


def given(storage: Storage, n: int) -> Given:
    other = Storage("coo", storage.axes)
    return Given(n, made(storage, n), made(storage, n, 1), made(other, n, 1),
                 made(storage, n, 1, np.int64), made(storage, n, 1, bool),
                 lambda: made(storage, n))


@dataclass(frozen=True)
class Case:
    """A program. ``ranks``: of the operand; ``counts``: values of the result depend on extents;
    ``needs``: what the axes of the operand must be, if only some will do; ``large``: for which
    axes it may be refused, since its result grows with an extent or passes 64 bits."""

    name: str
    run: Callable[[Given], Any]
    ranks: tuple[int, ...] = (1, 2, 3)
    counts: bool = False
    needs: Callable[[str], bool] = lambda axes: True
    large: Callable[[str], bool] = lambda axes: False


CASES: list[Case] = []


def case(name: str, run: Callable[[Given], Any], ranks: tuple[int, ...] = (1, 2, 3),
         counts: bool = False, needs: Callable[[str], bool] = lambda axes: True,
         large: Callable[[str], bool] = lambda axes: False) -> None:
    CASES.append(Case(name, run, ranks, counts, needs, large))


MATRIX, DEEP, VECTOR = (2,), (2, 3), (1,)


def square(axes: str) -> bool:
    return axes == "nn"


def always(axes: str) -> bool:
    return True


def first_huge(axes: str) -> bool:
    return axes[0] == "n"


def last_huge(axes: str) -> bool:
    return axes[-1] == "n"


def flat_is_far(axes: str) -> bool:
    """A position in all of the tensor has more than 64 bits."""
    return axes.count("n") > 1


# -- elementwise -----------------------------------------------------------------------------------
for _f in ("negative", "abs", "sign", "square", "sqrt", "exp", "cos", "floor", "round", "isnan",
           "logical_not", "real"):
    case(_f, lambda g, f=_f: getattr(tr, f)(abs(g.a)))
for _f in ("add", "subtract", "multiply", "maximum", "minimum", "hypot", "logaddexp", "copysign"):
    case(f"{_f}(a, b)", lambda g, f=_f: getattr(tr, f)(g.a, g.b))
for _f in ("add", "multiply", "subtract"):
    case(f"{_f}(a, coo)", lambda g, f=_f: getattr(tr, f)(g.a, g.c))
    case(f"{_f}(coo, a)", lambda g, f=_f: getattr(tr, f)(g.c, g.a))
case("divide(a, b + 1)", lambda g: g.a / (g.b + 1))
case("a * 2", lambda g: g.a * 2)
case("a + 1", lambda g: g.a + 1)
case("a / 2", lambda g: g.a / 2)
case("a ** 2", lambda g: g.a ** 2)
case("a // 2 % 3", lambda g: g.a // 2 % 3)
case("clip", lambda g: tr.clip(g.a, -1, 1))
case("a + a", lambda g: g.a + g.a)
case("a * b + c", lambda g: g.a * g.b + g.c)
case("a * vector", lambda g: g.a * g.vector(g.last))
case("a + vector", lambda g: g.a + g.vector(g.last), large=lambda x: len(x) > 1 and "n" in x[:-1])
case("a * column", lambda g: g.a * tr.expand_dims(g.vector(g.a.shape[-2], "dok"), axis=1), DEEP)
case("a * arange", lambda g: g.a * tr.arange(g.last), counts=True)
case("a * ones", lambda g: g.a * tr.ones(g.a.shape))
case("whole & 3", lambda g: g.whole & 3)
case("whole << 1", lambda g: g.whole << 1)
case("mask | mask", lambda g: g.mask | (g.a > 0))
case("~mask", lambda g: ~g.mask)
case("where(mask, a, c)", lambda g: tr.where(g.mask, g.a, g.c))
case("where(a > 0, a, 0)", lambda g: tr.where(g.a > 0, g.a, 0.0))
case("where(a > c, a, c)", lambda g: tr.where(g.a > g.c, g.a, g.c))
for _f in ("equal", "not_equal", "less", "less_equal", "greater"):
    case(f"{_f}(a, b)", lambda g, f=_f: getattr(tr, f)(g.a, g.b))
case("a > 0", lambda g: g.a > 0)
case("a == 0", lambda g: g.a == 0)
case("astype(float32)", lambda g: g.a.astype(np.float32))
case("astype(bool)", lambda g: g.a.astype(np.bool_))
case("astype(complex128)", lambda g: g.a.astype(np.complex128))
case("array_equal", lambda g: tr.array_equal(g.a, g.c))
case("allclose", lambda g: tr.allclose(g.a, g.a))
case("map", lambda g: tr.map(lambda x, y: x * y + x, g.a, g.c))

# -- reductions ------------------------------------------------------------------------------------
for _f in ("sum", "min", "max", "prod", "any", "all", "argmin", "argmax", "count_nonzero"):
    case(f"{_f}()", lambda g, f=_f: getattr(tr, f)(g.a), counts=_f.startswith("arg"),
         large=flat_is_far if _f.startswith("arg") else lambda x: False)
    for _k in range(3):
        case(f"{_f}(axis={_k})", lambda g, f=_f, k=_k: getattr(tr, f)(g.a, axis=k),
             tuple(r for r in (1, 2, 3) if r > _k), counts=_f.startswith("arg"))
for _f in ("mean", "var", "std"):
    case(f"{_f}()", lambda g, f=_f: getattr(tr, f)(g.a), counts=True)
    for _k in range(3):
        case(f"{_f}(axis={_k})", lambda g, f=_f, k=_k: getattr(tr, f)(g.a, axis=k),
             tuple(r for r in (1, 2, 3) if r > _k), counts=True)
case("sum(axis=(0, 1))", lambda g: tr.sum(g.a, axis=(0, 1)), DEEP)
case("sum(axis=(0, 2))", lambda g: tr.sum(g.a, axis=(0, 2)), (3,))
case("sum(keepdims)", lambda g: tr.sum(g.a, axis=0, keepdims=True))
case("sum(a * b)", lambda g: tr.sum(g.a * g.b))
case("sum(a * c, axis=0)", lambda g: tr.sum(g.a * g.c, axis=0))
case("sum(a + c, axis=0)", lambda g: tr.sum(g.a + g.c, axis=0))
case("sum(a > c)", lambda g: tr.sum(g.a > g.c))
case("a - mean", lambda g: g.a - tr.mean(g.a, axis=0), counts=True, large=always)
case("a / sum(axis=0)", lambda g: g.a / (tr.sum(abs(g.a), axis=0) + 1))
case("trace", lambda g: tr.trace(g.a), MATRIX)

# -- products --------------------------------------------------------------------------------------
for _f in ("coo", "dok", "csf", "dcsc", "trie(1,0)"):
    case(f"a @ {_f}", lambda g, f=_f: g.a @ g.matrix(g.last, g.n, f), MATRIX)
    case(f"{_f} @ a", lambda g, f=_f: g.matrix(g.n, g.first, f) @ g.a, MATRIX)
case("a @ a", lambda g: g.a @ g.a, MATRIX, needs=square)
case("a @ b @ a", lambda g: g.a @ g.b @ g.a, MATRIX, needs=square)
case("a.T @ a", lambda g: g.a.T @ g.a, MATRIX)
case("a @ a.T", lambda g: g.a @ g.a.T, MATRIX)
case("sum(a @ a.T)", lambda g: tr.sum(g.a @ g.a.T), MATRIX)
case("c * (a @ b.T)", lambda g: g.matrix(g.first, g.first, "coo") * (g.a @ g.b.T), MATRIX)
for _f in ("coo", "dok"):
    case(f"a @ vector {_f}", lambda g, f=_f: g.a @ g.vector(g.last, f))
    case(f"vector {_f} @ a", lambda g, f=_f: g.vector(g.a.shape[-2], f) @ g.a, DEEP)
case("a @ dense", lambda g: g.a @ np.ones((FEW, 3)), MATRIX, needs=lambda x: x[-1] == "f")
case("dense @ a", lambda g: np.ones((3, FEW)) @ g.a, MATRIX, needs=lambda x: x[-2] == "f")
case("dot(a, b)", lambda g: tr.vdot(g.a, g.b))
case("outer", lambda g: tr.outer(g.a, g.vector(g.n, "dok")), VECTOR)
case("kron", lambda g: tr.kron(g.a, g.matrix(4, 4, "coo")), MATRIX)
case("tensordot(1)", lambda g: tr.tensordot(g.a, g.matrix(g.last, g.n, "dok"), axes=1), DEEP)
case("tensordot(all)", lambda g: tr.tensordot(g.a, g.b, axes=g.a.ndim))
case("einsum ij,kj->ik", lambda g: tr.einsum("ij,kj->ik", g.a, g.b), MATRIX)
case("einsum ij,ij->j", lambda g: tr.einsum("ij,ij->j", g.a, g.c), MATRIX)
case("einsum ij->", lambda g: tr.einsum("ij->", g.a), MATRIX)
case("einsum ijk,jl,kl->il", lambda g: tr.einsum(
    "ijk,jl,kl->il", g.a, g.matrix(g.a.shape[1], 5, "dok"), g.matrix(g.last, 5, "coo")), (3,))
case("einsum min-plus", lambda g: tr.einsum(
    "ij,jk->ik", g.a, g.matrix(g.last, g.n, "dok"), add=tr.max, mul=tr.multiply), MATRIX)
case("inner", lambda g: tr.inner(g.a, g.b), VECTOR)

# -- axes ------------------------------------------------------------------------------------------
case("permute_dims", lambda g: tr.permute_dims(g.a, tuple(reversed(range(g.a.ndim)))))
case("permute_dims to coo", lambda g: tr.permute_dims(
    g.a, tuple(reversed(range(g.a.ndim)))).to_format("coo"))
case("reshape(-1)", lambda g: tr.reshape(g.a, (-1,)), large=flat_is_far)
case("reshape(2, -1)", lambda g: tr.reshape(g.a, (2, -1)), large=flat_is_far)
case("reshape(-1, 4)", lambda g: tr.reshape(g.a, (-1, 4)), large=flat_is_far)
case("expand_dims", lambda g: tr.expand_dims(g.a, axis=1))
case("squeeze", lambda g: tr.squeeze(g.a[:1], axis=0))
case("broadcast_to", lambda g: tr.broadcast_to(g.a, (2, *g.a.shape)))
case("broadcast_to huge", lambda g: tr.broadcast_to(g.a, (g.n, *g.a.shape)), large=always)
case("moveaxis", lambda g: tr.moveaxis(g.a, 0, -1), DEEP)
case("flip", lambda g: tr.flip(g.a))
case("flip(axis=-1)", lambda g: tr.flip(g.a, axis=-1))
case("diagonal", lambda g: tr.diagonal(g.a), MATRIX)
case("diagonal(1)", lambda g: tr.diagonal(g.a, offset=1), MATRIX)
case("diag(vector)", lambda g: tr.diag(g.a), VECTOR)

# -- indexing --------------------------------------------------------------------------------------
case("a[::-1]", lambda g: g.a[::-1])
case("a[..., ::-1]", lambda g: g.a[..., ::-1])
case("a[1:]", lambda g: g.a[1:])
case("a[:-1]", lambda g: g.a[:-1])
case("a[..., 1:-1]", lambda g: g.a[..., 1:-1])
case("a[::2]", lambda g: g.a[::2])
case("a[..., 1::2]", lambda g: g.a[..., 1::2])
case("a[::-2]", lambda g: g.a[::-2])
case("a[1]", lambda g: g.a[1])
case("a[-1]", lambda g: g.a[-1])
case("a[..., 2]", lambda g: g.a[..., 2])
case("a[:, 1]", lambda g: g.a[:, 1], DEEP)
case("a[2, -1]", lambda g: g.a[2, -1], DEEP)
case("a[[1, 2]]", lambda g: g.a[np.array([1, 2, g.first - 1])])
case("a[..., [1, 2]]", lambda g: g.a[..., np.array([1, 2, g.last - 1])])
case("a[[1, 2], [2, 1]]", lambda g: g.a[np.array([1, 2]), np.array([2, g.a.shape[1] - 1])], DEEP)
case("a[mask]", lambda g: g.a[g.mask])
case("a[a > 0]", lambda g: g.a[g.a > 0])
case("take", lambda g: tr.take(g.a, np.array([2, 1, g.first - 1]), axis=0))
case("take(axis=-1)", lambda g: tr.take(g.a, np.array([2, 1, g.last - 1]), axis=-1))
case("take_along_axis", lambda g: tr.take_along_axis(
    g.a, np.ones((1,) * g.a.ndim, np.int64), axis=0) if g.a.ndim == 1 else g.a[:1])
case("newaxis", lambda g: g.a[None])

# -- joining ---------------------------------------------------------------------------------------
case("roll", lambda g: tr.roll(g.a, 1, axis=0))
case("roll(axis=-1)", lambda g: tr.roll(g.a, -2, axis=-1))
case("roll()", lambda g: tr.roll(g.a, 3), large=flat_is_far)
case("pad", lambda g: tr.pad(g.a, 1))
case("concat", lambda g: tr.concat([g.a, g.b], axis=0))
case("concat(axis=-1)", lambda g: tr.concat([g.a, g.c], axis=-1))
case("stack", lambda g: tr.stack([g.a, g.b]))
case("stack(axis=-1)", lambda g: tr.stack([g.a, g.c], axis=-1))
case("unstack", lambda g: tr.unstack(g.a, axis=0), MATRIX, needs=lambda x: x[0] == "f")
case("split", lambda g: tr.split(g.a, 2, axis=0))
case("repeat", lambda g: tr.repeat(g.a, 2, axis=0))
case("repeat(axis=-1)", lambda g: tr.repeat(g.a, 3, axis=-1))
case("tile", lambda g: tr.tile(g.a, (2,)))
case("tril", lambda g: tr.tril(g.a), DEEP)
case("triu(1)", lambda g: tr.triu(g.a, k=1), DEEP)
case("diff", lambda g: tr.diff(g.a, axis=0))
case("meshgrid", lambda g: tr.meshgrid(g.a, g.b), VECTOR, large=always)
case("cross", lambda g: tr.cross(g.a[:3], g.b[:3]), VECTOR)

# -- order and sets --------------------------------------------------------------------------------
case("sort", lambda g: tr.sort(g.a))
case("sort(axis=0)", lambda g: tr.sort(g.a, axis=0))
case("argsort", lambda g: tr.argsort(g.a), counts=True, large=always)
case("topk", lambda g: tr.topk(g.a, 2), counts=True, large=lambda x: "n" in x[:-1])
case("unique_values", lambda g: tr.unique_values(g.a))
case("unique_counts", lambda g: tr.unique_counts(g.a), counts=True, large=flat_is_far)
case("unique_all", lambda g: tr.unique_all(g.a), counts=True, large=always)
case("cumulative_sum", lambda g: tr.cumulative_sum(g.a, axis=0), counts=True, large=first_huge)
case("cumulative_prod", lambda g: tr.cumulative_prod(g.a, axis=0), large=first_huge)
case("searchsorted", lambda g: tr.searchsorted(np.array([0.0, 1.0, 4.0]), g.a), counts=True,
     large=always)
case("searchsorted(huge)", lambda g: tr.searchsorted(abs(g.a), np.array([0.5, 2.0])), VECTOR, True,
     large=always)
case("nonzero", lambda g: tr.nonzero(g.a), counts=True)

# -- storage and people ----------------------------------------------------------------------------
DEMANDING = {storage.format for storage in IN_PROPORTION}
for _f in ("coo", "csf", "dok", "trie"):
    case(f"to {_f}", lambda g, f=_f: g.a.to_format(f))
for _f in ("csf(1,0)", "dcsr", "dcsc", "trie(1,0)", ";0,1", "csr", "csc", "bsr(2,2)", "dia", "band",
           "0;1", ";0;1", "tril", "symmetric"):
    case(f"to {_f}", lambda g, f=_f: g.a.to_format(f), MATRIX,
         large=always if _f in DEMANDING else lambda x: False)
for _f in ("csf(2,0,1)", "0;1,2", ";0,1;2", "0;1;2"):
    case(f"to {_f}", lambda g, f=_f: g.a.to_format(f), (3,),
         large=always if _f in DEMANDING else lambda x: False)
for _f in ("dense", "zorder", "bitmap"):
    case(f"to {_f}", lambda g, f=_f: (g.mask if f == "bitmap" else g.a).to_format(f),
         large=always)
case("(a + b) to dok", lambda g: (g.a + g.b).compute(format="dok"))
case("(a + b) to ;0;1", lambda g: (g.a + g.b).compute(format=";0;1"), MATRIX,
     needs=lambda x: x[-1] == "f")
case("(a + b) to ;0,1;2", lambda g: (g.a + g.b).compute(format=";0,1;2"), (3,),
     needs=lambda x: x[-1] == "f")
case("(a @ a.T) to trie", lambda g: (g.a @ g.a.T).compute(format="trie"), MATRIX)
case("to_coo", lambda g: g.a.to_coo(), counts=True)
case("nnz", lambda g: g.a.nnz)
case("repr", lambda g: repr(g.a), counts=True)
case("repr lazy", lambda g: repr((g.a * 3).compute()), counts=True)
case("str", lambda g: str(g.a), counts=True)
case("pickle", lambda g: pickle.loads(pickle.dumps(g.fresh())))
case("explain", lambda g: str((g.a * g.b).explain()), counts=True)
case("to_numpy", lambda g: g.a.to_numpy(), counts=True, large=always)
case("item", lambda g: g.a.item(*(1,) * g.a.ndim))
case("bool of any", lambda g: bool((g.a > 0).any()))
case("in", lambda g: 5.0 in g.a)

# -- SDQLite ---------------------------------------------------------------------------------------
case("sdql sum", lambda g: tr.sdql("sum(<i, v> in A) v * v", A=g.a), VECTOR)
case("sdql double", lambda g: tr.sdql("sum(<i, v> in A) { i -> 2 * v }", A=g.a), VECTOR)
case("sdql rows", lambda g: tr.sdql(
    "sum(<i, r> in A) sum(<j, v> in r) { i -> v }", A=g.a), MATRIX)
case("sdql turn", lambda g: tr.sdql(
    "sum(<i, r> in A) sum(<j, v> in r) { j -> { i -> v } }", A=g.a), MATRIX)
case("sdql product", lambda g: tr.sdql(
    "sum(<i, r> in A) sum(<j, v> in r) sum(<k, w> in B(j)) { i -> { k -> v * w } }",
    A=g.a, B=g.matrix(g.last, g.n, "dok")), MATRIX)
case("sdql where", lambda g: tr.sdql(
    "sum(<i, r> in A) sum(<j, v> in r) if (v > 0) then { i -> v }", A=g.a), MATRIX)

# -- creation: the operand is only the extent ------------------------------------------------------
CREATION = [
    Case("zeros", lambda g: tr.zeros((g.n, g.n)), large=always),
    Case("ones + 1", lambda g: tr.ones((g.n,)) + 1, large=always),
    Case("full", lambda g: tr.full((g.n, 3), 2.5), large=always),
    Case("sum of ones", lambda g: tr.sum(tr.ones((g.n,))), counts=True),
    Case("eye", lambda g: tr.eye(g.n), large=always),
    Case("eye @ vector", lambda g: tr.eye(g.n) @ g.vector(g.n), large=always),
    Case("arange", lambda g: tr.arange(g.n), large=always),
    Case("linspace", lambda g: tr.linspace(0, 1, g.n), large=always),
    Case("zeros_like", lambda g: tr.zeros_like(g.a), large=always),
    Case("eye * 2", lambda g: tr.eye(g.n) * 2, large=always),
]
