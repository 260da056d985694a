"""Labels in databases."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tensorel as tr

DAYS = pd.to_datetime(["2024-01-02", "2024-01-01"]).tz_localize("Asia/Tokyo")
FRAME = pd.DataFrame({"who": ["zoë", ""], "day": DAYS, "n": [3, -1], "yes": [True, False],
                      "x": [0.5, -0.5], "v": [1.0, 2.0]})


def stored(path: Path) -> tr.Tensor:
    kept = tr.from_table(FRAME, keys=["who", "day", "n", "yes", "x"], value="v")
    with tr.connect(path) as db:
        db["T"] = kept
        db["plain"] = tr.asarray([1.0, 2.0])
        db["named"] = tr.asarray([1.0, 2.0]).named("user")
    return kept


def test_there_and_back(tmp_path: Path) -> None:
    kept = stored(tmp_path / "db")
    with tr.connect(tmp_path / "db") as db:
        found = db["T"]
        assert found.names == kept.names == ("who", "day", "n", "yes", "x")
        for a, b in zip(found.labels, kept.labels):
            np.testing.assert_array_equal(a, b)
        assert found.to_table().equals(kept.to_table())
        assert (found * kept).nnz == 2
        assert found.loc["zoë"].sum().item() == 1.0
        assert db["plain"].labels == (None,) and db["named"].names == ("user",)
        db["T"] = found.T.compute(format="coo")
        assert db["T"].names == kept.names[::-1]


def test_a_catalog_without_labels_is_of_the_version_before(tmp_path: Path) -> None:
    def version() -> Any:
        last = max((tmp_path / "db").glob("catalog-*.json"))
        return json.loads(last.read_bytes().split(b"\n")[0])["tensorel"]

    stored(tmp_path / "db")
    assert version() == 3
    with tr.connect(tmp_path / "db") as db:
        del db["T"], db["named"]
    assert version() == 2


def test_files_of_labels_that_are_damaged(tmp_path: Path) -> None:
    stored(tmp_path / "db")
    files = sorted((tmp_path / "db" / "data").glob("*.npy"), key=lambda f: f.stat().st_size)
    for file in files:
        whole = file.read_bytes()
        file.write_bytes(whole[:-1])
        with tr.connect(tmp_path / "db") as db, pytest.raises(tr.errors.DatabaseError):
            for name in db:
                db[name].to_numpy()
        file.write_bytes(whole)
