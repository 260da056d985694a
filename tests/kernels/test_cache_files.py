"""The cache folder: nobody else's bytes are ever taken for ours, and nothing makes us wait."""

from __future__ import annotations

import os
import random
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from measures import allowed
from tensorel.base import cache_files

MAGIC = b"tensorel tests 01\n"
NAME = "a" * 64
OURS, FORGED = b"ours" * 50, b"forged" * 50
STRANGER, USER = 65533, 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="two users are needed")


def load() -> bytes | None:
    with cache_files.folder("kernels", make=False) as place:
        return None if place is None else cache_files.load(place, NAME, MAGIC)


def save(payload: bytes) -> bool:
    with cache_files.folder("kernels") as place:
        return place is not None and cache_files.store(place, NAME, MAGIC, payload)


@pytest.fixture
def open_place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that other users can reach; those of the tests are closed to them."""
    path = Path(tempfile.mkdtemp(prefix="tensorel-shared-", dir="/tmp"))
    path.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(path / "cache"))
    (path / "cache").mkdir(0o755)
    yield path
    shutil.rmtree(path)


def as_user(user: int, work: Callable[[], object]) -> int:
    """The process in which that user does the work."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            work()
            code = 0
        finally:
            os._exit(code)
    return child


def done(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_kept_and_found(own_cache: Path) -> None:
    assert load() is None and not own_cache.exists(), "looking makes nothing"
    assert save(OURS) and load() == OURS
    assert stat.S_IMODE((own_cache / "tensorel").stat().st_mode) == 0o700


def test_links_of_the_user_on_the_way(own_cache: Path, tmp_path: Path) -> None:
    """Homes on clusters lie behind links: what the path leads to counts."""
    (tmp_path / "real").mkdir()
    own_cache.symlink_to(tmp_path / "real")
    assert save(OURS) and load() == OURS
    assert (tmp_path / "real" / "tensorel" / "kernels" / NAME).exists()


@pytest.mark.parametrize("level", ["cache", "cache/tensorel", "cache/tensorel/kernels"])
@pytest.mark.parametrize("mode", [0o777, 0o707, 0o722, 0o770, 0o1777])
def test_folders_that_others_can_write(tmp_path: Path, level: str, mode: int) -> None:
    assert save(OURS)
    (tmp_path / level).chmod(mode)
    last = level.endswith("kernels")
    private_group = os.geteuid() == os.getegid() and mode == 0o770
    safe = not last and (private_group or bool(mode & stat.S_ISVTX))
    assert load() == (OURS if safe else None)
    assert save(FORGED) == safe


@pytest.mark.parametrize("level", ["cache/tensorel", "cache/tensorel/kernels"])
def test_folders_that_are_links(tmp_path: Path, level: str) -> None:
    assert save(OURS)
    (tmp_path / level).rename(tmp_path / "aside")
    (tmp_path / level).symlink_to(tmp_path / "aside")
    assert load() is None and not save(OURS)


@pytest.mark.measured
@pytest.mark.parametrize("kind", ["pipe", "link", "folder", "device", "huge", "open", "socket"])
def test_entries_that_are_no_files_of_ours(tmp_path: Path, kind: str) -> None:
    """They are not taken, nor read to their end, nor waited for."""
    assert save(OURS)
    entry, began = tmp_path / "cache" / "tensorel" / "kernels" / NAME, time.process_time()
    data = entry.read_bytes()
    entry.unlink()
    if kind == "pipe":
        os.mkfifo(entry)
    elif kind == "link":
        (tmp_path / "elsewhere").write_bytes(data)
        entry.symlink_to(tmp_path / "elsewhere")
    elif kind == "folder":
        entry.mkdir()
    elif kind == "device":
        entry.symlink_to("/dev/zero")
    elif kind == "huge":
        entry.write_bytes(data)
        os.truncate(entry, 1 << 40)
    elif kind == "socket":
        os.mknod(entry, stat.S_IFSOCK | 0o600)
    else:
        entry.write_bytes(data)
        entry.chmod(0o666)
    assert load() is None
    assert save(OURS) == (kind != "folder") and (load() == OURS or kind == "folder")
    assert time.process_time() - began < allowed(5)


@needs_root
@pytest.mark.parametrize("level", ["cache", "cache/tensorel", "cache/tensorel/kernels",
                                   f"cache/tensorel/kernels/{NAME}"])
def test_what_belongs_to_others(open_place: Path, level: str) -> None:
    assert save(OURS)
    os.chown(open_place / level, STRANGER, STRANGER)
    assert load() is None


def forge(place: Path) -> None:
    """A cache as ours, by a stranger, with forged bytes."""
    place.mkdir(parents=True, exist_ok=True)
    os.environ["XDG_CACHE_HOME"] = str(place)
    cache_files.is_safe_to_pass = lambda facts: True  # a stranger does not care
    assert save(FORGED)


def race(shared: Path) -> None:
    """Swap folders and links in a folder that all can write, until it is told to stop."""
    forge(shared / "forged")
    mine, chance = shared / "forged" / "tensorel", random.Random(1)
    os.chmod(mine, 0o755)
    os.chmod(mine / "kernels", 0o755)
    os.chmod(mine / "kernels" / NAME, 0o644)
    victim, aside = shared / "tensorel", shared / "aside"
    (shared / "begun").touch()
    while not (shared / "stop").exists():
        os.rename(victim, aside)
        if chance.random() < 0.5:
            os.symlink(mine, victim)
            os.unlink(victim)
        else:
            os.rename(mine, victim)
            os.rename(victim, mine)
        os.rename(aside, victim)


@needs_root
@pytest.mark.parametrize("checks", ["all", "without the parents"])
def test_a_racing_stranger(open_place: Path, monkeypatch: pytest.MonkeyPatch, checks: str) -> None:
    """In a shared XDG_CACHE_HOME a stranger swaps the user's folder for forged ones all the time:
    forged bytes are never loaded; descriptors alone see to that. Read until the folder was
    there, and was not, often enough."""
    shared = open_place / "cache"
    shared.chmod(0o755)
    os.chown(shared, USER, USER)
    assert done(as_user(USER, lambda: save(OURS))) == 0
    shared.chmod(0o777)
    if checks != "all":
        monkeypatch.setattr(cache_files, "is_safe_to_pass", lambda facts: True)

    def read() -> None:
        taken, tries = {OURS: 0, None: 0}, 0
        while tries < 10_000 or not taken[None] or (checks != "all" and not taken[OURS]):
            tries += 1
            taken[load()] += 1  # KeyError: forged
        assert checks != "all" or not taken[OURS], taken

    stranger = as_user(STRANGER, lambda: race(shared))
    try:
        while not (shared / "begun").exists():
            time.sleep(0.01)
        assert done(as_user(USER, read)) == 0
    finally:
        (shared / "stop").touch()
        assert done(stranger) == 0
