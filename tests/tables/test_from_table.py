"""Tables as labelled tensors, beside pandas' groupby."""

import datetime as dt
import warnings
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tensorel as tr

DTYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32",
          "float64", "bool"]
SOURCES = ["pandas", "arrow", "chunked", "sliced", "dictionary", "polars", "duckdb", "parquet"]


def keys(rng: np.random.Generator, kind: str, count: int) -> Any:
    """Keys of a kind, a tenth of them null where the kind has nulls."""
    few = int(rng.integers(1, 12))
    at = rng.integers(0, few, count)
    nulls = rng.random(count) < 0.1
    if kind == "int":
        return pd.Series(at * int(rng.choice([1, -3, 10**12])))
    if kind == "nullable":
        return pd.Series(pd.array(np.where(nulls, None, at), dtype="Int32"))
    if kind == "float":
        return pd.Series(np.where(nulls, np.nan, at / 4 - 1))
    if kind == "bool":
        return pd.Series(at % 2 == 0)
    if kind == "text":
        texts = ["", "a", "ab", "é", "日本語の文字列", "😀", "a long key of more than twelve bytes",
                 "a long key of more than twelve bytez", "ß", "Z", "a\0", "a\0b"]
        return pd.Series([None if n else texts[k] for n, k in zip(nulls, at)], dtype="str")
    if kind == "category":
        return pd.Series(pd.Categorical([None if n else f"c{k}" for n, k in zip(nulls, at)],
                                        categories=[f"c{k}" for k in reversed(range(14))]))
    if kind == "date":
        return pd.Series([None if n else dt.date(2020, 1, 1) + dt.timedelta(int(k))
                          for n, k in zip(nulls, at)], dtype=object)
    days = pd.Series(pd.to_datetime("2021-03-01") + pd.to_timedelta(at, unit="h"))
    return days.where(~nulls)


KINDS = ["int", "nullable", "float", "bool", "text", "category", "date", "datetime"]


def frame(rng: np.random.Generator, kinds: list[str], dtype: str, count: int) -> pd.DataFrame:
    values = pd.Series(rng.integers(0, 50, count).astype(dtype))
    if dtype.startswith("float"):
        values[rng.random(count) < 0.2] = np.nan
    return pd.DataFrame({f"k{i}": keys(rng, kind, count) for i, kind in enumerate(kinds)}
                        | {"v": values})


def handed(source: str, df: pd.DataFrame, folder: Any) -> Any:
    """The same table of another library."""
    if source == "pandas":
        return df
    if source == "polars":
        return pl.from_pandas(df)
    if source == "duckdb":
        return duckdb.from_df(df)
    table = pa.Table.from_pandas(df, preserve_index=False)
    if source == "chunked":
        cut = len(df) // 3
        return pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    if source == "sliced":
        return pa.concat_tables([table, table]).combine_chunks().slice(len(df))
    if source == "dictionary":
        return pa.table({n: c.dictionary_encode() if n != "v" and not pa.types.is_dictionary(c.type)
                         else c for n, c in zip(table.column_names, table.columns)})
    if source == "parquet":
        path = str(folder / "t.parquet")
        pq.write_table(table, path, row_group_size=max(len(df) // 4, 1))
        return path
    return table


def plain(x: Any) -> Any:
    """A key as Python has it: times as pandas' timestamps."""
    if isinstance(x, np.datetime64 | dt.datetime | pd.Timestamp):
        return pd.Timestamp(x)
    if isinstance(x, dt.date):
        return pd.Timestamp(x)
    return x.item() if isinstance(x, np.generic) else x


def wanted(df: pd.DataFrame, names: list[str]) -> dict[tuple[Any, ...], Any]:
    """Sums by key, without pandas' own sums: rows of a dictionary."""
    found: dict[tuple[Any, ...], Any] = {}
    for row in df.itertuples(index=False):
        *key, value = row
        if any(pd.isna(k) for k in key) or pd.isna(value):
            continue
        key = tuple(plain(k) for k in key)
        found[key] = found.get(key, 0) + (bool(value) if df.v.dtype == bool else value)
    return found


def entries(t: tr.Tensor) -> dict[tuple[Any, ...], Any]:
    coords, values = t.to_coo()
    return {tuple(plain(own[int(c)]) for own, c in zip(t.labels, at)): v
            for at, v in zip(coords.T, values.tolist())}


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("source", SOURCES)
def test_random_tables(source: str, seed: int, tmp_path: Any) -> None:
    rng = np.random.default_rng([seed, SOURCES.index(source)])
    kinds = [str(k) for k in rng.choice(KINDS, rng.integers(1, 4))]
    df = frame(rng, kinds, DTYPES[seed % len(DTYPES)], int(rng.choice([0, 1, 7, 60])))
    names = list(df.columns[:-1])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = tr.from_table(handed(source, df, tmp_path), keys=names, value="v")
    without = df[names].isna().any(axis=1).sum()
    assert bool(without) == any(w.category is tr.errors.NullKeyWarning for w in caught)
    sums = wanted(df, names)
    expected = {k: v for k, v in sums.items() if v != 0}
    got = entries(found)
    assert set(got) == set(expected)
    for key, value in expected.items():
        assert got[key] == pytest.approx(np.asarray(value).astype(found.dtype), rel=1e-5)
    kept = df.dropna(subset=names)
    for name, axis, labels in zip(names, found.names, found.labels):
        assert axis == name
        assert [plain(x) for x in labels] == sorted({plain(x) for x in kept[name]})


@pytest.mark.parametrize("source", SOURCES)
def test_there_and_back(source: str, tmp_path: Any) -> None:
    df = pd.DataFrame({"user": ["ann", "bob", "ann", "zoë"], "day": pd.to_datetime(
        ["2024-01-02", "2024-01-01", "2024-01-02", "2024-02-01"]), "v": [1.5, 2.0, 3.0, -1.0]})
    found = tr.from_table(handed(source, df, tmp_path), keys=["user", "day"], value="v")
    back = found.to_table().to_pandas()
    sums = df.groupby(["user", "day"], as_index=False).v.sum().rename(columns={"v": "val"})
    assert list(back.columns) == ["user", "day", "val"]
    assert back.user.tolist() == sums.user.tolist()
    assert [plain(x) for x in back.day] == [plain(x) for x in sums.day]
    assert back.val.tolist() == sums.val.tolist()


def test_large_tables_equal_groupby() -> None:
    rng = np.random.default_rng(5)
    count = 400_000  # more than threads and native sorting begin with
    user = rng.integers(0, 5000, count)
    texts = np.array([f"user {k} of many" for k in range(5000)], object)
    df = pd.DataFrame({"u": pd.Series(texts[user], dtype="str"),
                       "d": rng.integers(-10**15, 10**15, 300)[rng.integers(0, 300, count)],
                       "v": rng.integers(0, 9, count)})
    found = tr.from_table(df, keys=["u", "d"], value="v")
    sums = df.groupby(["u", "d"]).v.sum()
    back = found.to_table().to_pandas().set_index(["u", "d"]).val
    pd.testing.assert_series_equal(back, sums[sums != 0], check_names=False)
    assert found.labels[0].tolist() == sorted(set(df.u))
    for table in (pl.from_pandas(df), pa.Table.from_pandas(df)):
        again = tr.from_table(table, keys=["u", "d"], value="v")
        assert again.labels[0].tolist() == found.labels[0].tolist()
        assert bool((again == found).all())


def test_duplicates() -> None:
    table = {"k": ["a", "b", "a"], "v": [1.0, 2.0, 5.0]}
    assert tr.from_table(table, keys="k", value="v").tolist() == [6.0, 2.0]
    assert tr.from_table(table, keys="k", value="v", duplicates="last").tolist() == [5.0, 2.0]
    with pytest.raises(tr.errors.StorageError, match="more than once"):
        tr.from_table(table, keys="k", value="v", duplicates="error")


def test_values() -> None:
    table = {"k": ["a", "b", "a"], "v": [1.0, 2.0, 5.0], "n": [1, 1, 4]}
    both = tr.from_table(table, keys=["k"], value=["v", "n"])
    assert {n: t.tolist() for n, t in both.items()} == {"v": [6.0, 2.0], "n": [5, 1]}
    assert (both["v"] / both["n"]).tolist() == [1.2, 2.0]
    assert tr.from_table(table, keys=["k"]).tolist() == [2, 1]


def test_null_values_are_no_entries_and_their_keys_stay() -> None:
    table = pa.table({"k": ["a", "b"], "v": pa.array([None, 2.0])})
    found = tr.from_table(table, keys=["k"], value="v")
    assert found.labels[0].tolist() == ["a", "b"]
    assert found.nnz == 1
    nan = tr.from_table(pa.table({"k": ["a"], "v": [float("nan")]}), keys=["k"], value="v")
    assert np.isnan(nan.item())  # Arrow tells nan from null


def test_null_keys_are_left_out_with_a_warning() -> None:
    table = {"a": ["x", None, "y"], "b": [1.0, 2.0, np.nan], "v": [1, 2, 3]}
    with pytest.warns(tr.errors.NullKeyWarning, match=r"2 of 3 rows .* \(a, b is null\)"):
        found = tr.from_table(table, keys=["a", "b"], value="v")
    assert found.labels[0].tolist() == ["x"] and found.labels[1].tolist() == [1.0]


def test_time_zones_come_back() -> None:
    times = pd.to_datetime(["2024-07-01 12:00", "2024-01-01 12:00"]).tz_localize("Europe/Berlin")
    found = tr.from_table(pd.DataFrame({"t": times, "v": [1, 2]}), keys=["t"], value="v")
    assert found.labels[0].astype("M8[h]").tolist() == [
        dt.datetime(2024, 1, 1, 11), dt.datetime(2024, 7, 1, 10)]
    assert found.to_table().schema.field("t").type.tz == "Europe/Berlin"


def test_parquet_reads_what_is_asked_for(tmp_path: Any) -> None:
    from tensorel.io.tables.sources import open_table

    path = tmp_path / "days.parquet"
    pq.write_table(pa.table({"day": np.arange(1000), "v": np.ones(1000), "x": ["-"] * 1000}), path,
                   row_group_size=100)
    found = tr.from_table(path, keys=["day"], value="v", ranges={"day": (250, 310)})
    assert (found.labels[0][0], found.labels[0][-1], found.nnz) == (250, 310, 61)
    source = open_table(path)
    assert source.read(["v"], {"day": (250, 310)}).rows == 200
    assert (source.groups_read, source.groups) == (2, 10)


@pytest.mark.parametrize("column", ["text", "day", "number"])
def test_ranges(column: str) -> None:
    df = pd.DataFrame({"text": list("abcde"), "day": pd.date_range("2024-01-01", periods=5),
                       "number": range(5), "v": range(1, 6)})
    low, high = df[column][1], df[column][3]
    for table in (df, pl.from_pandas(df), pa.Table.from_pandas(df)):
        found = tr.from_table(table, keys=["text"], value="v", ranges={column: (low, high)})
        assert found.labels[0].tolist() == ["b", "c", "d"]
    found = tr.from_table(df, keys=["text"], value="v", ranges={column: (None, high)})
    assert found.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(("table", "error", "text"), [
    ({"k": [1], "v": [1]}, KeyError, "no column 'w'"),
    (pa.table({"k": [1], "w": pa.array([1], pa.decimal128(5, 2))}), NotImplementedError,
     "column 'w' is a decimal"),
    (pa.table({"k": [1], "w": ["x"]}), NotImplementedError, "the value column 'w' holds texts"),
    (pa.table({"k": [b"x"], "w": [1]}), NotImplementedError, "column 'k' is binary"),
    (pa.table({"k": [[1]], "w": [1]}), NotImplementedError, "column 'k' is a nested type"),
    ({"k": [1j], "w": [1]}, NotImplementedError, "complex"),
    ({"k": [object()], "w": [1]}, NotImplementedError, "objects of type object"),
    ({"k": [1, 2], "w": [1]}, ValueError, "different lengths"),
    (3, TypeError, "int is no table"),
])
def test_what_is_refused(table: Any, error: type, text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        tr.from_table(table, keys=["k"], value="w")
    assert isinstance(caught.value, tr.errors.TensorelError)


@pytest.mark.parametrize(("arguments", "text"), [
    ({"keys": 0}, "keys is 0"), ({"keys": ["k", 1]}, "keys is"), ({"value": 3}, "value is 3"),
    ({"ranges": {"k": 3}}, "ranges is"), ({"ranges": [("k", 1)]}, "ranges is"),
])
def test_arguments_that_name_no_columns(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(tr.errors.TypeError_, match=text):
        tr.from_table({"k": [1], "w": [2]}, **{"keys": "k", "value": "w"} | arguments)


@pytest.mark.parametrize("bounds", [False, True])
@pytest.mark.parametrize("longest", [5, 40])
def test_many_different_texts(longest: int, bounds: bool) -> None:
    """Hash tables grow, and threads have tables of their own."""
    rng = np.random.default_rng(longest)
    letters = rng.integers(97, 123, (120_000, longest)).astype(np.uint8)
    words = np.array([row[:k].tobytes().decode() for row, k in zip(
        letters, rng.integers(0, longest + 1, len(letters)))], object)
    keys = words[rng.integers(0, len(words), 300_000)]
    ordered = sorted(set(keys.tolist()))
    with tr.options(bounds=bounds):
        for table in (pa.table({"k": keys}), pl.DataFrame({"k": keys.tolist()})):
            found = tr.from_table(table, keys=["k"])
            assert found.labels[0].tolist() == ordered
            assert found.sum().item() == len(keys)
            assert found.loc[keys[7]].item() == (keys == keys[7]).sum()
