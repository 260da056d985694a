"""Large arrays lie where dropped ones lay; nobody sees what was there, and limits hold."""

from __future__ import annotations

import gc
import os
import threading
import tracemalloc

import numpy as np
import pytest

import tensorel as tr
from tensorel.base import memory_regions
from tensorel.base.memory_regions import (
    LARGE_PAGE,
    MAX_KEPT_BYTES,
    MIN_MAPPED_BYTES,
    REGIONS,
    Regions,
)
from tensorel.kernels.runtime.buffers import Control, GrowBuffer

F8 = np.dtype("float64")
MANY = MIN_MAPPED_BYTES // 2  # items: four times the least that is mapped

pytestmark = pytest.mark.skipif(MIN_MAPPED_BYTES > 1 << 40, reason="kept on Linux alone")


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    gc.collect()
    REGIONS.release()
    assert REGIONS.bytes_ == 0


def test_the_next_array_lies_where_the_last_one_lay() -> None:
    first = memory_regions.empty(MANY, F8)
    place = first.ctypes.data
    first[:] = 7.0
    del first
    assert REGIONS.bytes_ == memory_regions.span(MANY * 8)
    again = memory_regions.empty(MANY, F8)
    assert again.ctypes.data == place and REGIONS.bytes_ == 0


def test_zeros_are_zeros() -> None:
    for _ in range(3):
        made = memory_regions.zeros((4, MANY // 4), F8)
        assert made.shape == (4, MANY // 4) and not made.any()
        made[...] = 3.0
        del made
    assert (memory_regions.full(MANY, 2.5, F8) == 2.5).all()


def test_a_view_keeps_its_memory() -> None:
    made = memory_regions.empty(MANY, F8)
    made[:] = 1.0
    part = made[10:20].reshape(2, 5)
    del made
    other = memory_regions.full(MANY, 9.0, F8)
    assert (part == 1.0).all() and other.ctypes.data != part.ctypes.data - 80


def test_regions_are_cut_and_made_longer() -> None:
    large = memory_regions.full(4 * MANY, 1.0, F8)
    place = large.ctypes.data
    del large
    small = memory_regions.full(MANY, 2.0, F8)
    assert small.ctypes.data == place
    assert REGIONS.bytes_ == memory_regions.span(4 * MANY * 8) - memory_regions.span(MANY * 8)
    rest = memory_regions.full(3 * MANY, 3.0, F8)
    assert (small == 2.0).all() and (rest == 3.0).all()
    del small
    longer = memory_regions.full(6 * MANY, 4.0, F8)  # the kept one, with more behind it
    assert REGIONS.bytes_ == 0 and (longer == 4.0).all() and (rest == 3.0).all()


def test_small_arrays_are_numpys() -> None:
    made = memory_regions.empty(MIN_MAPPED_BYTES // 8 - 1, F8)
    assert made.flags.owndata
    del made
    assert REGIONS.bytes_ == 0
    assert memory_regions.zeros(5, F8).tolist() == [0.0] * 5
    assert memory_regions.empty((0, 3), F8).shape == (0, 3)


def test_copies_are_contiguous() -> None:
    given = np.arange(float(MANY)).reshape(-1, 8).T
    made = memory_regions.contiguous(given)
    assert made.flags.c_contiguous and np.array_equal(made, given)
    assert memory_regions.contiguous(made) is made


def test_only_so_much_is_kept() -> None:
    regions = Regions(4 * LARGE_PAGE)
    taken = [regions.take(LARGE_PAGE)[0] for _ in range(6)]
    for k, pointer in enumerate(taken):
        regions.give(pointer, LARGE_PAGE)
        assert regions.bytes_ == min(k + 1, 4) * LARGE_PAGE
    assert [pointer for _, pointer in regions.kept] == taken[2:], "the oldest goes first"
    regions.release()
    many = Regions(1 << 40)
    for pointer in [many.take(LARGE_PAGE)[0] for _ in range(memory_regions.MAX_KEPT_REGIONS + 5)]:
        many.give(pointer, LARGE_PAGE)
    assert len(many.kept) == memory_regions.MAX_KEPT_REGIONS
    many.release()
    assert REGIONS.most <= MAX_KEPT_BYTES


def test_what_cannot_be_made_longer_is_not_lost() -> None:
    """There is no such memory: the kept region goes back to the system, and nothing is lent."""
    regions = Regions(1 << 40)
    regions.give(regions.take(LARGE_PAGE)[0], LARGE_PAGE)
    assert regions.take(1 << 60)[0] == 0
    assert regions.kept == []
    pointer, new = regions.take(LARGE_PAGE)
    assert pointer and new
    regions.give(pointer, LARGE_PAGE)
    regions.release()


def test_buffers_take_regions_and_give_them_back() -> None:
    buffer = GrowBuffer(F8, MANY)
    piece = GrowBuffer(F8, 16)
    piece.state[1] = 16
    piece.view()[:] = np.arange(16.0)
    buffer.state[1] = MANY - 4
    buffer.view()[:] = 5.0
    assert buffer.extend(piece, Control()), "it grows"
    made = buffer.take()
    assert made.size == MANY + 12 and (made[:-16] == 5.0).all() and made[-1] == 15.0
    kept = REGIONS.bytes_
    del made
    assert REGIONS.bytes_ > kept
    wasteful = GrowBuffer(F8, 4 * MANY)
    wasteful.state[1] = MANY
    made = wasteful.take()
    del wasteful
    REGIONS.release()
    del made
    assert REGIONS.bytes_ == memory_regions.span(MANY * 8), "what was not used is cut off"


def test_arrays_of_many_threads() -> None:
    """Each sees its own values, whoever takes and gives beside it."""
    wrong: list[int] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        held: list[tuple[float, np.ndarray]] = []
        for k in range(60):
            value = float(seed * 1000 + k)
            made = memory_regions.empty(int(rng.integers(MIN_MAPPED_BYTES // 8, MANY)), F8)
            made[::512] = value
            held.append((value, made))
            del made
            if len(held) > 3:
                value, old = held.pop(int(rng.integers(len(held))))
                if not (old[::512] == value).all():
                    wrong.append(seed)
                del old

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def program() -> tr.Tensor:
    a = tr.asarray(np.random.default_rng(3).random((3000, 20)))
    return a @ a.T  # dense, 72 MB


def test_programs_use_them() -> None:
    lazy = program()
    first = lazy.to_numpy().copy()
    gc.collect()
    assert REGIONS.bytes_ >= first.nbytes
    for _ in range(3):
        assert np.array_equal(lazy.compute().to_numpy(), first)


def test_what_is_kept_counts_for_the_limit() -> None:
    program().compute()
    gc.collect()
    assert REGIONS.bytes_ > 60e6
    small = tr.asarray(np.ones((600, 600)))
    (small @ small).compute(memory="1GB")
    assert REGIONS.bytes_ > 60e6
    (small @ small).compute(memory="64MB")
    assert REGIONS.bytes_ == 0


def test_tracemalloc_sees_them() -> None:
    tracemalloc.start()
    try:
        made = memory_regions.empty(MANY, F8)
        assert tracemalloc.get_traced_memory()[0] >= made.nbytes
        del made
        assert tracemalloc.get_traced_memory()[0] < MANY
    finally:
        tracemalloc.stop()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_has_its_own() -> None:
    dropped = memory_regions.full(MANY, 1.0, F8)
    del dropped
    made, dropped = memory_regions.full(MANY, 2.0, F8), memory_regions.full(MANY, 3.0, F8)
    del dropped
    assert REGIONS.bytes_
    made = memory_regions.full(MANY, 3.0, F8)
    child = os.fork()
    if child == 0:
        other = memory_regions.full(MANY, 4.0, F8)
        os._exit(0 if (other == 4.0).all() and (made == 3.0).all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (made == 3.0).all()


@pytest.mark.parametrize("count", [0, 1, 1000, 3_000_000, 3_999_999, 4_000_000])
def test_what_is_behind_a_shortened_array_is_used_again(count: int) -> None:
    memory_regions.REGIONS.release()
    array = memory_regions.empty(4_000_000, np.dtype(np.float64))
    array[:] = 7
    short = memory_regions.shortened(array, count)
    del array
    kept = memory_regions.REGIONS.bytes_
    assert kept == memory_regions.span(32_000_000) - memory_regions.span(max(count * 8, 1))
    if kept >= memory_regions.MIN_MAPPED_BYTES:
        other = memory_regions.empty(kept // 8, np.dtype(np.float64))
        other[:] = 1
        del other
    assert short.size == count and (short == 7).all()
    del short
    assert memory_regions.REGIONS.bytes_ == memory_regions.span(32_000_000)
    memory_regions.REGIONS.release()


def test_small_arrays_are_shortened_too() -> None:
    array = memory_regions.empty(100, np.dtype(np.int32))
    array[:] = np.arange(100)
    assert memory_regions.shortened(array, 3).tolist() == [0, 1, 2]
