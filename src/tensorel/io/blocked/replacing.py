"""Folders that appear whole or not at all: they are written beside their place, and moved there
when all went well. Nothing is replaced that Tensorel may not: see ``check_free``."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tensorel.errors import FileError
from tensorel.io.guard import telling


def check_free(path: str, overwrite: bool, ours: Callable[[str], bool], what: str) -> None:
    """An error if something is at the path that may not be replaced: anything, and with
    ``overwrite`` all that is not ``ours``."""
    if not os.path.lexists(path):
        return
    if os.path.isdir(path) and not os.path.islink(path) and not os.listdir(path):
        return
    if not overwrite:
        raise FileError(f"{path} is there already",
                        hint="say overwrite=True to replace it, or choose another path")
    if os.path.islink(path) or not os.path.isdir(path) or not ours(path):
        raise FileError(f"{path} is not {what}: it is not replaced",
                        hint="remove it yourself, or choose another path")


@contextmanager
def new_folder(path: str) -> Iterator[str]:
    """A new, empty folder that takes the place of ``path`` when all went well."""
    target = Path(path)
    mark = f"{os.getpid()}.{threading.get_ident()}"
    part = target.with_name(f".{target.name}.{mark}.part")
    with telling(path, "written"):
        target.parent.mkdir(parents=True, exist_ok=True)
        part.mkdir()
        try:
            yield str(part)
            _move(part, target, target.with_name(f".{target.name}.{mark}.old"))
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise


def _move(part: Path, target: Path, aside: Path) -> None:
    """The old folder is there until the new one is whole."""
    if not target.exists():
        part.rename(target)
        return
    target.rename(aside)
    try:
        part.rename(target)
    except BaseException:
        aside.rename(target)
        raise
    shutil.rmtree(aside, ignore_errors=True)
