"""How each public function and method is called where memory is short; run as a program, it calls
them one after the other and says what each took.

Operands are of four kinds. ``wide`` and ``huge`` hold three entries in extents of 10**8 and 2**40:
whoever allocates by the extent is found out. ``thick`` and ``heavy`` hold a third of the limit,
sparse and dense: whoever forgets working memory is."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import re
import resource
import signal
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

import tensorel as tr
from tensorel.base import memory_regions
from tensorel.errors import MemoryLimitError, TensorelError
from tensorel.front.functions.ufuncs import Binary, Unary

LIMIT = 64_000_000
ALLOWED = LIMIT * 5 // 4 + 32_000_000
SECONDS = 10
Operands = SimpleNamespace  # v: a vector, m: a matrix, n: extent of the vector, k: of the matrix
Recipe = Callable[[Operands], Any]

#: No computation, or one that other tests watch (files, databases, timings).
NO_WORK = frozenset((
    "Database", "Tensor", "__array_namespace_info__", "advise", "alternatives", "calibrate",
    "can_cast", "connect", "finfo", "from_blocks", "iinfo", "isdtype", "persist", "read",
    "result_type", "storage", "write"))
#: Attributes that say what is there already, and what sites of an engine do.
PLAIN = frozenset((
    "device", "dtype", "fill", "forget", "get_node", "given", "is_lazy", "known", "ndim", "node",
    "persist", "program", "shape", "size", "write"))
#: Functions of a matrix, and methods without arguments.
OF_A_MATRIX = (
    "all", "any", "argmax", "argmin", "argsort", "argwhere", "count_nonzero", "cumprod", "cumsum",
    "diagonal", "diff", "empty_like", "flatnonzero", "flip", "matrix_transpose", "max", "mean",
    "min", "nanmax", "nanmean", "nanmin", "nanprod", "nansum", "ones_like",
    "permute_dims", "prod", "ravel", "sort", "squeeze", "std", "sum", "trace", "transpose", "tril",
    "triu", "unique_all", "unique_inverse", "var", "zeros_like")
BY_ITSELF = (
    "all", "any", "argmax", "argmin", "argsort", "conj", "copy", "count_nonzero", "cumprod",
    "cumsum", "diagonal", "flatten", "max", "mean", "min", "nonzero", "prod", "ravel", "sort",
    "squeeze", "std", "sum", "to_coo", "to_numpy", "trace", "transpose", "var", "conjugate",
    "refresh", "round")

FUNCTIONS: dict[str, Recipe] = {
    "arange": lambda o: tr.arange(0.0, float(o.n)),
    "astype": lambda o: tr.astype(o.m, tr.complex128),
    "asarray": lambda o: tr.asarray(o.m, dtype=tr.float32),
    "allclose": lambda o: tr.allclose(o.m, o.m),
    "array_equal": lambda o: tr.array_equal(o.m, o.m),
    "broadcast_arrays": lambda o: tr.broadcast_arrays(o.v, tr.expand_dims(o.v, 1)),
    "broadcast_to": lambda o: tr.broadcast_to(o.v, (3, o.n)),
    "clip": lambda o: tr.clip(o.m, 0.5, 2.0),
    "compute": lambda o: tr.compute(o.m + 1, o.m * 2),
    "concat": lambda o: tr.concat([o.m, o.m, o.m]),
    "concatenate": lambda o: tr.concatenate([o.v, o.v], axis=0),
    "convolve": lambda o: tr.convolve(o.v, np.ones(3), "same"),
    "correlate": lambda o: tr.correlate(o.m, np.ones((2, 2))),
    "windows": lambda o: tr.windows(o.v, 3).sum(axis=-1),
    "cross": lambda o: tr.cross(tr.stack([o.v] * 3, axis=1), tr.stack([o.v] * 3, axis=1)),
    "cumulative_sum": lambda o: tr.cumulative_sum(o.m, axis=1),
    "cumulative_prod": lambda o: tr.cumulative_prod(o.m, axis=0),
    "diag": lambda o: tr.diag(o.v, 1),
    "dot": lambda o: tr.dot(o.m, o.m),
    "einsum": lambda o: tr.einsum("ij,kj->ik", o.m, o.m),
    "empty": lambda o: tr.empty((o.n, 3)),
    "expand_dims": lambda o: tr.expand_dims(o.m, 1),
    "explain": lambda o: str(tr.explain(o.m @ o.m)),
    "eye": lambda o: tr.eye(o.n),
    "from_coo": lambda o: tr.from_coo(*o.coo),
    "from_table": lambda o: tr.from_table(
        {f"k{a}": c for a, c in enumerate(o.coo[0])} | {"v": o.coo[1]},
        keys=[f"k{a}" for a in range(len(o.coo[0]))], value="v"),
    "from_dlpack": lambda o: tr.from_dlpack(o.v.to_numpy()),
    "full": lambda o: tr.full((o.n, 3), 7.0),
    "full_like": lambda o: tr.full_like(o.m, 7.0),
    "identity": lambda o: tr.identity(o.n),
    "inner": lambda o: tr.inner(o.v, o.v),
    "isclose": lambda o: tr.isclose(o.m, o.m),
    "kron": lambda o: tr.kron(o.m, tr.eye(3)),
    "linspace": lambda o: tr.linspace(0, 1, o.n),
    "map": lambda o: tr.map(lambda x: x * x + 1, o.m),
    "matmul": lambda o: tr.matmul(o.m, o.m),
    "meshgrid": lambda o: tr.meshgrid(o.v, o.v),
    "moveaxis": lambda o: tr.moveaxis(o.m, 0, 1),
    "nan_to_num": lambda o: tr.nan_to_num(o.m),
    "nonzero": lambda o: tr.nonzero(o.m),
    "ones": lambda o: tr.ones((o.n,)),
    "outer": lambda o: tr.outer(o.v, o.v),
    "pad": lambda o: (tr.pad(o.m, 1), tr.pad(o.v, 2, mode="edge"), tr.pad(o.v, 2, mode="reflect")),
    "reduce": lambda o: tr.reduce(tr.maximum, o.m, axis=0),
    "repeat": lambda o: tr.repeat(o.v, np.array([2])),
    "reshape": lambda o: tr.reshape(o.m, (-1,)),
    "roll": lambda o: tr.roll(o.m, 3, axis=0),
    "round": lambda o: tr.round(o.m, 1),
    "loops": lambda o: tr.loops(_running_sums)(o.v),
    "sdql": lambda o: tr.sdql("sum(<(i,j),v> in A) { i -> v }", A=o.m),
    "sql": lambda o: tr.sql("SELECT i0, SUM(val) FROM A GROUP BY i0", A=o.m).held(),
    "searchsorted": lambda o: tr.searchsorted(tr.asarray(np.arange(3.0)), o.v),
    "split": lambda o: tr.split(o.v, o.n),
    "stack": lambda o: tr.stack([o.m, o.m, o.m]),
    "swapaxes": lambda o: tr.swapaxes(o.m, 0, 1),
    "take": lambda o: tr.take(o.m, np.arange(min(o.k, 10**6)), axis=1),
    "take_along_axis": lambda o: tr.take_along_axis(
        o.v, np.arange(min(o.n, 10**6)), axis=0),
    "tensor": lambda o: tr.tensor(o.m, format="csr"),
    "tensordot": lambda o: tr.tensordot(o.m, o.m, axes=1),
    "tile": lambda o: tr.tile(o.v, 3),
    "topk": lambda o: tr.topk(o.m, 5, axis=1),
    "unique_counts": lambda o: [_tried(lambda x=x: tr.unique_counts(x)) for x in _nans(o)],
    "unique_values": lambda o: [_tried(lambda x=x: tr.unique_values(x)) for x in _nans(o)],
    "unstack": lambda o: tr.unstack(o.v),
    "vdot": lambda o: tr.vdot(o.v, o.v),
    "vecdot": lambda o: tr.vecdot(o.m, o.m),
    "where": lambda o: tr.where(o.m > 1, o.m, 2.0),
    "comprehension": lambda o: tr.comprehension(
        "tensor(n)()[ (i, +/v) | ((i,j),v) <- A, group by i ]", A=o.m, n=o.m.shape[0]),
    "relation": lambda o: _of_blocks(o),
    "zeros": lambda o: tr.zeros((o.k, o.k)).to_numpy(),
    "hstack": lambda o: tr.hstack([o.m, o.m]),
    "vstack": lambda o: tr.vstack([o.m, o.m]),
} | {name: lambda o, name=name: getattr(tr, name)(o.m)  # type: ignore[misc]
     for name in OF_A_MATRIX}

METHODS: dict[str, Recipe] = {
    "clip": lambda o: o.m.clip(0.5, 2.0),
    "aggregate": lambda o: o.m.aggregate("sum", "row"),
    "cross": lambda o: o.v.cross(tr.asarray([1.0, 2.0]), lambda a, b: a * b),
    "drop_empty": lambda o: o.m.drop_empty(0),
    "group_by": lambda o: o.m.group_by("rid").agg("sum").held(),
    "join": lambda o: o.m.join(o.m, "rid = rid and cid = cid", lambda a, b: a * b),
    "select": lambda o: o.m.select("val > 0.5"),
    "dot": lambda o: o.m.dot(o.m), "repeat": lambda o: o.v.repeat(np.array([2])),
    "searchsorted": lambda o: tr.asarray(np.arange(3.0)).searchsorted(o.v),
    "take": lambda o: o.m.take(np.arange(min(o.k, 10**6)), axis=1),
    "T": lambda o: o.m.T, "mT": lambda o: o.m.mT, "real": lambda o: o.m.real,
    "imag": lambda o: o.m.imag, "astype": lambda o: o.m.astype(tr.complex128),
    "compute": lambda o: [
        _tried(lambda f=f: (o.m + 0).compute(format=f)) for f in ("csr", "csc", "coo")],
    "explain": lambda o: str((o.m @ o.m).explain(analyze=True)),
    "flat": lambda o: next(o.m.flat), "format": lambda o: (o.m + 0).format,
    "labels": lambda o: o.m.labels, "names": lambda o: o.m.names,
    "named": lambda o: o.m.named("a", "b") + 1, "loc": lambda o: o.m.loc[0],
    "to_table": lambda o: o.m.to_table() if o.kind == "thick" else None,
    "item": lambda o: o.m.item(0, 0), "nbytes": lambda o: (o.m + 0).nbytes,
    "nnz": lambda o: (o.m + 0).nnz, "stored": lambda o: (o.m + 0).stored,
    "reshape": lambda o: o.m.reshape(-1), "swapaxes": lambda o: o.m.swapaxes(0, 1),
    "to_format": lambda o: [_tried(lambda f=f: o.m.to_format(f)) for f in FORMATS],
    "to_pydata": lambda o: o.m.to_pydata() if o.kind == "thick" else None,
    "to_scipy": lambda o: (o.m.to_scipy(), [_tried(lambda f=f: o.m.to_scipy(f)) for f in (
        "csr", "csc", "coo", "bsr", "dia", "dok", "lil")])[0],
    "to_device": lambda o: o.m.to_device("cpu"),
    "tolist": lambda o: o.m.tolist() if o.kind in ("wide", "huge") else None,
    "__getitem__": lambda o: (o.m[o.m > 1], o.m[::-1, 1:], o.v[np.arange(5)], o.m[:, None] + 1),
    "__matmul__": lambda o: o.m @ o.v[: o.k], "__iter__": lambda o: next(iter(o.m)),
    "__contains__": lambda o: 5.0 in o.m, "__array__": lambda o: np.asarray(o.m),
    "__dlpack__": lambda o: o.m.__dlpack__(), "__str__": lambda o: str(o.m) + repr(o.m),
    "__divmod__": lambda o: divmod(o.m, 2.0), "__pow__": lambda o: o.m**3,
    "__reduce__": lambda o: o.m.__reduce__(),
} | {name: lambda o, name=name: getattr(o.m, name)()  # type: ignore[misc]
     for name in BY_ITSELF}

FORMATS = ("csr", "csc", "coo", "csf", "dcsr", "dok", "bitmap", "dense", "dense_f", "bsr(2,2)")


def _nans(o: Operands) -> tuple[Any, ...]:
    """The matrix, and one whose absent entries differ from each other."""
    return o.m, tr.from_coo(*o.coo, fill=np.nan)


def _of_blocks(o: Operands) -> None:
    """A relation, all that is done with it, and one of far too many blocks."""
    R = tr.relation(o.m, tile=-(-o.k // 4))
    for ask in (lambda: R.to_tensor(), lambda: R.tile(0, -(-o.k // 8)).stack(-1, 0),
                lambda: R.join(R, 1, 0, "matmul").aggregate([0, 2], "add").to_tensor(),
                lambda: R.transform("cos").aggregate([], "max"), lambda: R.tile(1, 1),
                lambda: R.transform(lambda a: np.array(a.tolist())), lambda: R.items(),
                lambda: R.rekey(lambda i, j: (j, i)).filter(lambda i, j: i < j),
                lambda: R.join(R, [], [], "outer"), lambda: tr.relation(o.m, tile=1)):
        _tried(ask)


def _running_sums(x):
    for i in range(1, len(x)):
        x[i] += x[i - 1]
    return x


def _tried(ask: Callable[[], Any]) -> None:
    """One refusal does not spare the others of a recipe; no result outlives the next."""
    with contextlib.suppress(TensorelError):
        ask()


def recipes(*, twice: bool = True) -> dict[str, Recipe]:
    """Every public function and method; KeyError for one that nobody said how to call. Without
    ``twice``: other names of an operator, and methods that are functions too, are left out."""
    found: dict[str, Recipe] = {}
    seen: set[str] = set() if twice else {f"Tensor.{name}" for name in FUNCTIONS}
    for name in tr.namespace.__all__:
        function = getattr(tr, name)
        if name in NO_WORK or not callable(function) or inspect.isclass(function) or isinstance(
                function, np.dtype):
            continue
        if isinstance(function, (Unary, Binary)):
            if twice or function.op.name not in seen:
                found[name] = _elementwise(function)
            seen.add(function.op.name)
        else:
            found[name] = FUNCTIONS[name]
    for name in dir(tr.Tensor):
        if not name.startswith("_") and name not in PLAIN:
            found[f"Tensor.{name}"] = METHODS[name]
    found |= {f"Tensor.{n}": r for n, r in METHODS.items() if n.startswith("__")}
    return {name: r for name, r in found.items() if twice or name not in seen}


def _elementwise(function: Any) -> Recipe:
    def call(o: Operands) -> Any:
        whole = "bit" in function.op.name or "shift" in function.op.name or (
            function.op.name == "invert")
        x = o.whole if whole else o.m
        return function(x) if isinstance(function, Unary) else function(x, x)

    return call


# -- the program ----------------------------------------------------------------------------------
def operands(kind: str) -> Operands:
    if kind in ("wide", "huge"):
        n = 10**8 if kind == "wide" else 2**40
        at = np.array([0, 5, n - 1])
        coo: tuple[Any, ...] = [at, at[::-1]], np.array([1.0, 2.0, 3.0]), (n, n)
        return Operands(kind=kind, n=n, k=n, v=tr.from_coo([at], coo[1], (n,)), coo=coo,
                        m=tr.from_coo(*coo), whole=tr.from_coo(coo[0], np.array([1, 2, 3]), (n, n)))
    rng = np.random.default_rng(0)
    if kind == "heavy":
        k = 1600
        x = rng.random((k, k))
        return Operands(kind=kind, n=k * k, k=k, v=tr.asarray(x.reshape(-1)), m=tr.asarray(x),
                        whole=tr.asarray((x * 9).astype(np.int64)), coo=(
            [np.arange(10**6)[::-1]], x.reshape(-1)[: 10**6], (10**7,)))
    k, count = 30_000, 1_200_000
    cells = np.unique(rng.integers(0, k * k, count))
    coords, values = np.divmod(cells, k), rng.random(cells.size)
    long = [cells[: 10**6]]
    return Operands(kind=kind, n=k * k, k=k, m=tr.from_coo(coords, values, (k, k), format="csr"),
                    v=tr.from_coo(long, values[: 10**6], (k * k,)), whole=tr.from_coo(
        coords, (values * 9).astype(np.int64), (k, k), format="csr"), coo=(
        [c[::-1] for c in coords], values, (k, k)))


def status(field: str) -> int:
    with open("/proc/self/status") as file:
        return int(re.search(rf"{field}:\s+(\d+)", file.read())[1]) * 1024  # type: ignore[index]


def finish(found: Any) -> None:
    """Compute what is lazy."""
    if isinstance(found, tr.Tensor):
        found.compute()
    elif isinstance(found, (tuple, list)) and len(found) < 9:
        for part in found:
            finish(part)


def watch(recipe: Recipe, o: Operands) -> dict[str, Any]:
    memory_regions.REGIONS.release()
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    held = sum(t.nbytes for t in (o.v, o.m))
    before, start, said = status("VmRSS"), time.perf_counter(), "answered"
    try:
        finish(recipe(o))
    except MemoryLimitError:
        said = "refused"
    except TensorelError as error:
        said = type(error).__name__
    except BaseException as error:
        said = f"raw {type(error).__name__}: {error}"
    return {"said": said, "peak": status("VmHWM") - before + held,
            "seconds": round(time.perf_counter() - start, 3)}


def main(kinds: list[str], names: list[str]) -> None:
    def late(*_: object) -> None:
        raise TimeoutError(f"more than {SECONDS} s")

    signal.signal(signal.SIGPROF, late)  # time of the processor: others may be busy too
    small = tr.tensor(np.eye(9), format="csr")
    with tr.options(disk_cache=False, effort="quick"):  # the compiler itself is no array
        for warm in (small @ small, small + small, small.sum(axis=0)):
            warm.compute()
        small.to_table(), small.to_pydata(), small.to_scipy("csr")  # nor are imported libraries
    resource.setrlimit(resource.RLIMIT_AS, (status("VmSize") + 2 * 10**9,) * 2)
    for kind in kinds:
        o = operands(kind)
        with tr.options(memory=LIMIT, effort="quick"):
            for name, recipe in recipes(twice=kind in ("wide", "huge")).items():
                if not names or name in names:
                    signal.setitimer(signal.ITIMER_PROF, SECONDS)
                    said = watch(recipe, o)
                    if said["peak"] > ALLOWED:  # once more without the compiler's memory
                        said = watch(recipe, o)
                    signal.setitimer(signal.ITIMER_PROF, 0)
                    print(json.dumps({"kind": kind, "name": name} | said), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    main(sys.argv[1].split(","), sys.argv[2].split(",") if len(sys.argv) > 2 else [])
