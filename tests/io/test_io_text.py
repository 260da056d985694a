"""Matrix Market and FROSTT text: numbers to the bit, kinds against SciPy, malformed files."""

from __future__ import annotations

import gzip
import io
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tensorel import config
from tensorel.errors import MemoryLimitError, StorageError
from tensorel.io.files import read, write
from tensorel.io.text import mtx as mtx_module
from tensorel.io.text import reader as text_module
from tensorel.io.text.writer import write_entries
from tensorel.storage.convert import from_coo, from_dense, to_dense, to_format

FIELDS = ("real", "double", "integer", "unsigned-integer", "complex", "pattern")
SYMMETRIES = ("general", "symmetric", "skew-symmetric", "hermitian")
quick = settings(max_examples=60, deadline=None,
                 suppress_health_check=[HealthCheck.function_scoped_fixture])


def numbers(tmp_path: Path, tokens: list[str], field: str = "real") -> np.ndarray:
    path = tmp_path / "numbers.mtx"
    head = f"%%MatrixMarket matrix array {field} general\n{len(tokens)} 1\n"
    path.write_text(head + "\n".join(tokens) + "\n")
    return to_dense(read(path)).reshape(-1)


def check_tokens(tmp_path: Path, tokens: list[str]) -> None:
    found = numbers(tmp_path, tokens)
    expected = np.array([float(t) for t in tokens])
    nan = np.isnan(expected)
    assert np.array_equal(np.isnan(found), nan)
    wrong = (found.view(np.uint64) != expected.view(np.uint64)) & ~nan
    assert not wrong.any(), [(tokens[k], found[k]) for k in np.flatnonzero(wrong)[:5]]


# -- numbers -----------------------------------------------------------------------------------
def test_numbers_of_all_sizes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    floats = rng.integers(0, 2**64, 20_000, dtype=np.uint64).view(np.float64)
    plain = rng.standard_normal(5000) * 10.0 ** rng.integers(-8, 20, 5000)
    tokens = [repr(float(x)) for x in floats]
    for style in ("%.17g", "%.16e", "%.25e", "%g", "%.3E"):
        tokens += [style % x for x in floats[:4000]]
    for style in ("%.2f", "%.9f", "%+.4f", "%021.3f"):
        tokens += [style % x for x in plain]
    check_tokens(tmp_path, tokens)


def test_numbers_near_ties(tmp_path: Path) -> None:
    draw = random.Random(0)
    tokens = []
    for _ in range(10_000):
        odd = draw.randrange(2**52, 2**53) * 2 + 1
        exact = str(odd * 2 ** draw.randrange(0, 9))
        tokens += [exact, str(int(exact) - 1), str(int(exact) + 1), f"{exact}.0", f"{exact}e-3"]
        tokens.append(f"{draw.randrange(10 ** draw.randrange(1, 20))}e{draw.randrange(-345, 312)}")
    check_tokens(tmp_path, tokens)


def test_numbers_at_the_edges(tmp_path: Path) -> None:
    check_tokens(tmp_path, [
        "0", "-0", "+0.0", "-0.0e10", "0e999", "00000000000000000000001.5", ".5", "5.", "-.5e1",
        "0.00000000000000000000000000000000000000000001", "1e400", "-1e400", "1e-400", "4.9e-324",
        "2.4703282292062327e-324", "2.4703282292062328e-324", "2.2250738585072014e-308",
        "2.2250738585072011e-308", "1.7976931348623157e308", "1.7976931348623159e308", "inf",
        "-inf", "Infinity", "nan", "NaN", "9007199254740993", "9007199254740992.999999999",
        "18446744073709551615", "18446744073709551616", "9999999999999999999", "1e22", "1e23",
        "8.98846567431158e307", "1E5", "1e+05", "1e-05", "123456789012345678901234567890",
        "1e00000000000000000005", "0.1e1",
    ])


@given(st.lists(st.floats(), min_size=1, max_size=40))
@quick
def test_any_float_reads_as_python_reads_it(tmp_path: Path, values: list[float]) -> None:
    check_tokens(tmp_path, [repr(v) for v in values])


@given(st.lists(st.from_regex(r"[+-]?([0-9]{1,25}(\.[0-9]{0,25})?|\.[0-9]{1,25})([eE][+-]?[0-9]{1,4})?",
                              fullmatch=True), min_size=1, max_size=30))
@quick
def test_any_decimal_reads_as_python_reads_it(tmp_path: Path, tokens: list[str]) -> None:
    check_tokens(tmp_path, tokens)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=30))
@quick
def test_integers(tmp_path: Path, values: list[int]) -> None:
    assert numbers(tmp_path, [str(v) for v in values], "integer").tolist() == values
    unsigned = [v % 2**64 for v in values]
    assert numbers(tmp_path, [str(v) for v in unsigned], "unsigned-integer").tolist() == unsigned


@pytest.mark.parametrize(
    "token",
    ["x", "1x", "1.5.5", "1e", "1e+", "--1", "1_0", "0x10", "1,5", "e5", ".", "+", "1d5", "١"],
)
def test_what_is_no_number(tmp_path: Path, token: str) -> None:
    with pytest.raises(StorageError, match="line 4"):
        numbers(tmp_path, ["1", token, "2"])


@pytest.mark.parametrize("token", ["1.5", "9223372036854775808", "-9223372036854775809", "1e3"])
def test_what_is_no_integer(tmp_path: Path, token: str) -> None:
    with pytest.raises(StorageError, match=r"line 3: .* is not a whole number"):
        numbers(tmp_path, [token], "integer")
    with pytest.raises(StorageError, match=r"line 3: .* is not a non-negative"):
        numbers(tmp_path, ["-1"], "unsigned-integer")


def written(values: np.ndarray) -> list[str]:
    stream = io.BytesIO()
    write_entries(stream, (), values)
    return stream.getvalue().decode().split("\n")[:-1]


def shortest(text: str) -> int:
    return len(text.lower().split("e")[0].strip("-").replace(".", "").strip("0"))


def test_written_floats_are_shortest_and_exact() -> None:
    rng = np.random.default_rng(1)
    values = np.concatenate([
        rng.integers(0, 2**64, 30_000, dtype=np.uint64).view(np.float64),
        rng.standard_normal(10_000), np.round(rng.standard_normal(1000), 3),
        np.arange(-60, 60) / 8, 10.0 ** np.arange(-323, 309), 2.0 ** np.arange(-1074, 1024),
        np.array([0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 1.7976931348623157e308, 1e22, 1e23]),
    ])
    texts = written(values)
    back = np.array([float(t) for t in texts])
    assert np.array_equal(np.isnan(back), np.isnan(values))
    good = ~np.isnan(values)
    assert np.array_equal(back[good].view(np.uint64), values[good].view(np.uint64))
    assert max(map(len, texts)) <= 25
    for text, value in zip(texts, values.tolist()):
        if np.isfinite(value):
            assert shortest(text) == shortest(repr(value)), (text, value)


def test_written_text_is_for_people() -> None:
    values = [1.0, 0.1, -2.5, 1e-4, 1e-5, 1e16, 1e17, 1.5e300, 0.0, 100.0, 123456.789]
    assert written(np.array(values)) == [
        "1", "0.1", "-2.5", "0.0001", "1e-5", "10000000000000000", "1e17", "1.5e300", "0", "100",
        "123456.789",
    ]
    assert written(np.array([-(2**63), 7])) == ["-9223372036854775808", "7"]
    assert written(np.array([2**64 - 1], np.uint64)) == ["18446744073709551615"]
    assert written(np.array([1 + 2j, -0.5j])) == ["1 2", "-0 -0.5"]


# -- Matrix Market -----------------------------------------------------------------------------
def token(rng: np.random.Generator, field: str) -> str:
    if field == "pattern":
        return ""
    if field in ("integer", "unsigned-integer"):
        return str(rng.integers(1 if field[0] == "u" else -9, 10))
    part = " ".join(f"{v:.6g}" for v in rng.standard_normal(2 if field == "complex" else 1))
    return part


def coordinate_text(rng: np.random.Generator, field: str, symmetry: str, n: int) -> str:
    lines = []
    for i in range(1, n + 1):
        for j in range(1, n + 1):
            lower = i > j or (i == j and symmetry != "skew-symmetric")
            if (symmetry == "general" or lower) and rng.random() < 0.5:
                value = token(rng, field)
                if symmetry == "hermitian" and i == j:
                    value = value.split()[0] + " 0"
                lines.append(f"{i} {j} {value}")
    rng.shuffle(lines)
    head = f"%%MatrixMarket matrix coordinate {field} {symmetry}\n%comment\n{n} {n} {len(lines)}\n"
    return head + "\n".join(lines) + "\n"


def allowed(field: str, symmetry: str) -> bool:
    if symmetry == "hermitian":
        return field == "complex"
    return symmetry != "skew-symmetric" or field not in ("pattern", "unsigned-integer")


@pytest.mark.parametrize("many", [0, 1 << 18])
@pytest.mark.parametrize("symmetry", SYMMETRIES)
@pytest.mark.parametrize("field", FIELDS)
def test_coordinate_kinds_as_scipy(
    tmp_path: Path, field: str, symmetry: str, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scipy_io = pytest.importorskip("scipy.io")
    monkeypatch.setattr(mtx_module, "MIN_THREADED_ENTRIES", many)
    rng = np.random.default_rng(2)
    path = tmp_path / "a.mtx"
    if not allowed(field, symmetry):
        path.write_text(f"%%MatrixMarket matrix coordinate {field} {symmetry}\n1 1 0\n")
        with pytest.raises(StorageError, match="line 1"):
            read(path)
        return
    for n in (1, 3, 8):
        path.write_text(coordinate_text(rng, field, symmetry, n))
        stored = read(path)
        expected = scipy_io.mmread(path)
        assert stored.format.name == "csr"
        assert stored.dtype == expected.dtype
        assert np.array_equal(to_dense(stored), expected.toarray())
        for name in ("csc", "coo", "dense"):
            assert np.array_equal(to_dense(read(path, name)), expected.toarray())


@pytest.mark.parametrize("symmetry", SYMMETRIES)
@pytest.mark.parametrize("field", FIELDS[:-1])
def test_array_kinds_as_scipy(tmp_path: Path, field: str, symmetry: str) -> None:
    scipy_io = pytest.importorskip("scipy.io")
    if not allowed(field, symmetry):
        return
    rng, n, path = np.random.default_rng(3), 5, tmp_path / "a.mtx"
    m = 4 if symmetry == "general" else n
    count = {"general": m * n, "skew-symmetric": n * (n - 1) // 2}.get(symmetry, n * (n + 1) // 2)
    lines = [token(rng, field) for _ in range(count)]
    head = f"%%MatrixMarket matrix array {field} {symmetry}\n{m} {n}\n"
    path.write_text(head + "\n".join(lines) + "\n")
    stored, expected = read(path), scipy_io.mmread(path)
    assert stored.format.name == "dense"
    assert stored.dtype == expected.dtype
    assert np.array_equal(to_dense(stored), expected)


MESSY = """%%matrixmarket  MATRIX Coordinate Real General
% first comment

%second
  3\t4   5 \r
1 1 1.5\r
 \t2 2\t-2.25e-3

% in between
   3 4 1e3
3 1 +7
1\t4   .5"""


def test_layout_is_free(tmp_path: Path) -> None:
    expected = np.zeros((3, 4))
    expected[[0, 1, 2, 2, 0], [0, 1, 3, 0, 3]] = 1.5, -2.25e-3, 1e3, 7, 0.5
    variants = [MESSY, MESSY + "\n", MESSY + "\n\n  \n% end\n", MESSY.replace("\n", "\r\n")]
    for k, content in enumerate(variants):
        (tmp_path / f"{k}.mtx").write_bytes(content.encode())
        (tmp_path / f"{k}.mtx.gz").write_bytes(gzip.compress(content.encode()))
        assert np.array_equal(to_dense(read(tmp_path / f"{k}.mtx")), expected)
        assert np.array_equal(to_dense(read(tmp_path / f"{k}.mtx.gz")), expected)


def mtx(path: Path, body: str, head: str = "coordinate real general") -> Path:
    path.write_text(f"%%MatrixMarket matrix {head}\n{body}")
    return path


@pytest.mark.parametrize(
    ("body", "line", "reason"),
    [
        ("2 2 2\n1 1 5\n", 3, "1 of 2 entries"),
        ("2 2 1\n1 1 5\n\n2 2 6\n", 5, "more entries than the 1"),
        ("2 2 1\n3 1 5\n", 3, "outside 1 to 2"),
        ("2 2 1\n1 0 5\n", 3, "index 2 of 2 is '0'"),
        ("2 2 1\n1 -1 5\n", 3, "is not a whole number"),
        ("2 2 1\n1 1\n", 3, "value is missing"),
        ("2 2 1\n1\n", 3, "index 2 of 2: is missing"),
        ("2 2 1\n1 1 abc\n", 3, "'abc' is not a number"),
        ("2 2 1\n1 1 5 6\n", 3, "unexpected text after the entry: '6'"),
        ("2 2 1\n1.0 1 5\n", 3, "is not a whole number"),
        ("2 2 1\n99999999999999999999 1 5\n", 3, "is not a whole number"),
        ("2 2\n", 2, "rows, columns and entries"),
        ("2 -2 1\n", 2, "rows, columns and entries"),
        ("", 2, "ends before the line with the sizes"),
        ("2 2 999999999999\n1 1 5\n", 2, "too short"),
        ("2 2 99999999999999999999\n1 1 5\n", 2, "rows, columns"),
    ],
)
def test_malformed_coordinates(tmp_path: Path, body: str, line: int, reason: str) -> None:
    with pytest.raises(StorageError) as caught:
        read(mtx(tmp_path / "a.mtx", body))
    assert f"a.mtx, line {line}: " in str(caught.value) and reason in str(caught.value)


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("array pattern general", "1 1\n"), ("array real hermitian", "1 1\n1\n"),
        ("coordinate real symmetric", "2 3 0\n"), ("coordinate quaternion general", "1 1 0\n"),
        ("sparse real general", "1 1 0\n"), ("coordinate real odd", "1 1 0\n"),
        ("coordinate real", "1 1 0\n"), ("coordinate real skew-symmetric", "2 2 1\n1 1 5\n"),
        ("array real general", "2 2\n1\n2\n3\n"), ("array real general", "1 1\n1\n2\n"),
    ],
)
def test_malformed_headers(tmp_path: Path, head: str, body: str) -> None:
    with pytest.raises(StorageError, match=r"a\.mtx"):
        read(mtx(tmp_path / "a.mtx", body, head))


def test_line_numbers_in_later_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_module, "BLOCK_BYTES", 1 << 10)
    rows = [f"{k + 1} {k + 1} {k}.5" for k in range(2000)]
    good = mtx(tmp_path / "a.mtx", "2000 2000 2000\n" + "\n".join(rows) + "\n")
    assert np.array_equal(read(good).arrays["val"], np.arange(2000) + 0.5)
    for bad, reason in (("7 x 5", "is not a whole number"), ("7 7 x", "is not a number")):
        rows[1500] = bad
        with pytest.raises(StorageError, match=f"line 1503: .*{reason}"):
            read(mtx(tmp_path / "b.mtx", "2000 2000 2000\n" + "\n".join(rows) + "\n"))
    rows[1500] = "1501 1501 " + "1" * 5000  # longer than a block
    long = mtx(tmp_path / "c.mtx", "2000 2000 2000\n" + "\n".join(rows) + "\n")
    with config.options(threads=1):
        assert read(long).count == 2000
    rows[1500] = "%" + "x" * 5000 + "\n\n1501 1501 1"
    assert read(mtx(tmp_path / "d.mtx", "2000 2000 2000\n" + "\n".join(rows))).count == 2000


def test_duplicates_are_added_in_order(tmp_path: Path) -> None:
    body = "2 3 5\n2 3 0.1\n1 1 1\n2 3 0.2\n1 1 1\n2 3 0.3\n"
    for name in ("csr", "csc", "coo", "dense"):
        dense = to_dense(read(mtx(tmp_path / "a.mtx", body), name))
        assert dense[0, 0] == 2 and dense[1, 2] == pytest.approx(0.1 + 0.2 + 0.3, rel=1e-15)
        assert dense[1, 2] == 0.1 + 0.2 + 0.3 or name not in ("csr", "csc")


def test_large_extents_stay_sparse(tmp_path: Path) -> None:
    body = "3000000000 5000000000 2\n3000000000 5000000000 2\n1 1 1\n"
    stored = read(mtx(tmp_path / "a.mtx", body), "coo")
    assert [c.tolist() for n, c in stored.arrays.items() if n != "val"] == [
        [0, 2_999_999_999], [0, 4_999_999_999]]
    with config.options(memory="1GB"), pytest.raises(MemoryLimitError):
        read(mtx(tmp_path / "a.mtx", body), "csr")
    with config.options(memory="1GB"), pytest.raises(MemoryLimitError):
        read(mtx(tmp_path / "a.mtx", "100000 100000\n", "array real general"))


def test_gzip_damage(tmp_path: Path) -> None:
    content = gzip.compress(MESSY.encode())
    path = tmp_path / "a.mtx.gz"
    for bad in (content[:-9], content[:20], content[:10] + b"xxxx" + content[14:], b"\x1f\x8b"):
        path.write_bytes(bad)
        with pytest.raises(StorageError, match=r"a\.mtx\.gz"):
            read(path)


@pytest.mark.parametrize("suffix", [".mtx", ".mtx.gz", ".tns"])
def test_random_damage(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    write(path, to_format(from_dense(np.diag(np.arange(1.0, 9))), "coo"))
    good, rng = path.read_bytes(), np.random.default_rng(5)
    with config.options(memory="1GB"):
        for _ in range(300):
            bad = bytearray(good[: int(rng.integers(1, len(good) + 1))])
            for at in rng.integers(0, len(bad), int(rng.integers(0, 4))):
                bad[at] = int(rng.choice(np.frombuffer(b"0123456789.-eE% \n\r\x00\xff#x", "u1")))
            path.write_bytes(bad)
            try:
                read(path)
            except (StorageError, MemoryLimitError) as error:
                assert path.name in str(error)


DTYPES = ("float64", "float32", "int64", "int8", "uint64", "complex128", "complex64", "bool")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("suffix", [".mtx", ".mtx.gz"])
def test_mtx_round_trip(tmp_path: Path, suffix: str, dtype: str) -> None:
    rng = np.random.default_rng(6)
    for shape in ((7, 5), (0, 3), (3, 0), (1, 1)):
        dense = np.where(rng.random(shape) < 0.5, 100 * rng.standard_normal(shape), 0)
        if dtype.startswith("u") or dtype == "bool":
            dense = abs(dense)
        values = dense.astype(dtype) * np.asarray(1 - 3j if "complex" in dtype else 1, dtype)
        for name in ("csr", "csc", "dense", "dense_f"):
            path = tmp_path / f"a{suffix}"
            write(path, to_format(from_dense(values), name))
            back = to_dense(read(path)).astype(dtype)
            assert back.tobytes() == values.tobytes(), (name, shape)


def test_scipy_reads_what_we_write(tmp_path: Path) -> None:
    scipy_io = pytest.importorskip("scipy.io")
    dense = np.random.default_rng(7).standard_normal((6, 4)) * 1e-7
    for name in ("csr", "dense"):
        for values in (dense, dense * 1j, (dense * 1e9).astype(int)):
            write(tmp_path / "a.mtx", to_format(from_dense(values), name))
            back = scipy_io.mmread(tmp_path / "a.mtx")
            assert np.array_equal(back.toarray() if name == "csr" else back, values)


def test_what_text_cannot_hold_is_refused(tmp_path: Path) -> None:
    for stored, name in (
        (from_dense(np.ones((2, 2, 2))), "a.mtx"), (from_dense(np.float64(1)), "a.tns"),
        (from_coo([[0], [0]], [1.0], (2, 2), fill=2.0), "a.mtx"),
        (from_coo([[0], [0]], [1.0], (2, 2), fill=2.0), "a.tns"),
        (from_dense(np.ones(2) * 1j), "a.tns"),
    ):
        with pytest.raises(StorageError, match=name.replace(".", r"\.")):
            write(tmp_path / name, stored)


# -- FROSTT ------------------------------------------------------------------------------------
def test_tns(tmp_path: Path) -> None:
    path = tmp_path / "a.tns"
    path.write_text("# a comment\n\n1 2 3 1.5\n 4 1 1\t-2 \r\n#x\n2 2 2 1e-3\n1 2 3 1\n")
    stored = read(path)
    assert stored.shape == (4, 2, 3) and stored.format.name == "coo"
    dense = to_dense(stored)
    assert dense[0, 1, 2] == 2.5 and dense[3, 0, 0] == -2 and dense[1, 1, 1] == 1e-3
    assert read(path, shape=(5, 5, 5), format="csf").shape == (5, 5, 5)
    with pytest.raises(StorageError, match="line 4: index 1 of 3 is '4', outside 1 to 3"):
        read(path, shape=(3, 3, 3))
    with pytest.raises(StorageError, match="3 coordinates"):
        read(path, shape=(5, 5))


def test_tns_of_any_rank_and_size(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    for rank in range(1, 9):
        shape = (10**6,) * rank if rank != 3 else (2**40, 3, 2**31)
        coords = [rng.integers(0, n, 50) for n in shape]
        stored = from_coo(coords, rng.standard_normal(50), shape, duplicates="last")
        for suffix in (".tns", ".tns.gz"):
            write(tmp_path / f"a{suffix}", stored)
            back = read(tmp_path / f"a{suffix}")
            assert back.shape == shape
            for key, array in stored.arrays.items():
                assert back.arrays[key].tobytes() == array.tobytes()


def test_tns_without_entries(tmp_path: Path) -> None:
    path = tmp_path / "a.tns"
    path.write_text("# nothing\n")
    with pytest.raises(StorageError, match="shape is unknown"):
        read(path)
    assert read(path, shape=(2, 0, 3)).shape == (2, 0, 3)
    write(path, from_coo([[], []], np.empty(0), (2, 3)))
    assert read(path).shape == (2, 3)


@pytest.mark.parametrize(
    ("content", "line"),
    [("1 1 1\n1 1\n", 2), ("1 1 1\n1 1 1 1\n", 2), ("1 1 1\n0 1 1\n", 2), ("5\n", 1),
     ("1 1 1\n1 1 z\n", 2), ("1 " * 80 + "\n", 1)],
)
def test_malformed_tns(tmp_path: Path, content: str, line: int) -> None:
    (tmp_path / "a.tns").write_text(content)
    with pytest.raises(StorageError, match=rf"a\.tns, line {line}: "):
        read(tmp_path / "a.tns")
