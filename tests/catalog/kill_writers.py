"""Kill writers with SIGKILL at random moments and look at what they leave.

    python tests/catalog/kill_writers.py --kills 100

A writer commits states 1, 2, 3, ... and says after each commit that it returned. State n follows
from n alone, so after a kill the folder must hold exactly the last state that was said to be
committed, or the one after it.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from catalog_support import files_in_use

import tensorel as tr

NAMES = ("x", "ü/..", "z")


def tensor_of(n: int, name: str) -> tr.Tensor | None:
    """What state n holds under a name, which it has held since some state before."""
    since = n - (n + len(name)) % 3
    if since <= 0 or (since + len(name)) % 5 == 0:
        return None
    rng = np.random.default_rng([since, len(name)])
    dense = rng.integers(0, 3, (rng.integers(1, 60), 50)) * 1.0
    return tr.tensor(dense, format=("dense", "csr", "dcsr", "bitmap")[since % 3])


def write(path: str, start: int, said: int) -> None:
    """Commit one state after another, for ever."""
    db = tr.connect(path)
    for n in range(start + 1, 10**9):
        with db.transaction():
            db["n"] = n
            for name in NAMES:
                wanted, before = tensor_of(n, name), tensor_of(n - 1, name)
                if wanted is not None and (before is None or n % 2):
                    db[name] = wanted
                elif wanted is not None:
                    db[name] = db[name] if _same(db, name, wanted) else wanted
                elif name in db:
                    del db[name]
        os.write(said, n.to_bytes(8, "little"))


def _same(db: tr.Database, name: str, wanted: tr.Tensor) -> bool:
    return db[name].shape == wanted.shape and bool((db[name] == wanted).all())


def check(path: str, committed: int) -> int:
    """The state that is there; an error if it is not the last one or the one after."""
    with tr.connect(path) as db:
        db.verify()
        n = db["n"].item() if "n" in db else 0
        assert n in (committed, committed + 1), (n, committed)
        for name in NAMES:
            wanted = tensor_of(int(n.real), name)
            assert (name in db) == (wanted is not None), (n, name)
            if wanted is not None:
                np.testing.assert_array_equal(db[name].to_numpy(), wanted.to_numpy())
        return int(n.real)


@contextmanager
def writer(path: str, start: int) -> Iterator[tuple[int, int]]:
    """A process that writes, and the pipe on which it says what it committed."""
    hear, say = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            write(path, start, say)
        finally:
            os._exit(1)
    os.close(say)
    try:
        yield child, hear
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(hear)


def last_said(hear: int, before: int) -> int:
    heard = b""
    while part := os.read(hear, 1 << 16):
        heard += part
    return int.from_bytes(heard[-8:], "little") if heard else before


def kill_once(path: str, committed: int, commits: int, seconds: float) -> int:
    """Kill a writer so many seconds after it said that it made so many commits."""
    with writer(path, committed) as (child, hear):
        said = committed
        for _ in range(commits):
            said = int.from_bytes(os.read(hear, 8), "little")
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        said = last_said(hear, said)
    return check(path, said)


def run(path: str, kills: int, seed: int) -> int:
    chance = random.Random(seed)
    committed = 0
    for _ in range(kills):
        committed = kill_once(path, committed, chance.randrange(3), chance.uniform(0.0, 0.06))
    with tr.connect(path) as db:
        db["n"] = committed
        left = set(os.listdir(os.path.join(path, "data")))
        assert left == files_in_use(path), "files of killed writers are collected"
    return committed


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        committed = run(os.path.join(folder, "db"), arguments.kills, arguments.seed)
    print(f"{arguments.kills} writers killed, {committed} states committed, none lost")
    return 0


if __name__ == "__main__":
    sys.exit(main())
