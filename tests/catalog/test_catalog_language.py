"""CREATE statements and queries of databases."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from catalog_support import state_of

import tensorel as tr

#: Mappings of the STOREL paper, section 4 (the triangle's place corrected), and a view.
MAPPINGS = {
    "rows": """CREATE int SCALAR M, N; CREATE ARRAY V(M*N);
        CREATE TENSOR C AS sum (<i,> in 0:M, <j,> in 0:N) { (i,j) -> V(i*N+j) };""",
    "dcsr": """CREATE int ARRAY C_pos1(2);
        CREATE int ARRAY C_idx1(C_pos1(1));
        CREATE int ARRAY C_pos2(C_pos1(1)+1);
        CREATE int ARRAY C_idx2(C_pos2(C_pos1(1)));
        CREATE real ARRAY C_val(C_pos2(C_pos1(1)));
        CREATE TENSOR C(4, 4) AS
          sum (<i_pos, i> in C_idx1)
            let j_start = C_pos2(i_pos),
                j_end = C_pos2(i_pos+1)
            in sum (<j_pos, j> in C_idx2(j_start:j_end))
              { (i,j) -> C_val(j_pos) }""",
    "csr": """CREATE int SCALAR n; CREATE int ARRAY pos(n+1);
        CREATE int ARRAY idx(pos(n)); CREATE real ARRAY val(pos(n));
        CREATE TENSOR C(n, n) AS sum(<i,_> in 0:n, <p, j> in idx(pos(i):pos(i+1)))
          { (i,j) -> val(p) }""",
    "dok": """CREATE real HASHMAP H(4,4);
        CREATE TENSOR C AS sum (<<i,j>,v> in H) { (i,j) -> v };""",
    "trie": """CREATE real TRIE T(4)(4);
        CREATE TENSOR C AS sum (<i,row> in T, <j,v> in row) { (i,j) -> v };""",
    "zorder": """CREATE real ARRAY C_val(16);
        CREATE TENSOR C AS sum (<d,v> in C_val)
            let i = even_bits(d), j = odd_bits(d) in { (i,j) -> v }""",
}
DENSE = np.asarray([[0, 1, 0, 2], [0, 0, 0, 0], [3, 0, 0, 0], [0, 0, 4, 5.0]])
VIEW = """CREATE real HASHMAP A(4,4); CREATE real ARRAY x(4);
    CREATE TENSOR y AS sum(<(i,j),a> in A) { i -> a * x(j) }"""


_VAL = [1.0, 2, 3, 4, 5]
VALUES: dict[str, dict[str, object]] = {
    "rows": {"M": 4, "N": 4, "V": DENSE.reshape(-1)},
    "dcsr": {"C_pos1": [0, 3], "C_idx1": [0, 2, 3], "C_pos2": [0, 2, 3, 5],
             "C_idx2": [1, 3, 0, 2, 3], "C_val": _VAL},
    "csr": {"n": 4, "pos": [0, 2, 2, 3, 5], "idx": [1, 3, 0, 2, 3], "val": _VAL},
    "dok": {"H": DENSE},
    "trie": {"T": DENSE},
    "zorder": {"C_val": DENSE.reshape(2, 2, 2, 2).transpose(2, 0, 3, 1).reshape(-1)},
}


@pytest.mark.parametrize("kind", MAPPINGS)
def test_tensors_follow_from_their_values(tmp_path: Path, kind: str) -> None:
    with tr.connect(tmp_path / "db") as db:
        db.execute(MAPPINGS[kind])
        assert "C" not in db and len(db) == 0
        with pytest.raises(KeyError, match="declared"):
            db["C"]
        for name, value in VALUES[kind].items():
            assert "C" not in db
            db[name] = value  # type: ignore[assignment]
        before = dict(state_of(tmp_path / "db").declared)
    with tr.connect(tmp_path / "db") as db:
        assert state_of(tmp_path / "db").declared == before and "C" in db and "C" in list(db)
        np.testing.assert_array_equal(db["C"].to_numpy(), DENSE)
        np.testing.assert_array_equal(db.tensors()["C"].to_numpy(), DENSE)
        assert db["C"] is db["C"], "made once"
        found = db.query("sum(<(i,j), c> in C, <j, x> in X) { i -> c * x }", X=[1.0, 2, 3, 4])
        np.testing.assert_array_equal(found.to_numpy(), DENSE @ [1, 2, 3, 4])
        found = db.query("sum(<(i,j), a> in C, <(j,k), b> in C) a * b")
        assert found.item() == (DENSE @ DENSE).sum()
        db.verify()


@pytest.mark.parametrize("kind", MAPPINGS)
def test_tensors_are_packed_and_read(tmp_path: Path, kind: str) -> None:
    with tr.connect(tmp_path / "db") as db:
        db.execute(MAPPINGS[kind])
        assert "C" not in db and len(db) == 0
        with pytest.raises(KeyError, match="declared"):
            db["C"]
        db["C"] = tr.tensor(DENSE, format="csr")
        before = dict(state_of(tmp_path / "db").declared)
    with tr.connect(tmp_path / "db") as db:
        assert state_of(tmp_path / "db").declared == before and "C" in db and "C" in list(db)
        np.testing.assert_array_equal(db["C"].to_numpy(), DENSE)
        np.testing.assert_array_equal(db.tensors()["C"].to_numpy(), DENSE)
        assert db["C"].stored is db["C"].stored, "made once"
        found = db.query("sum(<(i,j), c> in C, <j, x> in X) { i -> c * x }", X=[1.0, 2, 3, 4])
        np.testing.assert_array_equal(found.to_numpy(), DENSE @ [1, 2, 3, 4])
        found = db.query("sum(<(i,j), a> in C, <(j,k), b> in C) a * b")
        assert found.item() == (DENSE @ DENSE).sum()
        db["C"] = DENSE * 2
        np.testing.assert_array_equal(db["C"].to_numpy(), DENSE * 2)
        db.verify()


def test_arrays_are_filled_by_hand() -> None:
    db = tr.connect()
    db.execute(MAPPINGS["csr"])
    db["n"] = 3
    db["pos"] = [0, 1, 1, 3]
    assert "C" not in db
    db.update(idx=[2, 0, 1], val=[1, 2, 3])
    assert db["val"].dtype == np.float64
    np.testing.assert_array_equal(db["C"].to_numpy(), [[0, 0, 1], [0, 0, 0], [2, 3, 0]])
    db["val"] = [4, 5, 6]
    assert db["C"].sum().item() == 15


def test_declared_values_are_checked() -> None:
    db = tr.connect()
    db.execute(MAPPINGS["csr"] + "; CREATE real HASHMAP H(n, 2*n)")
    with pytest.raises(tr.errors.TypeError_, match="'n' holds int values"):
        db["n"] = 2.5
    with pytest.raises(tr.errors.ShapeError, match=r"'n' has shape \(\); this tensor has \(1,\)"):
        db["n"] = [3]
    db["pos"] = [0, 0]  # n is not known yet
    db["n"] = 3
    with pytest.raises(tr.errors.ShapeError, match=r"\(4\); this tensor has \(2,\)\n.*CREATE int"):
        db["pos"] = [0, 0]
    with pytest.raises(tr.errors.TypeError_, match="complex"):
        db["val"] = [1j]
    with pytest.raises(tr.errors.ShapeError, match=r"\(3, 6\)"):
        db["H"] = np.eye(3)
    db["H"] = np.eye(3, 6, dtype=int)
    assert db["H"].format == "dok" and db["H"].dtype == np.float64
    assert db["pos"].tolist() == [0, 0], "what was refused changed nothing"


def test_views() -> None:
    db = tr.connect()
    db.execute(VIEW)
    db["A"], db["x"] = DENSE, [1, 2, 3, 4]
    np.testing.assert_array_equal(db["y"].to_numpy(), DENSE @ [1, 2, 3, 4])
    db["x"] = [1, 1, 1, 1]
    np.testing.assert_array_equal(db["y"].to_numpy(), DENSE.sum(1))
    np.testing.assert_array_equal(db.query("sum(<i, v> in y) { i -> 2 * v }").to_numpy(),
                                  2 * DENSE.sum(1))
    with pytest.raises(tr.errors.UnsupportedError, match="view"):
        db["y"] = [1, 2, 3, 4]
    db.execute("CREATE TENSOR z AS sum(<i, v> in y) v")
    assert db["z"].item() == DENSE.sum()


def test_scripts(tmp_path: Path) -> None:
    with tr.connect(tmp_path / "db") as db:
        assert db.execute("CREATE real ARRAY V(3)") is None
        db["V"] = [1, 2, 3]
        found = db.execute("CREATE int SCALAR k; sum(<i, v> in V) v")
        assert found is not None and found.item() == 6 and found.shape == ()
        assert db.execute("CREATE REAL array V( 3 );") is None, "the same again is fine"
        with pytest.raises(tr.errors.StorageError, match="there already: CREATE real ARRAY"):
            db.execute("CREATE int SCALAR fresh; CREATE real ARRAY V(4)")
        assert "fresh" not in state_of(tmp_path / "db").declared, "all statements or none"
        with pytest.raises(tr.errors.StorageError, match="there already"):
            db["plain"] = [1]
            db.execute("CREATE TENSOR plain AS sum(<i, v> in V) { i -> v }")
        db.execute("CREATE int ARRAY plain(1)")
        with pytest.raises(tr.errors.ShapeError):
            db["other"] = [1]
            db.execute("CREATE int ARRAY other(2)")
        with pytest.raises(tr.errors.KeyError_, match="'k' is declared and has no value yet"):
            db.query("k + 1")
        with pytest.raises(tr.errors.ParseError, match="nothing"):
            db.query("nothing + 1")
        with pytest.raises(tr.errors.ParseError):
            db.execute("CREATE NONSENSE x")
        for bad in (None, 3, b"x"):
            with pytest.raises(tr.errors.TypeError_):
                db.query(bad)  # type: ignore[arg-type]
        del db["V"]
        db.execute("CREATE real ARRAY V(4)")
        assert "CREATE real ARRAY V(4)" in repr(db)
        with pytest.raises(RuntimeError), db.transaction():
            db.execute("CREATE int SCALAR q")
            raise RuntimeError
        assert "q" not in state_of(tmp_path / "db").declared


def test_queries_see_one_database(tmp_path: Path) -> None:
    with tr.connect(tmp_path / "db") as db:
        db["A"] = tr.tensor(DENSE, format="csr")
        db["not a name of the language"] = [1]
        first = db.query("sum(<(i,j), a> in A) a")
        db["A"] = DENSE * 2
        assert first.item() == DENSE.sum(), "a lazy result keeps its tensors"
        assert db.query("sum(<(i,j), a> in A) a").item() == 2 * DENSE.sum()
        assert db.query("sum(<i, x> in A) x", A=[1, 2]).item() == 3, "given ones come first"


def test_a_mapping_of_a_user_is_kept(tmp_path: Path) -> None:
    for text in ("sum(<i,_> in 0:N, <j,_> in 0:i+1) { (i,j) -> V(i*(i+1)/2+j) }",
                 "sum(<i,_> in 0:N, <p,j> in idx(pos(i):pos(i+1))) { (i,j) -> val(p) }"):
        mapping = tr.storage(text, name="mine")
        lower = tr.tensor(np.tril(DENSE), format=mapping)
        with tr.connect(tmp_path / "db") as db:
            db["L"] = lower
        with tr.connect(tmp_path / "db") as db:
            np.testing.assert_array_equal(db["L"].to_numpy(), np.tril(DENSE))
            assert (db["L"] @ np.ones(4)).tolist() == np.tril(DENSE).sum(1).tolist()
            assert [a.tolist() for a in db["L"].stored.arrays.values()] == [
                a.tolist() for a in lower.stored.arrays.values()]
            db.verify()
