"""PyData/Sparse's names over Tensorel, to run its own test files against us.

Put a checkout's ``sparse/numba_backend/tests`` into a folder T and run

    python tests/peers/sparse_shim.py T [pytest arguments]

The classes COO, GCXS and DOK are formats here; a tensor of ours is an instance of each.
"""

from __future__ import annotations

import functools
import sys
import types
from typing import Any

import numpy as np
import pytest

import tensorel as tr

FORMATS = {"coo": "coo", "gcxs": None, "dok": "dok", "csr": "csr", "csc": "csc"}
Tensor = type(tr.asarray(np.zeros(1)))


def named(fmt: object, ndim: int) -> str:
    name = fmt if isinstance(fmt, str) else getattr(fmt, "key", "coo")
    if name == "gcxs":
        return {0: "dense", 1: "coo", 2: "csr"}.get(ndim, "csf")
    return "coo" if name == "dok" and ndim == 0 else name


class Kind(type):
    """A class of theirs: a way to store a tensor."""

    key: str

    def __instancecheck__(cls, other: object) -> bool:
        return isinstance(other, Tensor)

    def __call__(cls, x: Any = None, data: Any = None, shape: Any = None, *, coords: Any = None,
                 fill_value: Any = None, dtype: Any = None, **_: Any) -> Any:
        fill = 0 if fill_value is None else fill_value
        x = coords if x is None else x
        if cls.key == "dok" and isinstance(x, (int, tuple)):
            shape, x, data, dtype = x, data or {}, None, dtype or (None if data else float)
        if data is None and isinstance(x, dict):
            return cls.from_iter(x, shape, fill_value, dtype)
        if data is None and isinstance(x, tuple):
            if len(x) != 2:
                raise pytest.skip.Exception("their constructor")
            data, x = x
        if data is None:
            t = tr.asarray(x) if fill_value is None else tr.tensor(np.asarray(x), fill=fill)
            return t.to_format(named(cls.key, t.ndim))
        if isinstance(shape, tuple) and not shape:
            return tr.asarray(np.asarray(data)[0] if len(data) else 0.0)
        coords = np.asarray(x)
        coords = coords[None] if coords.ndim == 1 else coords
        if shape is None:
            shape = tuple(int(c.max()) + 1 if c.size else 0 for c in coords)
        shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
        values = np.broadcast_to(np.asarray(data), coords.shape[1:])
        return tr.from_coo(tuple(coords), values, shape, fill=np.asarray(fill, values.dtype),
                           duplicates="sum").to_format(named(cls.key, len(shape)))

    def from_numpy(cls, x: Any, fill_value: Any = None, **_: Any) -> Any:
        x = np.asarray(x)
        fill = 0 if fill_value is None else fill_value
        return tr.tensor(x, format=named(cls.key, x.ndim), fill=np.asarray(fill, x.dtype))

    def to_coo(cls, x: Any) -> Any:
        return x.to_format("coo")

    def from_coo(cls, x: Any, **_: Any) -> Any:
        return x.to_format(named(cls.key, x.ndim))

    def from_scipy_sparse(cls, x: Any, fill_value: Any = None, **_: Any) -> Any:
        t = tr.asarray(x)
        if fill_value is not None and fill_value != 0:
            (c, v) = t.pairs()
            t = tr.from_coo(c, v, t.shape, fill=fill_value)
        return t.to_format(named(cls.key, 2))

    def from_iter(cls, x: Any, shape: Any, fill_value: Any = None, dtype: Any = None) -> Any:
        shape = (shape,) if isinstance(shape, int) else shape
        pairs = list(x.items() if isinstance(x, dict) else x)
        at = np.array([k for k, _ in pairs], int).reshape(len(pairs), len(shape)).T
        values = [v for _, v in pairs]
        dtype = dtype or (np.result_type(*values) if values else float)
        return cls(at, np.array(values, dtype), shape, fill_value=fill_value)


def random(shape: Any, density: float | None = None, nnz: int | None = None,
           random_state: Any = None, data_rvs: Any = None, format: Any = "coo",
           fill_value: Any = None, idx_dtype: Any = None, **_: Any) -> Any:
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if (density is not None and nnz is not None) or (density is not None and not 0 <= density <= 1):
        raise ValueError("density")
    size = int(np.prod(shape))
    count = int((0.01 if density is None else density) * size) if nnz is None else nnz
    if not 0 <= count <= size:
        raise ValueError("nnz")
    rng = random_state if isinstance(random_state, np.random.Generator) else (
        np.random.default_rng(random_state))
    flat = np.sort(rng.choice(size, count, replace=False)) if size else np.zeros(0, int)
    values = rng.random(count) if data_rvs is None else np.asarray(data_rvs(count))
    fill = 0 if fill_value is None else fill_value
    made = tr.from_coo(np.unravel_index(flat, shape) if shape else (), values, shape,
                       fill=np.asarray(fill, values.dtype)) if shape else tr.asarray(
                           values[0] if count else values.dtype.type(0))
    return made.to_format(named(format, len(shape)))


def equivalent(x: Any, y: Any) -> Any:
    x, y = np.asarray(x), np.asarray(y)
    return (x == y) | ((x != x) & (y != y))


def assert_eq(x: Any, y: Any, check_nnz: bool = True, compare_dtype: bool = True, **kwargs: Any
              ) -> None:
    assert x.shape == y.shape
    if compare_dtype:
        assert x.dtype == y.dtype
    with tr.options(densify="4GB"):
        xx, yy = [t.toarray() if hasattr(t, "toarray") else np.asarray(t) for t in (x, y)]
    whole = xx.dtype.kind in "iub" and yy.dtype.kind in "iub"
    assert np.array_equal(xx, yy) if whole else np.allclose(xx, yy, equal_nan=True, **kwargs)
    for t, d in ((x, xx), (y, yy)):
        if isinstance(t, Tensor) and check_nnz:
            assert np.sum(~equivalent(d, t.fill)) == t.nnz


def elemwise(f: Any, *args: Any, **kwargs: Any) -> Any:
    if not all(isinstance(a, (Tensor, np.ndarray, np.generic, int, float, complex)) or
               hasattr(a, "tocsr") for a in args):
        return NotImplemented
    return f(*[tr.asarray(a) if hasattr(a, "tocsr") else a for a in args], **kwargs)


def become(out: Any, found: Any) -> Any:
    """Their tensors are written to: ours takes what the result holds."""
    found = tr.asarray(found).astype(out.dtype).compute()
    out.program = found.program
    return out


def writing(f: Any) -> Any:
    """A method or protocol of ours, with out=."""
    def g(*args: Any, **kw: Any) -> Any:
        options = args[4] if f.__name__ == "__array_function__" else kw
        out = options.pop("out", None)
        out = out[0] if isinstance(out, tuple) else out
        return f(*args, **kw) if out is None else become(out, f(*args, **kw))
    return g


def formatted(f: Any) -> Any:
    """A creation function of ours with format=."""
    @functools.wraps(f)
    def g(*args: Any, format: Any = None, compressed_axes: Any = None, **kw: Any) -> Any:
        found = f(*args, **kw)
        return found if format is None else found.to_format(named(format, found.ndim))
    return g


def densified(f: Any) -> Any:
    """A product of ours; a dense operand makes it dense, unless return_type= says what."""
    def g(a: Any, b: Any, *args: Any, return_type: Any = None) -> Any:
        dense = np.ndarray in ((type(a), type(b)) if return_type is None else (return_type,))
        return np.asarray(f(a, b, *args)) if dense else f(a, b, *args)
    return g


def scipy_of(self: Any, accept_fv: Any = None) -> Any:
    if not equivalent(self.fill, accept_fv or 0):
        raise ValueError(f"fill_value={self.fill} but should be in {accept_fv}.")
    return tr.from_coo(*self.pairs(), self.shape).to_scipy("coo")


def module(name: str, **names: Any) -> types.ModuleType:
    made = sys.modules[name] = types.ModuleType(name)
    made.__dict__.update(names)
    made.__path__ = []  # type: ignore[attr-defined]
    return made


def install() -> None:
    kinds = {k.upper(): Kind(k.upper(), (), {"key": k}) for k in FORMATS}
    T: Any = Tensor
    T.todense = lambda self: self.to_numpy().copy()
    T.asformat = lambda self, f, **_: self.to_format(named(f, self.ndim))
    T.maybe_densify = lambda self, **_: self.to_numpy().copy()
    T.fill_value = property(lambda self: self.fill)
    T.data = property(lambda self: self.pairs()[1])
    T.coords = property(lambda self: np.stack(self.pairs()[0]) if self.ndim else np.zeros((0, 1)))
    T.density = property(lambda self: self.nnz / self.size)
    T.to_scipy_sparse, T.broadcast_to = scipy_of, lambda self, shape: tr.broadcast_to(self, shape)
    T.pairs, T.to_coo = T.to_coo, lambda self: self.to_format("coo")
    T.tocoo, T.isinf, T.isnan = T.to_coo, lambda x: tr.isinf(x), lambda x: tr.isnan(x)
    for name in ("round", "clip", "__array_ufunc__", "__array_function__"):
        setattr(T, name, writing(getattr(T, name)))
    turn = T.transpose
    T.transpose = lambda self, *order, axes=None, **_: turn(self, *(order or (axes,)))
    T.tocsr = lambda self: self.to_scipy("csr")
    T.tocsc = lambda self: self.to_scipy("csc")
    utils = module("sparse.numba_backend._utils", assert_eq=assert_eq, equivalent=equivalent,
                   default_rng=np.random.default_rng(0),
                   random_value_array=lambda value, fraction: lambda n: np.where(
                       np.arange(n) < int(n * fraction), value, np.random.default_rng(0).random(n)),
                   convert_format=lambda f: f if isinstance(f, str) else f.key,
                   check_zero_fill_value=None, html_table=None, assert_gcxs_slicing=assert_eq)
    settings = module("sparse.numba_backend._settings", NEP18_ENABLED=True, AUTO_DENSIFY=False)
    compressed = module("sparse.numba_backend._compressed", convert=None, **kinds)
    inner = module("sparse.numba_backend._compressed.compressed", **kinds)
    backend = module("sparse.numba_backend", SparseArray=kinds["COO"], _utils=utils,
                     _settings=settings, _compressed=compressed)
    own = {n: getattr(tr, n) for n in dir(tr) if not n.startswith("_")}
    top: Any = module("sparse", **{**own, **kinds})
    top.SparseArray, top.random, top.elemwise = kinds["COO"], random, elemwise
    top.numba_backend, top.as_coo, top.asnumpy = backend, tr.asarray, np.asarray
    top.concatenate, top.__all__, top._compressed = tr.concat, [], compressed
    top.load_npz, top.save_npz = tr.read, lambda path, x, compressed=True: tr.write(path, x)
    for name in [n + k for n in ("full", "zeros", "ones", "empty") for k in ("", "_like")]:
        setattr(top, name, formatted(getattr(tr, name)))
    top.asarray = formatted(tr.asarray)
    top.eye = functools.wraps(tr.eye)(lambda N, M=None, **kw: tr.eye(N, M, **kw))
    top.transpose = lambda x, axes=None: x.transpose(axes)
    top.dot, top.tensordot = densified(np.dot), densified(tr.tensordot)
    del inner


if __name__ == "__main__":
    install()
    sys.exit(pytest.main(["-p", "no:cacheprovider", "--import-mode=importlib", *sys.argv[1:]]))
