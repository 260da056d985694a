"""Labels travel with the axes of programs, and axes that meet are aligned by label."""

import copy
import cProfile
import gc
import pickle
import pstats
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tensorel as tr

SALES = {"shop": ["b", "a", "b", "c"], "day": [1, 1, 3, 7], "sold": [5.0, 2.0, 7.0, 1.0]}
T = tr.from_table(SALES, keys=["shop", "day"], value="sold")
SHOPS, DAYS = ["a", "b", "c"], [1, 3, 7]


def lists(t: tr.Tensor) -> list[Any]:
    return [None if own is None else own.tolist() for own in t.labels]


PROGRAMS: list[tuple[Callable[[tr.Tensor], tr.Tensor], list[Any], tuple[Any, ...]]] = [
    (lambda t: t, [SHOPS, DAYS], ("shop", "day")),
    (lambda t: t.T, [DAYS, SHOPS], ("day", "shop")),
    (lambda t: tr.exp(t * 2 + 1) > 3, [SHOPS, DAYS], ("shop", "day")),
    (lambda t: t.sum(axis=0), [DAYS], ("day",)),
    (lambda t: t.max(axis=1), [SHOPS], ("shop",)),
    (lambda t: t.sum(axis=0, keepdims=True), [None, DAYS], (None, "day")),
    (lambda t: t.sum(), [], ()),
    (lambda t: t[1], [DAYS], ("day",)),
    (lambda t: t[:, 1:], [SHOPS, [3, 7]], ("shop", "day")),
    (lambda t: t[::-2, None], [["c", "a"], None, DAYS], ("shop", None, "day")),
    (lambda t: t[[2, 0, 2]], [["c", "a", "c"], DAYS], ("shop", "day")),
    (lambda t: t[np.array([True, False, True])], [["a", "c"], DAYS], ("shop", "day")),
    (lambda t: t @ t.T, [SHOPS, SHOPS], ("shop", "shop")),
    (lambda t: t @ tr.ones((3, 4)), [SHOPS, None], ("shop", None)),
    (lambda t: tr.einsum("sd,rd->rsd", t, t), [SHOPS, SHOPS, DAYS], ("shop", "shop", "day")),
    (lambda t: tr.concat([t, t[:1]]), [["a", "b", "c", "a"], DAYS], ("shop", "day")),
    (lambda t: tr.roll(t, 1, axis=1), [SHOPS, [7, 1, 3]], ("shop", "day")),
    (lambda t: tr.flip(t, axis=0), [["c", "b", "a"], DAYS], ("shop", "day")),
    (lambda t: tr.stack([t, t]), [None, SHOPS, DAYS], (None, "shop", "day")),
    (lambda t: tr.cumulative_sum(t, axis=1), [SHOPS, DAYS], ("shop", "day")),
    (lambda t: tr.sort(t, axis=1), [SHOPS, None], ("shop", "day")),
    (lambda t: tr.argmax(t, axis=1), [SHOPS], ("shop",)),
    (lambda t: tr.pad(t, ((0, 0), (1, 0))), [SHOPS, None], ("shop", "day")),
    (lambda t: t[:, 1:] - t[:, :-1].copy().to_numpy(), [SHOPS, [3, 7]], ("shop", "day")),
    (lambda t: t.reshape(9), [None], (None,)),
    (lambda t: tr.where(t > 2, t, 0), [SHOPS, DAYS], ("shop", "day")),
    (lambda t: tr.map(lambda x, y: x * y + 1, t, t.sum(axis=0)), [SHOPS, DAYS], ("shop", "day")),
    (lambda t: t.astype("float32"), [SHOPS, DAYS], ("shop", "day")),
    (lambda t: tr.outer(t[0], t[:, 0]), [DAYS, SHOPS], ("day", "shop")),
    (lambda t: tr.sdql("sum(<i, r> in T) sum(<j, v> in r) { i -> { j -> v * 2 } }", T=t),
     [SHOPS, DAYS], ("shop", "day")),
]


@pytest.mark.parametrize("case", range(len(PROGRAMS)))
@pytest.mark.parametrize("format", ["coo", "csr", "csc", "dense", "dok"])
def test_labels_follow(format: str, case: int) -> None:
    program, labels, names = PROGRAMS[case]
    lazy = program(tr.tensor(T, format=format))
    assert (lists(lazy), lazy.names) == (labels, names)
    for found in (lazy.compute(), lazy, pickle.loads(pickle.dumps(lazy)), copy.deepcopy(lazy),
                  lazy.compute(format="coo"), pickle.loads(pickle.dumps(lazy.compute()))):
        assert (lists(found), found.names) == (labels, names)
    plain = program(tr.asarray(T.to_numpy()))
    np.testing.assert_allclose(lazy.to_numpy(), plain.to_numpy())


def test_results_that_are_kept_have_labels() -> None:
    a = T * 2
    a.to_numpy()
    b = a + 1
    del a
    assert lists(b) == [SHOPS, DAYS]
    assert lists(tr.compute(b, b.sum(axis=0))[1]) == [DAYS]
    assert all(own is None for own in tr.asarray(T.to_numpy()).labels)


def test_a_program_without_labels_never_gets_some() -> None:
    plain = tr.from_coo(*T.to_coo(), shape=T.shape)
    assert (plain * 1).labels == (plain.T.T + 0).labels == (None, None)
    assert lists(T * 1) == [SHOPS, DAYS]
    assert (plain * 1).labels == (None, None)
    assert lists(plain * T) == [SHOPS, DAYS]


# -- alignment ----------------------------------------------------------------------------------
def series(rng: np.random.Generator, kind: str, ordered: bool) -> pd.Series:
    pool = np.array([f"key {k}" for k in range(12)], object) if kind == "text" else \
        np.arange(12) * 10**11
    keys = rng.choice(pool, int(rng.integers(0, 12)), replace=False)
    values = rng.integers(1, 9, keys.size).astype(float)
    return pd.Series(values, index=pd.Index(np.sort(keys) if ordered else keys, dtype=pool.dtype))


def tensor(s: pd.Series, format: str) -> tr.Tensor:
    made = tr.from_table({"k": s.index.to_numpy(), "v": s.to_numpy()}, keys=["k"], value="v",
                         format=format)
    order = np.argsort(np.argsort(s.index.to_numpy()))
    return made if (order == np.arange(order.size)).all() else made[order]


def dictionary(t: tr.Tensor) -> dict[Any, float]:
    return dict(zip(t.labels[0].tolist(), t.to_numpy().tolist()))


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("kind", ["text", "number"])
def test_vectors_align_as_pandas_has_it(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    ordered = bool(seed % 2)
    a, b = series(rng, kind, ordered), series(rng, kind, ordered)
    x, y = tensor(a, str(rng.choice(["coo", "dense"]))), tensor(b, "coo")
    assert dictionary(x + y) == a.add(b, fill_value=0).to_dict()
    assert dictionary(x - y) == a.sub(b, fill_value=0).to_dict()
    both = a.index.intersection(b.index)
    assert dictionary(x * y) == (a[both] * b[both]).to_dict()
    assert dictionary(x / y) == (a[both] / b[both]).to_dict()
    assert list(dictionary(x * y)) == [k for k in a.index if k in both]
    assert tr.einsum("i,i->", x, y).item() == (a[both] * b[both]).sum() == (x @ y).item()
    assert dictionary(tr.maximum(x, y)) == a.combine(b, max, fill_value=0).to_dict()
    assert dictionary(x + y + 1) == (a.add(b, fill_value=0) + 1).to_dict()


@pytest.mark.parametrize("seed", range(20))
def test_matrices_align(seed: int) -> None:
    rng = np.random.default_rng(seed)
    frames, tensors = [], []
    for format in rng.choice(["coo", "csr", "csc", "dense"], 2):
        count = int(rng.integers(1, 40))
        df = pd.DataFrame({"r": rng.choice(list("abcdefgh"), count),
                           "c": rng.integers(0, 9, count), "v": rng.integers(1, 5, count)})
        frames.append(df.groupby(["r", "c"]).v.sum().unstack(fill_value=0))
        tensors.append(tr.from_table(df, keys=["r", "c"], value="v", format=str(format)))
    (f, g), (x, y) = frames, tensors

    def same(t: tr.Tensor, df: pd.DataFrame) -> None:
        assert lists(t) == [df.index.tolist(), df.columns.tolist()]
        np.testing.assert_array_equal(t.to_numpy(), df.to_numpy())

    same(x + y, f.add(g, fill_value=0).fillna(0).sort_index(axis=0).sort_index(axis=1))
    rows, columns = f.index.intersection(g.index), f.columns.intersection(g.columns)
    same(x * y, f.loc[rows, columns] * g.loc[rows, columns])
    same(x @ y.T, f[columns] @ g[columns].T)
    same(tr.einsum("rc,sc->sr", x, y), g[columns] @ f[columns].T)
    same(x.T @ y, f.loc[rows].T @ g.loc[rows])
    same(tr.concat([x, y]), pd.concat([f, g]).fillna(0).sort_index(axis=1))


def test_sparse_operands_stay_sparse() -> None:
    count = 30_000
    rng = np.random.default_rng(0)

    def some(first: int) -> tr.Tensor:
        return tr.from_table({"a": first + rng.integers(0, count, count), "v": np.ones(count),
                              "b": [f"{k}" for k in rng.integers(0, count, count)]},
                             keys=["a", "b"], value="v")

    x, y = some(0), some(500)
    for t in (x + y, x * y, x @ y.T, tr.maximum(x, y)):
        found = t.compute()
        assert found.nbytes < 40 * count
        assert not found.stored.format.is_dense
    assert (x + y).sum().item() == 2 * count


def test_other_fills_and_semirings() -> None:
    a = tr.from_table({"k": ["a", "b"], "v": [1.0, 2.0]}, keys="k", value="v", fill=np.inf)
    b = tr.from_table({"k": ["b", "c"], "v": [10.0, 3.0]}, keys="k", value="v", fill=np.inf)
    assert dictionary(tr.minimum(a, b)) == {"a": 1.0, "b": 2.0, "c": 3.0}
    assert tr.einsum("i,i->", a, b, add=tr.min, mul=tr.add).item() == 12.0
    assert dictionary(a + b) == {"b": 12.0}


def test_three_operands_and_unlabelled_ones() -> None:
    a = tr.from_table({"k": ["a", "b"], "v": [1, 2]}, keys="k", value="v")
    b = tr.from_table({"k": ["b", "c"], "v": [3, 4]}, keys="k", value="v")
    assert tr.einsum("i,i,i->i", a, b, a).tolist() == [12]
    assert dictionary(tr.where(a > 1, b, -1)) == {"a": -1, "b": 3, "c": -1}
    assert (a * [[1], [2]]).tolist() == [[1, 2], [2, 4]]
    assert dictionary(a + np.array([5, 6])) == {"a": 6, "b": 8}
    with pytest.raises(ValueError, match="operand 2 has no labels"):
        tr.einsum("i,i,i->i", a, b, [1, 2])
    with pytest.raises(ValueError, match="has 2 and 3"):
        a + [1, 2, 3]


def test_what_cannot_be_aligned() -> None:
    a = tr.from_table({"k": ["a", "b"], "v": [1, 2]}, keys="k", value="v")
    with pytest.raises(TypeError, match="labels of one are texts, of the other whole numbers"):
        a + tr.from_table({"k": [1, 2], "v": [1, 2]}, keys="k", value="v")
    with pytest.raises(ValueError, match="the label 'a' stands at 2 positions"):
        a + a[[0, 0, 1]]


# -- names and places ---------------------------------------------------------------------------
def test_names() -> None:
    a = tr.asarray([[1.0, 2.0], [3.0, 4.0]])
    for t in (a, a * 2, tr.tensor(a, format="csr")):
        named = t.named("user", "any text ☃")
        assert named.names == ("user", "any text ☃")
        assert named.T.names == ("any text ☃", "user")
        assert (named @ t).names == ("user", None)
        assert pickle.loads(pickle.dumps(named)).names == named.names == named.compute().names
        assert named.named(None, "x").names == (None, "x")
        assert t.names == (None, None)
        np.testing.assert_array_equal(named.to_numpy(), t.to_numpy())
    assert (T * 2).named("s", None).names == ("s", None)
    assert lists((T * 2).named("s", None)) == [SHOPS, DAYS]
    for wrong in (("x",), ("x", "x"), ("x", 3)):
        with pytest.raises((ValueError, TypeError), match="named: "):
            a.named(*wrong)


def test_loc() -> None:
    frame = pd.DataFrame(T.to_numpy(), index=SHOPS, columns=DAYS)
    assert T.loc["b"].tolist() == frame.loc["b"].tolist()
    assert T.loc["b", 3].item() == 7.0
    assert T.loc[:, 3].tolist() == frame.loc[:, 3].tolist()
    assert T.loc[["c", "a"], [7, 1]].tolist() == frame.loc[["c", "a"], [7, 1]].to_numpy().tolist()
    assert lists(T.loc["a":"b", 2:]) == [["a", "b"], [3, 7]]  # type: ignore[misc]
    assert lists(T.loc[:"b"]) == [["a", "b"], DAYS]  # type: ignore[misc]
    assert lists(T[::-1].loc["c":"b"]) == [["c", "b"], DAYS]  # type: ignore[misc]
    assert lists(T.loc[..., 1]) == [SHOPS]
    assert T.loc[np.array(["b"])].tolist() == [frame.loc["b"].tolist()]
    assert (T.T * 2).loc[3, "b"].item() == 14.0
    assert tr.asarray([[1, 2]]).loc[0, 1].item() == 2  # positions where there are no labels
    with pytest.raises(KeyError, match=r"axis 'shop' has no label 'bb'\n  hint: did you mean 'b'"):
        T.loc["bb"]
    with pytest.raises(KeyError, match=r"axis 'day' has no label 2\n  hint: its labels are 1, 3"):
        T.loc[:, [1, 2]]
    with pytest.raises(IndexError, match="3 labels for a tensor of 2 axes"):
        T.loc[1, 2, 3]


def test_loc_of_dates() -> None:
    days = pd.date_range("2024-01-01", periods=40)
    t = tr.from_table(pd.DataFrame({"day": days, "v": range(40)}), keys=["day"], value="v")
    assert t.loc["2024-01-05"].item() == 4 == t.loc[np.datetime64("2024-01-05")].item()
    assert t.loc["2024-01-30":"2024-02-01"].tolist() == [29, 30, 31]  # type: ignore[misc]
    assert t.loc[days[3]].item() == t.loc[days[3].date()].item() == 3


def test_printing_shows_labels() -> None:
    assert repr(T) == ("Tensor(shape=(3, 3), dtype=float64, axes=('shop', 'day'), format='coo', "
                       "fill=0.0, nnz=4, {('a', 1): 2.0, ('b', 1): 5.0, ('b', 3): 7.0, "
                       "('c', 7): 1.0})")
    assert "('b', 3): 14.0" in str(T * 2)


def test_a_table_of_any_tensor() -> None:
    assert (T > 1).to_table().to_pydict() == {"shop": ["a", "b", "b"], "day": [1, 1, 3],
                                              "val": [True] * 3}
    assert (T @ T.T).to_table().column_names == ["shop", "shop_1", "val"]
    assert tr.asarray([[0, 2], [3, 0]]).to_table().to_pydict() == {
        "i0": [0, 1], "i1": [1, 0], "val": [2, 3]}
    assert T.sum().to_table("total").to_pydict() == {"total": [15.0]}


def test_results_at_sites_have_labels() -> None:
    with tr.engines.local(sites=2) as engine:
        left = (T * 2).persist(engine=engine)
        assert lists(left) == [SHOPS, DAYS]
        assert lists((left @ T.T).compute(engine=engine)) == [SHOPS, SHOPS]


def test_small_calls_without_labels_do_not_look_for_them() -> None:
    a, b = tr.asarray(np.ones((10, 10))), tr.asarray(np.ones((10, 10)))
    (a * b).to_numpy()
    profile = cProfile.Profile()
    profile.runcall(lambda: ((a * b) @ a).to_numpy())
    profile.runcall(lambda: (a * b).to_numpy())
    called = {(Path(file).name, name) for file, _, name in pstats.Stats(profile).stats}  # type: ignore[attr-defined]
    files = {file for file, _ in called}
    assert "elementwise.py" in files
    assert not files & {"alignment.py", "meeting.py", "labels.py"}


def test_labels_that_met_are_forgotten() -> None:
    for left in (T, T[:, :0]):
        other = tr.from_table({"day": [3, 9], "price": [1.0, 2.0]}, keys="day", value="price")
        axes = other.stored.axes
        assert axes is not None
        gone = weakref.ref(axes[0].labels)
        (left * other).to_numpy()
        (other + left).to_numpy()
        (left + other).to_numpy()
        del axes, other
        gc.collect()
        assert gone() is None


def test_languages_on_tensors_that_users_can_write_to() -> None:
    data = np.array([1.0, 0.0, 2.0])
    x = tr.asarray(data).named("place")
    assert tr.sdql("sum(<i, v> in x) { i -> v * 2 }", x=x).names == ("place",)
    data[0] = 5.0
    assert tr.sdql("sum(<i, v> in x) { i -> v * 2 }", x=x).tolist() == [10.0, 0.0, 4.0]


# -- relational operators -----------------------------------------------------------------------
def test_selections_compare_labels() -> None:
    assert lists(T.select("shop = 'b'")) == [DAYS]
    assert T.select("shop = 'b'").tolist() == [5.0, 7.0, 0.0]
    assert T.select("shop >= 'b' and val > 2").to_table().to_pydict() == {
        "shop": ["b", "b"], "day": [1, 3], "val": [5.0, 7.0]}
    assert T.group_by("shop").agg("sum").rows() == [("a", 2.0), ("b", 12.0), ("c", 1.0)]
    assert lists(T.aggregate("sum", "row")) == [SHOPS]
    with pytest.raises(TypeError, match="has no labels to compare with 'b'"):
        T.sum(axis=0, keepdims=True).select("i0 = 'b'")


@pytest.mark.parametrize("how", ["inner", "left", "outer"])
def test_joins_match_labels(how: str) -> None:
    price = tr.from_table({"when": [9, 3, 1], "price": [30.0, 20.0, 10.0]}, keys="when",
                          value="price")
    sold = T.sum(axis=0)
    found = sold.join(price, "day = when", lambda x, y: x * 100 + y, how=how)
    a, b = sold.to_table().to_pandas(), price.to_table().to_pandas()
    both = a.merge(b, left_on="day", right_on="when", how=how)
    day = both.day.fillna(both.when).astype(int)
    wanted = dict(zip(day, both.val_x.fillna(0) * 100 + both.val_y.fillna(0)))
    assert dict(zip(*list(found.to_table().to_pydict().values()))) == wanted
    if how != "outer":
        assert lists(T.join(price, "day = when", lambda x, y: x * y)) == [SHOPS, DAYS]
        assert T.join(price, "cid = rid", lambda x, y: x * y).sum().item() == 210.0
