"""What is not ours stays: folders of users, their files in a database, what links lead to."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from catalog_support import Careless, catalogs, data_files, files_in_use

import tensorel as tr
from tensorel.base import directory
from tensorel.catalog import disk, folder, locks, marker

TAG, DIGEST = "ab" * 16, "cd" * 32
#: Names of ours, almost names of ours, and names of users.
NAMES = ("lock", "writer.json", "data", "catalog-000000000001.json", "catalog-1.json", "notes.txt",
         "tensorel-database", f".new-{TAG}-{1:016x}", ".new-12-3", ".new-x", f"{DIGEST}.npy",
         f"{DIGEST}.json", f"{TAG}-{DIGEST}.npy", f"{TAG}-{DIGEST}.json", ".hidden", "données")
CONTENTS = (b"", b"mine", b"{}", b'{"tensorel": 2, "sha256": ""}\n{}', b'{"process": 1}',
            b"tensorel database 1\n", b"tensorel database 9\n" + TAG.encode() + b"\n")


def seen(path: Path) -> dict[str, Any]:
    """All that is under a path, times of change included."""
    found: dict[str, Any] = {}
    for place in [path, *sorted(path.rglob("*"))]:
        facts = place.lstat()
        what: Any = None
        if place.is_symlink():
            what = os.readlink(place)
        elif place.is_file():
            what = place.read_bytes()
        found[str(place)] = (facts.st_mode, facts.st_ino, facts.st_nlink, facts.st_mtime_ns, what)
    return found


def scatter(chance: random.Random, into: Path, elsewhere: Path, depth: int = 0) -> None:
    """Files, folders, links and pipes under names that may look like ours."""
    for name in chance.sample(NAMES, chance.randrange(1, 5)):
        place, kind = into / name, chance.randrange(10)
        if place.exists() or place.is_symlink():
            continue
        if depth < 2 and (kind < 3 or name == "data"):
            place.mkdir()
            scatter(chance, place, elsewhere, depth + 1)
        elif kind == 3:
            place.symlink_to(chance.choice([elsewhere, elsewhere / "precious", into / "nowhere"]))
        elif kind == 4:
            os.mkfifo(place)
        elif kind == 5:
            os.link(elsewhere / "precious", place)
        else:
            place.write_bytes(chance.choice(CONTENTS))


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """What a stranger would like us to overwrite or delete."""
    place = tmp_path / "elsewhere"
    place.mkdir()
    for name in ("precious", f"{DIGEST}.npy", "notes.txt"):
        (place / name).write_text("precious")
    return place


@pytest.mark.parametrize("seed", range(150))
def test_folders_of_users_are_refused(tmp_path: Path, elsewhere: Path, seed: int) -> None:
    """A folder that holds anything and is no database is refused, and nothing in it changes."""
    proj, chance = tmp_path / "proj", random.Random(seed)
    proj.mkdir()
    scatter(chance, proj, elsewhere)
    before = seen(tmp_path)
    unfinished = [n for n in os.listdir(proj) if n == f".new-{TAG}-{1:016x}"]
    if unfinished == os.listdir(proj) and (proj / unfinished[0]).is_file():
        return  # what a killed process leaves of a new database: see below
    for read_only in (True, False):
        with pytest.raises(tr.errors.StorageError) as caught:
            tr.connect(proj, read_only=read_only)
        assert caught.value.hint
        assert seen(tmp_path) == before


def test_reproductions(tmp_path: Path) -> None:
    """``data`` and ``lock`` are names that users have."""
    proj = tmp_path / "proj"
    (proj / "data").mkdir(parents=True)
    (proj / "data" / "results.csv").write_text("mine")
    (proj / "lock").write_text("mine")
    before = seen(proj)
    with pytest.raises(tr.errors.StorageError, match=r"not empty: it holds 'data'(.|\n)*hint"):
        tr.connect(proj)
    assert seen(proj) == before
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "data").symlink_to(proj / "data")
    with pytest.raises(tr.errors.StorageError, match="not empty"):
        tr.connect(linked)
    assert seen(proj) == before


@pytest.mark.parametrize("seed", range(25))
def test_files_of_users_in_a_database_stay(tmp_path: Path, elsewhere: Path, seed: int) -> None:
    """Whatever a user puts into our folders, commits collect files of ours alone."""
    path, chance = tmp_path / "db", random.Random(seed)
    with tr.connect(path) as db:
        db["A"] = np.arange(5.0)
    theirs = seen(elsewhere)
    ours = seen(path)
    for place in (path, path / "data"):
        taken = {*os.listdir(place), "catalog-000000000001.json"}
        for name in chance.sample(NAMES, 8):
            if name not in taken:
                target = chance.choice([elsewhere, elsewhere / "precious"])
                chance.choice([
                    lambda p: p.write_text("mine"), Path.mkdir, os.mkfifo,
                    lambda p, t=target: p.symlink_to(t)])(place / name)
    added = {p: f for p, f in seen(path).items() if p not in ours}
    tag = marker.read(directory.Directory.at(str(path)))
    (path / "data" / f"{tag}-{'0' * 64}.npy").write_text("left by a killed writer")
    (path / "data" / f".new-{tag}-{0:016x}").write_text("left by a killed writer")
    with tr.connect(path) as db:
        for k in range(3):
            db["A"] = np.arange(k + 1.0)
        db.verify()
        left = {n for n in data_files(path) if n.startswith((f"{tag}-", f".new-{tag}-"))}
        assert left == files_in_use(path), "files of ours are collected"
    after = seen(path)
    assert {p: after.get(p) for p in added} == added, "files of users are not"
    assert seen(elsewhere) == theirs


# -- links -------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["file", "folder", "nowhere", "pipe", "hard", "own"])
@pytest.mark.parametrize("name", ["lock", "writer.json", "tensorel-database", "catalog", "data",
                                  "array", "statistics"])
def test_links_are_not_followed(tmp_path: Path, elsewhere: Path, name: str, kind: str) -> None:
    """A link in place of any file of ours has nothing overwritten, emptied or removed, and no
    pipe makes us wait."""
    path = tmp_path / "db"
    with tr.connect(path) as db:
        db["A"] = np.arange(3.0)
    place = {"catalog": path / catalogs(path)[-1],
             "array": next((path / "data").glob("*.npy")),
             "statistics": next((path / "data").glob("*.json"))}.get(name, path / name)
    aside = tmp_path / "aside"
    os.replace(place, aside)
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "hard":
        os.link(elsewhere / "precious", place)
    else:
        place.symlink_to({"file": elsewhere / "precious", "folder": elsewhere, "own": aside,
                          "nowhere": tmp_path / "new"}[kind])
    before = seen(elsewhere)
    harmless = name == "writer.json" or (name == "lock" and kind == "hard")
    try:
        with tr.connect(path, wait=0.0) as db:
            db["A"].sum().item()
            db["B"] = 1
        assert harmless
    except tr.errors.StorageError as error:
        assert not harmless, error
    assert not (tmp_path / "new").exists()
    left = seen(elsewhere)
    shared = str(elsewhere / "precious")
    if kind == "hard" and name == "writer.json":  # its name in our folder is ours to replace
        assert left.pop(shared)[4] == before.pop(shared)[4]
    assert left == before


def test_a_link_to_a_database_is_the_users(tmp_path: Path) -> None:
    """The path that the user gives may be a link; it is followed once."""
    (tmp_path / "link").symlink_to(tmp_path / "db")
    with pytest.raises(tr.errors.DatabaseError):
        tr.connect(tmp_path / "link")
    (tmp_path / "db").mkdir()
    with tr.connect(tmp_path / "link") as db:
        db["A"] = 1
        (tmp_path / "link").unlink()
        (tmp_path / "link").symlink_to(tmp_path / "other")
        db["A"] = 2
        assert db["A"].item() == 2
    with tr.connect(tmp_path / "db") as db:
        assert db["A"].item() == 2
    assert not (tmp_path / "other").exists()


def test_folders_that_are_swapped_meanwhile(tmp_path: Path, elsewhere: Path) -> None:
    """A stranger who swaps ``data``, ``lock`` and the folder itself for links, again and again,
    has nothing written to or removed from elsewhere."""
    path, ends = tmp_path / "db", threading.Event()
    tr.connect(path).close()
    (elsewhere / "data").mkdir()
    before = seen(elsewhere)

    def swap() -> None:
        chance = random.Random(0)
        while not ends.is_set():
            place, target = chance.choice([
                (path / "data", elsewhere), (path / "lock", elsewhere / "precious"),
                (path / "writer.json", elsewhere / "precious"), (path, elsewhere)])
            aside = tmp_path / "aside"
            try:
                os.rename(place, aside)
                os.symlink(target, place)
                os.unlink(place)
                os.rename(aside, place)
            except OSError:
                if aside.exists() and not place.exists():
                    os.rename(aside, place)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for k in range(120):
            try:
                with tr.connect(path, wait=0.0) as db:
                    db["A"] = np.arange(k % 7 + 1.0)
                    db["A"].sum().item()
            except tr.errors.StorageError:
                pass
    finally:
        ends.set()
        thread.join()
    assert seen(elsewhere) == before


def test_a_database_that_everybody_can_change_is_told(tmp_path: Path) -> None:
    tr.connect(tmp_path / "db").close()
    for place in (tmp_path / "db", tmp_path / "db" / "data"):
        place.chmod(0o777)
        with pytest.warns(UserWarning, match="everybody on this machine"):
            tr.connect(tmp_path / "db").close()
        place.chmod(0o775)
    tr.connect(tmp_path / "db").close()


def test_nothing_is_made_for_everybody(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with tr.connect(tmp_path / "db") as db:
            db["A"] = 1
    finally:
        os.umask(before)
    assert not [p for p in tmp_path.rglob("*") if p.stat().st_mode & 0o002]


def test_files_that_were_closed_by_the_program(tmp_path: Path) -> None:
    """A program that closes all files (to become a daemon) and opens others is told, and what has
    our number now is not taken for the folder."""
    db = tr.connect(tmp_path / "db")
    db["A"] = 1
    (tmp_path / "other").mkdir()
    other = os.open(tmp_path / "other", os.O_RDONLY)
    ours = os.stat(tmp_path / "db")
    for file in map(int, os.listdir("/dev/fd")):
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(file), ours):
                os.dup2(other, file)
    with pytest.raises(tr.errors.DatabaseError, match="closed"):
        db["B"] = 1
    os.close(other)
    assert not os.listdir(tmp_path / "other")


# -- creation ----------------------------------------------------------------------------------
class Dying:
    """``os`` of a process that is killed at its n-th operation: nothing happens afterwards."""

    def __init__(self, left: int) -> None:
        self.left = left

    def __getattr__(self, name: str) -> Any:
        found = getattr(os, name)
        if name not in ("open", "write", "fsync", "replace", "unlink", "link", "mkdir", "listdir",
                        "makedirs"):
            return found

        def act(*args: Any, **named: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
            return found(*args, **named)

        return act


def test_creation_that_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the making of a database ended, the next connection ends it."""
    for step in range(200):
        path = tmp_path / f"db{step}"
        dying = Dying(step)
        for module in (disk, locks, directory, folder):
            monkeypatch.setattr(module, "os", dying)
        try:
            tr.connect(path)
            done = True
        except KeyboardInterrupt:
            done = False
        for module in (disk, locks, directory, folder):
            monkeypatch.setattr(module, "os", Careless())
        with tr.connect(path) as db:
            db["A"] = [1.0]
            db.verify()
        assert len(os.listdir(path)) == 5, os.listdir(path)
        if done:
            break
    assert 10 < step < 199


def test_a_lost_catalog_is_told(tmp_path: Path) -> None:
    with tr.connect(tmp_path / "db") as db:
        db["A"] = np.arange(3.0)
    for name in catalogs(tmp_path / "db"):
        (tmp_path / "db" / name).unlink()
    before = data_files(tmp_path / "db")
    with pytest.raises(tr.errors.DatabaseError, match="lost its catalog"):
        tr.connect(tmp_path / "db")
    assert data_files(tmp_path / "db") == before


# -- databases of earlier versions -------------------------------------------------------------
def as_of_version_1(path: Path) -> None:
    """The folder as version 1 wrote it: no marker, no tags."""
    tag = (path / "tensorel-database").read_text().split()[-1]
    (path / "tensorel-database").unlink()
    (path / "writer.json").unlink()
    for file in (path / "data").iterdir():
        file.rename(file.with_name(file.name.removeprefix(f"{tag}-")))
    for name in catalogs(path):
        body = (path / name).read_bytes().partition(b"\n")[2].replace(f"{tag}-".encode(), b"")
        head = {"tensorel": 1, "sha256": hashlib.sha256(body).hexdigest()}
        (path / name).write_bytes(json.dumps(head).encode() + b"\n" + body)
    (path / "lock").write_text('{"process": 1, "machine": "m", "program": "p", "since": "2026"}')


def test_databases_of_version_1(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with tr.connect(path) as db:
        db["A"], db["B"] = tr.tensor(np.eye(4), format="csr"), np.arange(9.0)
    as_of_version_1(path)
    (path / "data" / f"{DIGEST}.npy").write_text("somebody's")
    before = seen(path)
    for read_only in (True, False):
        with tr.connect(path, read_only=read_only) as db:
            db.verify()
            assert db["A"].sum().item() == 4.0
        assert seen(path) == before, "reading marks nothing"
    with tr.connect(path) as db:
        db["B"] = np.arange(3.0)
        db.verify()
        assert marker.read(directory.Directory.at(str(path)))
        assert data_files(path) == files_in_use(path) | {f"{DIGEST}.npy"}
    with tr.connect(path) as db:
        db["A"] = 1
        assert db["B"].sum().item() == 3.0
        assert data_files(path) == files_in_use(path) | {f"{DIGEST}.npy"}


def test_almost_a_database_of_version_1(tmp_path: Path) -> None:
    """Without a valid catalog there is no telling: refused, and left alone."""
    path = tmp_path / "db"
    with tr.connect(path) as db:
        db["A"] = 1
    as_of_version_1(path)
    changes: list[Callable[[Path], object]] = [
        lambda p: (p / catalogs(p)[0]).write_bytes(b"{}"),
        lambda p: (p / catalogs(p)[0]).rename(p / "catalog-000000000009.json"),
        lambda p: shutil.rmtree(p / "data"),
        lambda p: (p / "data").rename(p / "away") and (p / "data").symlink_to(p / "away"),
    ]
    for k, change in enumerate(changes):
        copy = tmp_path / f"copy{k}"
        shutil.copytree(path, copy)
        change(copy)
        before = seen(copy)
        with pytest.raises(tr.errors.DatabaseError):
            tr.connect(copy)
        assert seen(copy) == before
