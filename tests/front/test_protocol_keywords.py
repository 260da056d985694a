"""Every keyword of every function and ufunc method of NumPy that tensors know: NumPy's answer for
the dense equivalent, or an error of ours in words. Nothing is dropped silently.

The signatures are NumPy's own, so a keyword that a new version brings fails here until this file
says what values it takes."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from front_support import dense_data

import tensorel as tr
from tensorel.errors import TensorelError
from tensorel.front.array import dispatch
from tensorel.front.array.numpy_calls import UNTOLD, parameters
from tensorel.reference.interpret import evaluate

FLOATS = np.array([[2.0, 0.0, -1.5], [0.0, 0.25, 2.0]])
SMALL = np.array([[100, 0, 3], [0, 100, -7]], np.int8)  # sums and squares leave int8
OTHER = np.array([[3, 1, 2], [5, 2, 4]], np.int8)
NANS = np.array([[np.nan, 0.0, -1.5], [np.nan, 2.0, np.inf]])
MASK = np.array([[True, False, True], [False, False, True]])
OPERANDS: dict[str, tuple[np.ndarray, Callable[[np.ndarray], tr.Tensor]]] = {
    "dense": (FLOATS, tr.asarray),
    "csr": (SMALL, lambda x: tr.tensor(x, format="csr")),
    "coo": (NANS, lambda x: tr.tensor(x, format="coo")),
    "fill": (FLOATS, lambda x: tr.tensor(x, format="coo", fill=2.0)),
}
Call = tuple[tuple[Any, ...], dict[str, Any]]

#: How functions are called that take more than one tensor; ``x`` stands for it.
CALLS: dict[str, Callable[[Any], tuple[Any, ...]]] = {
    "expand_dims": lambda x: (x, 1), "swapaxes": lambda x: (x, 0, 1),
    "moveaxis": lambda x: (x, 0, 1), "reshape": lambda x: (x, (3, 2)),
    "broadcast_to": lambda x: (x, (2, 2, 3)), "split": lambda x: (x, [1]),
    "roll": lambda x: (x, 1), "pad": lambda x: (x, 1), "tile": lambda x: (x, 2),
    "repeat": lambda x: (x, 2), "take": lambda x: (x, [0, 1]), "full_like": lambda x: (x, 7),
    "take_along_axis": lambda x: (x, np.array([[0, 1], [1, 0]])), "astype": lambda x: (x, "f4"),
    "searchsorted": lambda x: (np.array([1.0, 2.0, 3.0]), x), "einsum": lambda x: ("ij->j", x),
    "can_cast": lambda x: (x.dtype, "f8"), "cross": lambda x: (x, OTHER),
    "dot": lambda x: (x, OTHER.T), "tensordot": lambda x: (x, OTHER),
    "zeros": lambda x: ((2, 3),), "ones": lambda x: ((2, 3),), "empty": lambda x: ((2, 3),),
    "full": lambda x: ((2, 3), 7), "eye": lambda x: (3,), "identity": lambda x: (3,),
    "array": lambda x: ([[1, 2], [3, 4]],), "asarray": lambda x: ([[1, 2], [3, 4]],),
    "unique_all": lambda x: (x,), "broadcast_arrays": lambda x: (x, OTHER[:1]),
    "meshgrid": lambda x: (x[0], x[1, :2]), "result_type": lambda x: (x, np.float32),
    "where": lambda x: (x > 0, 1.0),
} | dict.fromkeys(("vdot", "inner", "outer", "kron", "isclose", "allclose", "array_equal",
                   "may_share_memory", "shares_memory"), lambda x: (x, OTHER)) | dict.fromkeys(
    ("concatenate", "stack", "vstack", "hstack"), lambda x: ((x, OTHER),))

_AXES = [0, -1, (0, 1), None, 2]
_DTYPES = ["f4", "f8", "i1", "i8", "c16", "?"]
_CASTINGS = ["no", "equiv", "safe", "same_kind", "unsafe"]
#: Values of keywords, by name; by "function.name" where they differ. ``x`` is the operand.
VALUES: dict[str, list[Any]] = {
    "axis": _AXES, "axes": [1, ([0], [0])], "dtype": _DTYPES, "casting": _CASTINGS,
    "keepdims": [True, False], "initial": [5, -1.5], "where": [MASK, True, MASK[:1]],
    "order": ["C", "F", "A", "K"], "copy": [True, False, None], "nan_to_num.copy": [False],
    "subok": [True, False],
    "ddof": [1], "correction": [1, 0.5], "mean": [np.zeros((1, 1))], "offset": [1, -1],
    "axis1": [1], "axis2": [0], "k": [1, -2], "mode": ["wrap", "clip"],
    "pad.mode": ["edge", "mean"],
    "indexing": ["ij"], "sparse": [True], "n": [2, 0], "prepend": [0, OTHER[:, :1]],
    "append": [1, OTHER[:, :1]], "axisa": [1], "axisb": [1], "axisc": [1],
    "kind": ["stable", "quicksort"], "stable": [True, False], "include_initial": [True],
    "sort.order": ["C"], "argsort.order": ["C"], "side": ["right"], "sorter": [[2, 1, 0]],
    "decimals": [1, -1], "a_min": [-1, 0.5], "a_max": [1, OTHER], "min": [-1], "max": [OTHER],
    "rtol": [0.5], "atol": [3.0], "equal_nan": [True], "nan": [1.0], "posinf": [9.0],
    "neginf": [-9.0], "shape": [(3, 2), 4], "device": ["cpu", "gpu", None], "M": [2],
    "x": [1.0], "y": [OTHER], "optimize": [True, "greedy"], "max_work": [None, 1], "ndmin": [3],
    "ndmax": [1], "transpose.axes": [(1, 0), (0, 0)], "cross.axis": [1, -1], "subscripts": [],
    "constant_values": [4, (1, 2)], "end_values": [2], "stat_length": [1],
    "reflect_type": ["odd", "even"], "identity.dtype": _DTYPES, "take_along_axis.axis": [0],
    "searchsorted.sorter": [[0, 1, 2], [2, 1, 0]], "eye.dtype": _DTYPES[:3],
}
#: Keywords that NumPy's signature hides behind ``**kwargs``.
HIDDEN = {"pad": ("constant_values", "end_values", "stat_length", "reflect_type"),
          "clip": ("dtype", "casting", "where", "order", "subok"),
          "einsum": ("dtype", "casting", "order")}
#: ``like`` is NumPy's way to us, ``out`` is refused by a test of its own.
APART = {"like", "out"}
#: What is refused though NumPy has an answer. Whoever adds one says so in docs/limitations.md.
REFUSED = {
    "var.where", "var.mean", "var.dtype", "std.where", "std.mean", "std.dtype", "mean.dtype",
    "take.mode", "meshgrid.sparse", "cross.axisa", "cross.axisb", "cross.axisc", "clip.dtype",
    "clip.casting", "clip.where", "nan_to_num.copy", "pad.mode", "reshape.order", "ravel.order",
    "array.ndmin", "nanmean.dtype",
}
#: Functions whose values, or their order, NumPy leaves open.
UNORDERED = ("empty", "unique_values")
#: What is answered though NumPy refuses it.
MORE = {"clip.a_min", "clip.a_max", "zeros.order", "ones.order", "full.order", "empty.order",
        "eye.order"}


def keywords(function: Any) -> Iterator[str]:
    """The keywords of a function of NumPy beside its operands."""
    name = function.__name__
    yield from HIDDEN.get(name, ())
    known = parameters(function, dispatch.FUNCTIONS[function])
    yield from (k for k, p in inspect.signature(function).parameters.items()
                if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and k not in APART
                and k not in known.names[:known.head])


def values(function: Any, keyword: str) -> list[Any]:
    return VALUES.get(f"{function.__name__}.{keyword}") or VALUES[keyword]


def answer(call: Callable[[], Any]) -> Any:
    """What a call gives: a value, or the class of its error."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return call()
        except (ValueError, TypeError, IndexError, RuntimeError, OverflowError) as error:
            return error


def same(found: Any, wanted: Any) -> bool:
    """Equal values of equal shape and dtype; sequences entry by entry."""
    if isinstance(wanted, (tuple, list)):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    if isinstance(found, tr.Tensor):
        wanted = np.asarray(wanted)
        array = evaluate(found.node, dense_data)
        loose = 1e-5 if found.dtype in ("f4", "c8") else 1e-12
        if wanted.dtype == np.float16:  # which there is not
            wanted, loose = np.where(np.isinf(wanted), array, wanted.astype("f4")), 1e-2
        if (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
            return False
        if wanted.dtype.kind in "fc":
            return np.allclose(array, wanted, loose, loose, equal_nan=True)
        return np.array_equal(array, wanted)
    return bool(found == wanted)


def judge(about: str, ours: Callable[[], Any], theirs: Callable[[], Any]) -> bool:
    """Whether ours was refused though NumPy answers; any other difference fails."""
    wanted, found = answer(theirs), answer(ours)
    refused = isinstance(wanted, Exception)
    if isinstance(found, Exception):
        by_numpy = refused and str(found) == str(wanted)  # before it asked us
        assert isinstance(found, TensorelError) or by_numpy, f"{about}: a raw error: {found!r}"
        return not refused
    if refused:
        assert about.split("=")[0].replace("(", ".") in MORE, f"{about}: NumPy: {wanted!r}"
    else:
        assert about.startswith(UNORDERED) or same(found, wanted), f"{about}: {found} not {wanted}"
    return False


def spellings(function: Any, args: tuple[Any, ...], keyword: str, value: Any) -> Iterator[Call]:
    """By keyword and by position."""
    plain = list(inspect.signature(function).parameters.values())
    if keyword not in HIDDEN.get(function.__name__, ()):
        place = [p.name for p in plain].index(keyword)
        before = plain[len(args):place]
        if plain[place].kind is not inspect.Parameter.KEYWORD_ONLY and all(
                p.default is not p.empty for p in before):
            yield (*args, *(p.default for p in before), value), {}
    if keyword in HIDDEN.get(function.__name__, ()) or plain[place].kind not in (
            inspect.Parameter.POSITIONAL_ONLY,):
        yield args, {keyword: value}


@pytest.mark.parametrize("function", dispatch.FUNCTIONS, ids=lambda f: f.__name__)
def test_keywords_of_functions(function: Any) -> None:
    name = function.__name__
    build = CALLS.get(name, lambda x: (x,))
    refused = set()
    created = "like" in inspect.signature(function).parameters
    for kind, (original, make) in OPERANDS.items():
        array = original.copy()
        array.setflags(write=False)  # copy=False would write to it
        tensor = make(original)
        more = {"like": tensor} if created else {}

        ours = partial(function, **more)
        judge(name, partial(ours, *build(tensor)), partial(function, *build(array)))
        for keyword in keywords(function):
            for value in values(function, keyword):
                about = f"{name}({keyword}={value!r}) of {kind}"
                for (args, given), (wanted, _) in zip(
                        spellings(function, build(tensor), keyword, value),
                        spellings(function, build(array), keyword, value)):
                    if judge(about, partial(ours, *args, **given),
                             partial(function, *wanted, **given)):
                        refused.add(f"{name}.{keyword}")
    assert refused == {r for r in REFUSED if r.split(".")[0] == name}


@pytest.mark.parametrize("function", [f for f in dispatch.FUNCTIONS if "out" in inspect.signature(
    f).parameters], ids=lambda f: f.__name__)
def test_nothing_is_written_to(function: Any) -> None:
    args = CALLS.get(function.__name__, lambda x: (x,))(tr.asarray(FLOATS))
    with pytest.raises(TypeError, match="never written to"):
        function(*args, out=np.zeros((2, 3)))


UFUNCS = [*dispatch.UFUNCS, *dispatch.COMPOSED, *dispatch.PRODUCTS]
METHODS = ("__call__", "reduce", "accumulate", "outer", "reduceat", "at")
#: Keywords of ufuncs and of their methods, by NumPy's reference.
_OF_ALL: dict[str, list[Any]] = {
    "dtype": ["f4", "f8", "i8", "i1", "?", "f2"], "casting": ["no", "safe", "unsafe", "any"],
    "order": ["F", "Z"], "subok": [False], "where": [True, MASK], "axes": [[(0, 1)] * 3],
    "axis": [0, 1, None, (0, 1)], "keepdims": [True], "signature": ["dd->d", "d->d", "bb->b"],
    "initial": [5, 0], "sig": ["dd->d"],
}
OF_METHODS: dict[str, dict[str, list[Any]]] = {
    "__call__": {k: v for k, v in _OF_ALL.items() if k != "initial"},
    "outer": {k: v for k, v in _OF_ALL.items() if k not in ("initial", "axis", "axes", "keepdims")},
    "reduce": {k: _OF_ALL[k] for k in ("axis", "dtype", "keepdims", "initial", "where")},
    "accumulate": {k: _OF_ALL[k] for k in ("axis", "dtype")},
    "reduceat": {}, "at": {},
}
UFUNC_OPERANDS = {
    "dense": (FLOATS, tr.asarray), "csr": (SMALL, lambda x: tr.tensor(x, format="csr")),
    "fill": (FLOATS, lambda x: tr.tensor(x, format="coo", fill=2.0)),
    "mask": (MASK, lambda x: tr.tensor(x, format="coo")),
}


def ufunc_args(ufunc: np.ufunc, method: str, x: Any, second: Any) -> tuple[Any, ...]:
    if method in ("reduce", "accumulate"):
        return (x,)
    if method == "reduceat":
        return (x, [0, 1])
    if method == "at":
        return (x, [0]) if ufunc.nin == 1 else (x, [0], 1)
    if ufunc.nin == 1:
        return (x,)
    return (x, second.T) if ufunc is np.matmul else (x, second)


def ufunc_keywords(method: str) -> Iterator[dict[str, Any]]:
    yield {}
    for name, listed in OF_METHODS[method].items():
        yield from ({name: v} for v in listed)
    if method in ("__call__", "outer"):
        yield from ({"dtype": d, "casting": "unsafe"} for d in ("i1", "i8", "f4", "?"))


@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda u: u.__name__)
@pytest.mark.parametrize("method", METHODS)
def test_keywords_of_ufuncs(ufunc: np.ufunc, method: str) -> None:
    """Refusals of dtypes, signatures and casting come from NumPy alone; float16 is float32 here."""
    for kind, (array, make) in UFUNC_OPERANDS.items():
        for second in (OTHER,) if ufunc.nin == 1 or ufunc.signature else (OTHER, 3, 1.5):
            for given in ufunc_keywords(method):
                about = f"{ufunc.__name__}.{method}({given}) of {kind} and {second!r}"
                tensors = ufunc_args(ufunc, method, make(array), second)
                arrays = ufunc_args(ufunc, method, array.copy(), second)
                call = partial(getattr(ufunc, method), **given)
                refused = judge(about, partial(call, *tensors), partial(call, *arrays))
                if method == "__call__" and refused:
                    assert set(given) & {"where", "axes", "axis", "keepdims", "signature"} or (
                        given.get("dtype") == "f2"), about
            if ufunc.nin == 1 or method in ("reduce", "accumulate", "reduceat", "at"):
                break


@pytest.mark.parametrize("name", UNTOLD)
def test_signatures_that_older_versions_do_not_tell(name: str) -> None:
    theirs = inspect.signature(getattr(np, name)).parameters.values()
    assert [(p.name, p.kind, p.default) for p in theirs if p.name != "like"] == [
        (p.name, p.kind, p.default) for p in inspect.signature(UNTOLD[name]).parameters.values()]
