"""Every public function keeps the memory limit: it answers or refuses, and never takes more."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import memory_recipes
import numpy as np
import pytest
import scipy.sparse as sp

import tensorel as tr
from tensorel.errors import MemoryLimitError

HERE = Path(__file__).parent


@pytest.mark.measured
@pytest.mark.skipif(sys.platform != "linux", reason="reads peaks from /proc")
@pytest.mark.parametrize("kind", ["wide", "huge", "thick", "heavy"])
def test_every_public_function_keeps_the_limit(kind: str) -> None:
    ran = subprocess.run([sys.executable, str(HERE / "memory_recipes.py"), kind],
                         capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr[-2000:]
    found = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(found) == len(memory_recipes.recipes(twice=kind in ("wide", "huge")))
    raw = {f["name"]: f["said"] for f in found if f["said"].startswith("raw")}
    assert not raw, "errors that are not ours"
    greedy = {f["name"]: f"{f['peak']:,} bytes, {f['said']}" for f in found
              if f["peak"] > memory_recipes.ALLOWED}
    assert not greedy, f"more than {memory_recipes.ALLOWED:,} bytes"
    answered = sum(f["said"] == "answered" for f in found)
    assert answered > len(found) * 2 // 3, "refusing everything is no way to keep a limit"


def test_every_public_function_has_a_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tr.namespace, "__all__", [*tr.namespace.__all__, "brand_new"])
    monkeypatch.setattr(tr, "brand_new", lambda x: x, raising=False)
    with pytest.raises(KeyError, match="brand_new"):
        memory_recipes.recipes()


def test_options_of_compute_reach_whole_tensor_operators() -> None:
    """The limit is that of the call, wherever it is asked."""
    dense = tr.asarray(np.random.default_rng(0).random(200_000))
    sparse = tr.from_coo([np.arange(0, 10**6, 10)], np.ones(10**5), (10**6,))
    for program in (tr.sort(dense), tr.argsort(dense, descending=True), tr.cumsum(dense),
                    tr.sort(sparse), tr.reshape(sparse, (1000, 1000)), sparse.to_format("dok") + 0):
        with pytest.raises(MemoryLimitError):
            program.compute(memory=dense.nbytes + 100)
        program.compute(memory="100MB")


def test_diag_of_one_entry_costs_one_entry() -> None:
    for extent in (10**8, 2**40, 2**60 - 1):
        for t in (tr.from_coo([[7]], [2.0], (extent,)), tr.from_coo([[7]], [1.0], (extent,)) * 2):
            for k in (0, 1, -1):
                with tr.options(memory="1MB"):
                    found = tr.diag(t, k).compute()
                coords, values = found.to_coo()
                assert coords.T.tolist() == [[7 + max(-k, 0), 7 + max(k, 0)]]
                assert values.tolist() == [2.0] and found.nbytes < 1000


def test_refused_before_allocating() -> None:
    with tr.options(memory="200MB"):
        for ask in (lambda: tr.eye(10**8), lambda: tr.linspace(0, 1, 10**8),
                    lambda: tr.arange(0.0, 1e8), lambda: tr.unstack(tr.zeros(10**8)),
                    lambda: tr.split(tr.zeros(10**8), 10**8),
                    lambda: tr.unique_values(tr.from_coo([[0]], [1.0], (10**8,), fill=np.nan)),
                    lambda: tr.repeat(tr.zeros(10**8), np.array([2])),
                    lambda: tr.pad(tr.zeros(10**7), 3 * 10**7, mode="wrap")):
            with pytest.raises(MemoryLimitError):
                ask()


@pytest.mark.parametrize("read", [
    lambda o: tr.asarray(o.dense, copy=True), lambda o: tr.asarray(o.numbers),
    lambda o: tr.from_coo([o.places], o.dense, (10**6,)),
    lambda o: tr.from_coo([o.short], o.dense, (10**6,)).sum().item(),
    lambda o: tr.from_coo([o.short], o.dense, (10**6,), dtype="float32"),
    lambda o: o.sparse.to_coo(), lambda o: o.sparse.copy(),
    lambda o: tr.asarray(o.matrix).sum().item(),
    lambda o: tr.asarray(o.dense)[o.places],
], ids=["copy", "list", "narrow", "private", "cast", "to_coo", "copy of sparse", "scipy", "index"])
def test_single_copies_ask_too(read: Any) -> None:
    """What is copied once on the way in or out, of operands that were there before."""
    n = 200_000
    o = SimpleNamespace(dense=np.arange(1.0, n + 1), places=np.arange(n),
                        short=np.arange(n, dtype=np.int32), numbers=[1.0] * n)
    o.matrix = sp.csr_array((o.dense, o.places, np.arange(n + 1)), shape=(n, n))
    o.sparse = tr.from_coo([o.places], o.dense, (10**9,))
    with tr.options(memory="300kB"):
        tracemalloc.start()
        try:
            with pytest.raises(MemoryLimitError):
                read(o)
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert most < 700_000, f"{most:,}"
