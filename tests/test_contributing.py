"""The changes that CONTRIBUTING.md shows are made to a copy of the repository: each is one file of
``src/`` and its test, and the tests that the page names for it pass."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SECTION = re.compile(r"^## Add an? ([^\n]*)\n(.*?)(?=^## )", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```(diff|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^--- (\S+)\n\+\+\+ b/(\S+)\n(.*?)(?=^--- |\Z)", re.MULTILINE | re.DOTALL)
HUNK = re.compile(r"^@@ -\d+,(\d+) \+\d+,(\d+) @@\n(.*?)(?=^@@ |\Z)", re.MULTILINE | re.DOTALL)
NEW = "/dev/null"


@dataclass(frozen=True)
class Change:
    """files: the old name, the new name and the hunks of each. tests: as pytest takes them."""

    title: str
    files: tuple[tuple[str, str, str], ...]
    tests: tuple[str, ...]


def changes() -> Iterator[Change]:
    for title, text in SECTION.findall((ROOT / "CONTRIBUTING.md").read_text()):
        (_, diff), (_, command) = BLOCK.findall(text)
        runner, *tests = shlex.split(command.replace("\\\n", ""))
        assert runner == "pytest"
        yield Change(title, tuple(FILE.findall(diff)), tuple(tests))


CHANGES = list(changes())


def apply(change: Change, root: Path) -> None:
    """Make the change below ``root``. What a hunk replaces stands there exactly once; its line
    numbers may be those of another day."""
    for old, name, hunks in change.files:
        path = root / name
        assert path.exists() == (old != NEW) and old in (NEW, f"a/{name}")
        path.write_text(patched("" if old == NEW else path.read_text(), hunks))


def patched(text: str, hunks: str) -> str:
    for removed, added, body in HUNK.findall(hunks):
        lines = [line or " " for line in body.splitlines()]
        before = [line[1:] for line in lines if line[0] in " -"]
        after = [line[1:] for line in lines if line[0] in " +"]
        assert (len(before), len(after)) == (int(removed), int(added)), "lines are miscounted"
        found, wanted = ("".join([f"{line}\n" for line in part]) for part in (before, after))
        assert text.count(found) == 1 or not text, f"there is no one place for\n{found}"
        text = text.replace(found, wanted) if text else wanted
    return text


@pytest.mark.parametrize("change", CHANGES, ids=lambda c: c.title)
def test_a_change_is_one_place_and_its_test(change: Change) -> None:
    folders = [name.partition("/")[0] for _, name, _ in change.files]
    assert folders.count("src") == 1 and folders.count("tests") == 1 and change.tests


def test_named_tests_pass(tmp_path: Path) -> None:
    """One process for all, since it takes a second to start."""
    for name in ("src", "docs", "tests"):  # with times, so that bytecode stays valid
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for change in CHANGES:
        apply(change, tmp_path)
    asked = [f"tests/test_docs.py::test_every_{kind}_has_a_line" for kind in ("operator", "format")]
    asked += [t for c in CHANGES for t in c.tests]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *asked], cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "src")}, capture_output=True, text=True,
        timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


def test_all_additions_are_shown() -> None:
    assert [c.title for c in CHANGES] == [
        "operator", "bulk operator", "format", "rule", "language", "engine"]


def test_hunks_are_strict() -> None:
    hunk = "@@ -1,2 +1,2 @@\n a\n-b\n+c\n"
    assert patched("x\na\nb\n", hunk) == "x\na\nc\n"
    for text in ("a\nd\n", "a\nb\na\nb\n"):
        with pytest.raises(AssertionError, match="no one place"):
            patched(text, hunk)
    with pytest.raises(AssertionError, match="miscounted"):
        patched("a\nb\n", "@@ -1,2 +1,3 @@\n a\n-b\n+c\n")
