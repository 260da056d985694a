"""Killed writers, and losses of power at every moment of a commit."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from catalog_support import Careless, files_in_use

import tensorel as tr
from tensorel.base import directory
from tensorel.catalog import arrays, disk, folder, locks

HERE = Path(__file__).parent


def test_killed_writers() -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "kill_writers.py"), "--kills", "25", "--seed", "1"],
        capture_output=True, text=True, timeout=300,
        env=os.environ | {"PYTHONPATH": str(HERE.parents[1] / "src")})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "25 writers killed" in done.stdout


# -- loss of power -----------------------------------------------------------------------------
Event = tuple[str, Any, Any]


class Recorder:
    """``os``, noting what is done to files and folders."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.open_files: dict[int, str] = {}
        self.lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def note(self, kind: str, a: Any, b: Any = None) -> None:
        with self.lock:
            self.events.append((kind, a, b))

    def open(self, path: str, flags: int, mode: int = 0o777, dir_fd: int | None = None) -> int:
        file = os.open(path, flags, mode, dir_fd=dir_fd)
        place = self.place(path, dir_fd)
        with self.lock:
            self.open_files[file] = place
        if flags & os.O_EXCL:
            self.note("create", place)
        return file

    def place(self, name: str, folder: int | None) -> str:
        where = "" if folder is None else os.readlink(f"/proc/self/fd/{folder}")
        return os.path.normpath(os.path.join(where, name))

    def write(self, file: int, data: Any) -> int:
        done = os.write(file, data)
        self.note("write", self.open_files[file], bytes(data[:done]))
        return done

    def fsync(self, file: int) -> None:
        os.fsync(file)
        self.note("sync", os.readlink(f"/proc/self/fd/{file}"))

    def replace(self, old: str, new: str, src_dir_fd: int, dst_dir_fd: int) -> None:
        os.replace(old, new, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        self.note("rename", self.place(old, src_dir_fd), self.place(new, dst_dir_fd))

    def unlink(self, name: str, dir_fd: int) -> None:
        os.unlink(name, dir_fd=dir_fd)
        self.note("unlink", self.place(name, dir_fd))


class Inode:
    """A file's content, and what of it is on the disk for sure."""

    def __init__(self, content: bytes = b"", safe: bytes = b"") -> None:
        self.content, self.safe = content, safe

    def after_crash(self, chance: random.Random) -> bytes:
        if self.safe == self.content:
            return self.content
        cut = chance.randrange(len(self.content) + 1)
        return chance.choice([self.safe, b"", self.content[:cut], bytes(len(self.content)),
                              self.content])


class Disk:
    """Files under a folder: what is seen, and operations on names that may be lost."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.names = {str(p): Inode(p.read_bytes(), p.read_bytes())
                      for p in root.rglob("*") if p.is_file()}
        self.safe = dict(self.names)
        self.pending: list[tuple[str, Any, Any]] = []

    def apply(self, event: Event) -> None:
        kind, a, b = event
        if kind == "write":
            self.names[a].content += b
        elif kind == "sync" and a in self.names:
            self.names[a].safe = self.names[a].content
        elif kind == "sync":
            kept = [p for p in self.pending if os.path.dirname(p[1]) != a]
            for p in self.pending:
                if p not in kept:
                    self.change(self.safe, p)
            self.pending = kept
        else:
            inode = Inode() if kind == "create" else self.names[a]
            change = (kind, a, (b, inode))
            self.change(self.names, change)
            self.pending.append(change)

    @staticmethod
    def change(names: dict[str, Inode], change: tuple[str, Any, Any]) -> None:
        kind, a, (b, inode) = change
        if kind == "create":
            names[a] = inode
        else:
            names.pop(a, None)
        if kind == "rename":
            names[b] = inode

    def after_crash(self, into: Path, chance: random.Random) -> None:
        """Any of the operations on names that were not synchronized may have happened."""
        names = dict(self.safe)
        for change in self.pending:
            if chance.random() < 0.5:
                self.change(names, change)
        shutil.rmtree(into, ignore_errors=True)
        (into / "data").mkdir(parents=True)
        for path, inode in names.items():
            (into / os.path.relpath(path, self.root)).write_bytes(inode.after_crash(chance))


def left_by_a_killed_writer(path: Path) -> None:
    tag = (path / "tensorel-database").read_text().split()[-1]
    (path / "data" / f"{tag}-{'0' * 64}.npy").write_bytes(b"half of an array")


def contents(db: tr.Database) -> dict[str, list[Any]]:
    return {name: tensor.tolist() for name, tensor in db.tensors().items()}


def change(db: tr.Database, sites: Any) -> None:
    db["kept"] = [9.0]
    db["parts"] = tr.from_blocks(lambda key: np.full(4, key[0] + 1.0), (8,), 4, engine=sites)
    db["A"] = tr.tensor(np.eye(3), format="csr")
    db["A"] = tr.tensor(np.eye(4), format="csr")
    db["same"] = db["old"]
    del db["old"]


@pytest.mark.parametrize("seed", range(2))
def test_loss_of_power(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """At every step of a transaction the disk holds the old state or the new one, whatever subset
    of what was not synchronized is lost; and the next commit works on it."""
    path, chance = tmp_path / "db", random.Random(seed)
    db = tr.connect(path)
    db.update(kept=[1, 2], old=np.arange(20.0), A=[3], block=np.ones(4))  # as one of the parts
    left_by_a_killed_writer(path)
    before, begin = contents(db), Disk(path)
    recorder = Recorder()
    for module in (disk, locks, directory):
        monkeypatch.setattr(module, "os", recorder)
    with tr.engines.local(sites=2) as sites, db.transaction():
        change(db, sites)
    after = contents(db)
    for module in (disk, locks, directory):
        monkeypatch.setattr(module, "os", Careless())
    assert sum(kind == "unlink" for kind, _, _ in recorder.events) > 2
    found = set()
    for event in [None, *recorder.events]:
        if event is not None:
            begin.apply(event)
        for _ in range(3):
            begin.after_crash(tmp_path / "crashed", chance)
            with tr.connect(tmp_path / "crashed") as again:
                again.verify()
                state = contents(again)
                assert state in (before, after), event
                found.add(state == after)
                again["again"] = tr.tensor(np.eye(4), format="csr")
                again["old"] = np.arange(20.0)
                again.verify()
                left = set(os.listdir(tmp_path / "crashed" / "data"))
                assert left == files_in_use(tmp_path / "crashed")
    assert state == after and found == {False, True}


class Interrupting:
    """``os`` whose n-th operation of the main thread is hit by Ctrl-C, before or after it."""

    def __init__(self, left: int, late: bool) -> None:
        self.left, self.late = left, late

    def __getattr__(self, name: str) -> Any:
        found = getattr(os, name)
        if name not in ("open", "write", "fsync", "replace", "unlink", "fstat", "listdir"):
            return found

        def hit(*args: Any, **named: Any) -> Any:
            if threading.current_thread() is not threading.main_thread():
                return found(*args, **named)
            self.left -= 1
            if self.left == 0 and not self.late:
                raise KeyboardInterrupt
            result = found(*args, **named)
            if self.left == 0 and name != "open":
                raise KeyboardInterrupt
            return result

        return hit


@pytest.mark.parametrize("late", [False, True])
def test_interrupts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: bool) -> None:
    """Ctrl-C at any operation leaves the old state or the new one, and a database that works."""
    db = tr.connect(tmp_path / "db", wait=0.0)
    db.update(kept=[1, 2], old=np.arange(20.0), A=[3], block=np.ones(4))  # as one of the parts
    for step in range(1, 200):
        before, hit = contents(db), Interrupting(step, late)
        for module in (disk, locks, arrays, folder, directory):
            monkeypatch.setattr(module, "os", hit)
        with contextlib.suppress(KeyboardInterrupt):
            db.update(A=np.arange(step), kept=[step])
        monkeypatch.undo()
        after = {**before, "A": list(range(step)), "kept": [step]}
        assert contents(db) in (before, after)
        with tr.connect(tmp_path / "db", wait=0.0) as other:
            assert contents(other) == contents(db)
        if hit.left > 0:
            break
    assert 20 < step < 199
    db["last"] = 1
    db.verify()
    assert set(os.listdir(tmp_path / "db" / "data")) == files_in_use(tmp_path / "db")
    db.close()


def test_no_file_stays_open(tmp_path: Path) -> None:
    def opened() -> int:
        return len(os.listdir("/proc/self/fd"))

    tr.connect(tmp_path / "db").close()
    before = opened()
    for k in range(20):
        db = tr.connect(tmp_path / "db")
        db["A"] = [k]
        db["A"].sum().item()
        if k % 2:
            db.close()
        del db
    gc.collect()
    assert opened() == before
