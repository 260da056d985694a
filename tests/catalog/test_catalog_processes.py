"""One folder in several processes, threads and forks."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from catalog_support import catalogs, data_files, files_in_use

import tensorel as tr
from tensorel.catalog.folder import Folder
from tensorel.catalog.transactions import Session

SOURCE = str(Path(__file__).parents[2] / "src")
STATES = 30  # that each reader sees of a database while it is written


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    """A process of its own; ``say(x)`` prints a line, ``hear()`` waits for one."""
    head = ("import sys, tensorel as tr, numpy as np\n"
            "def say(x): print(x, flush=True)\n"
            "def hear(): return sys.stdin.readline()\n")
    return subprocess.Popen(
        [sys.executable, "-c", head + code, *map(str, arguments)], text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": SOURCE})


def tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def finish(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0, out
    return out.strip()


def in_child(work: Callable[[], None]) -> int:
    """The exit code of the work in a fork."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_writer_keeps_others_out_until_it_dies(tmp_path: Path) -> None:
    db = tr.connect(tmp_path / "db", wait=0.05)
    db["A"] = [1.0]
    other = start("db = tr.connect(sys.argv[1])\nwith db.transaction():\n"
                  "    db['A'] = [2.0]\n    say('ready'); hear()", tmp_path / "db")
    assert line(other) == "ready"
    with pytest.raises(tr.errors.DatabaseError, match=f"process {other.pid} on .*since 20"):
        db["B"] = [1]
    assert db["A"].item() == 1.0, "readers see the committed state and do not wait"
    other.send_signal(signal.SIGKILL)
    other.wait()
    db["B"] = [1]
    assert db["A"].item() == 1.0
    other.communicate()
    told = pytest.raises(tr.errors.DatabaseError, match="another connection of this process")
    with db.transaction(), tr.connect(tmp_path / "db", wait=0.0) as second, told:
        second["C"] = 1


def test_readers_see_commits_of_others(tmp_path: Path) -> None:
    with tr.connect(tmp_path / "db") as db:
        db["A"] = [1]
        other = start("db = tr.connect(sys.argv[1])\nfor k in range(2, 5):\n"
                      "    db['A'] = [k]; say(k); hear()", tmp_path / "db")
        for k in range(2, 5):
            assert line(other) == str(k)
            assert db["A"].item() == k
            tell(other)
        finish(other)


def test_writers_take_turns(tmp_path: Path) -> None:
    code = ("db = tr.connect(sys.argv[1], wait=60)\n"
            "for _ in range(15):\n"
            "    with db.transaction():\n"
            "        db['n'] = db['n'] + 1\n")
    with tr.connect(tmp_path / "db", wait=60) as db:
        db["n"] = 0
        others = [start(code, tmp_path / "db") for _ in range(2)]
        for _ in range(15):
            with db.transaction():
                db["n"] = db["n"] + 1
        for other in others:
            finish(other)
        assert db["n"].item() == 45
        db["n"] = 0
        assert data_files(tmp_path / "db") == files_in_use(tmp_path / "db")


def test_many_open_at_once_make_one_database(tmp_path: Path) -> None:
    code = "db = tr.connect(sys.argv[1]); db[sys.argv[2]] = 1; db.close()"
    for process in [start(code, tmp_path / "db", k) for k in range(4)]:
        finish(process)
    with tr.connect(tmp_path / "db") as db:
        assert sorted(db) == ["0", "1", "2", "3"]


def test_files_stay_while_somebody_may_read_them(tmp_path: Path) -> None:
    """A reader that opened a state finds its files, however many commits came since."""
    path = tmp_path / "db"
    db = tr.connect(path)
    db["A"] = np.arange(100.0)
    folder = Folder(str(path))
    reader, state = tr.Database(Session(folder, 5.0)), folder.current()
    for k in range(5):
        db["A"] = np.arange(k + 3.0)
    assert len(catalogs(path)) == 2, "the one in use and the last"
    old = folder.load(state.tensors["A"])
    assert old.arrays["val"].sum() == 4950
    assert reader["A"].size == 7, "asking again goes on to the last state"
    db["B"] = 1
    assert len(catalogs(path)) == 2, "the reader is at the last but one"
    reader.close()
    db["B"] = 2
    assert len(catalogs(path)) == 1
    assert data_files(path) == files_in_use(path)
    db.close()


def test_readers_during_collection(tmp_path: Path) -> None:
    """Processes and threads that read all the time while another process writes and collects."""
    code = ("db = tr.connect(sys.argv[1])\n"
            "for k in range(1, 10**9):\n"
            "    with db.transaction():\n"
            "        db['k'] = k\n"
            "        for name in 'abc': db[name] = np.full(100 + k % 7, k)\n"
            "    if k == 1: say('ready')\n")
    writer = start(code, tmp_path / "db")
    assert line(writer) == "ready"
    db = tr.connect(tmp_path / "db")
    seen, failed = set[int](), []

    def read(db: tr.Database) -> None:
        try:
            mine = set[int]()
            while len(mine) < STATES and not failed:
                found = db.tensors()
                k = found["k"].item()
                assert all((found[n].to_numpy() == k).all() for n in "abc")
                assert db["a"].size >= 100
                mine.add(k)
            seen.update(mine)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=read, args=(db,)) for _ in range(2)]
    threads.append(threading.Thread(target=read, args=(tr.connect(tmp_path / "db"),)))
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    writer.kill()
    writer.communicate()
    assert not failed, failed
    assert len(seen) >= STATES
    db["k"] = 0
    assert data_files(tmp_path / "db") == files_in_use(tmp_path / "db")
    db.close()


def test_threads_write(tmp_path: Path) -> None:
    with tr.connect(tmp_path / "db", wait=60) as db:
        db["n"] = 0

        def work() -> None:
            for _ in range(5):
                with db.transaction():
                    db["n"] = db["n"] + 1

        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert db["n"].item() == 20


def test_a_transaction_belongs_to_its_thread(tmp_path: Path) -> None:
    with tr.connect(tmp_path / "db", wait=0.05) as db:
        db["A"] = 1
        seen: list[object] = []

        def look() -> None:
            seen.append(db["A"].item())
            try:
                db["B"] = 1
            except tr.errors.DatabaseError as error:
                seen.append("another thread" in str(error))

        with db.transaction():
            db["A"] = 2
            thread = threading.Thread(target=look)
            thread.start()
            thread.join()
        assert seen == [1, True] and db["A"].item() == 2 and "B" not in db


def test_sent_to_another_process(tmp_path: Path) -> None:
    with tr.connect(tmp_path / "db", read_only=False, wait=7) as db:
        db["A"] = [1.0]
        with pickle.loads(pickle.dumps(db)) as copy:
            assert copy["A"].item() == 1.0 and copy.path == db.path and copy != db
        assert pickle.loads(pickle.dumps(db["A"])).item() == 1.0
    with pytest.raises(TypeError, match="in memory"):
        pickle.dumps(tr.connect())


def test_fork(tmp_path: Path) -> None:
    db = tr.connect(tmp_path / "db", wait=0.05)
    db["A"] = np.arange(10.0)
    held = db["A"]

    def in_a_transaction() -> None:
        assert db["A"].item(0) == 0.0, "the parent's transaction is not the child's"
        with pytest.raises(tr.errors.DatabaseError, match=f"process {os.getppid()}"):
            db["B"] = 1
        assert held.sum().item() == 45

    with db.transaction():
        db["A"] = np.arange(10.0) + 7
        assert in_child(in_a_transaction) == 0
    assert db["A"].item(0) == 7.0 and "B" not in db

    def alone() -> None:
        db["B"] = db["A"] * 2
        db.close()

    assert in_child(alone) == 0
    assert db["B"].item(0) == 14.0
    db["C"] = 1
    db.verify()
    db.close()


def test_a_child_that_lives_on_holds_no_lock(tmp_path: Path) -> None:
    db = tr.connect(tmp_path / "db", wait=0.05)
    hear, say = os.pipe()
    begun, begin = os.pipe()
    with db.transaction():
        db["A"] = 1
        child = os.fork()
        if child == 0:
            os.write(begin, b"!")
            os.close(say)
            os.read(hear, 1)
            os._exit(0)
    os.read(begun, 1)
    try:
        with tr.connect(tmp_path / "db", wait=0.0) as other:
            other["B"] = 1
    finally:
        os.close(say)
        os.waitpid(child, 0)
        for file in (hear, begun, begin):
            os.close(file)
    assert sorted(db) == ["A", "B"]


def test_read_only(tmp_path: Path) -> None:
    with tr.connect(tmp_path / "db") as db:
        db["A"] = [1.0, 2.0]
    with tr.connect(tmp_path / "db", read_only=True) as db:
        assert db["A"].sum().item() == 3.0
        for write in (lambda: db.__setitem__("B", 1), lambda: db.__delitem__("A"), db.clear):
            with pytest.raises(tr.errors.DatabaseError, match="reading only"):
                write()


def test_folder_of_somebody_else() -> None:
    """Without permission to write, reading works and writing says why not."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        somebody_else(Path(folder) / "db")


def somebody_else(path: Path) -> None:
    with tr.connect(path) as db:
        db["A"] = tr.tensor(np.eye(3), format="csr")
    before = sorted(os.listdir(path))
    for place, mode in ((path, 0o555), (path / "data", 0o555)):
        place.chmod(mode)
    for place in (path / "lock", *path.glob("catalog*"), *(path / "data").iterdir()):
        place.chmod(0o444)

    def work() -> None:
        if os.getuid() == 0:
            os.setuid(65534)
        with tr.connect(path) as db:
            assert db["A"].to_numpy().sum() == 3.0  # nobody cannot import what a kernel needs
            db.verify()
            try:
                db["B"] = 1
            except tr.errors.DatabaseError as error:
                assert "Permission denied" in str(error) and "somebody else" in str(error)
            assert list(db) == ["A"]

    try:
        assert in_child(work) == 0
    finally:
        for place in (path, path / "data"):
            place.chmod(0o755)
    assert sorted(os.listdir(path)) == before


@pytest.mark.parametrize("seed", range(3))
def test_random_histories(tmp_path: Path, seed: int) -> None:
    """Two connections that write, undo, close and open again, against a dict."""
    rng = np.random.default_rng(seed)
    path = tmp_path / "db"
    both = [tr.connect(path), tr.connect(path)]
    held: list[tuple[tr.Tensor, int]] = []
    model: dict[str, int] = {}
    for step in range(80):
        k = int(rng.integers(2))
        db, names = both[k], [f"t{n}" for n in rng.integers(0, 6, 3)]
        after = dict(model)
        try:
            with db.transaction():
                for name in names[: rng.integers(1, 4)]:
                    if rng.random() < 0.3 and name in after:
                        del db[name], after[name]
                    else:
                        db[name] = np.full(5, after.setdefault(name, 0) + step)
                        after[name] += step
                if rng.random() < 0.3:
                    raise RuntimeError
            model = after
        except RuntimeError:
            pass
        if rng.random() < 0.2:
            db.close()
            both[k] = tr.connect(path, read_only=False)
        for seen in both:
            assert {n: t.item(0) for n, t in seen.tensors().items()} == model
        if model and rng.random() < 0.3:
            name = sorted(model)[0]
            held.append((both[1 - k][name], model[name]))
    assert all((t.to_numpy() == value).all() for t, value in held), "tensors do not change"
    both[1].close()
    both[0]["last"] = 1
    assert data_files(path) == files_in_use(path) and len(catalogs(path)) == 1
    both[0].close()
