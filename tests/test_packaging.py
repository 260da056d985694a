"""The package as users and contributors meet it: imports, metadata, habits of the source."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points, metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "tensorel"
MODULES = sorted(SOURCE.rglob("*.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def python(code: str, **more: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")} | more
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_loads_numpy_and_llvmlite_alone() -> None:
    code = (
        "import numpy, sys; before = set(sys.modules); import tensorel;"
        "new = {m.split('.')[0] for m in set(sys.modules) - before};"
        "print(' '.join(sorted(m for m in new if m not in sys.stdlib_module_names)))"
    )
    # importlib's own editable finders carry names that no package has
    loaded = {m for m in python(code).split() if not m.startswith(("_", "sitecustomize"))}
    assert loaded <= {"tensorel", "llvmlite", "numpy"}


def test_import_prints_nothing_and_starts_no_thread() -> None:
    code = "import tensorel, threading; assert threading.active_count() == 1"
    assert python(code) == ""


def test_version_is_that_of_the_project() -> None:
    assert python("import tensorel; print(tensorel.__version__)") == PROJECT["version"]


def test_command_line_says_the_version() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tensorel", "--version"], capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")}, timeout=300,
    )
    assert done.returncode == 0
    assert PROJECT["version"] in done.stdout


def test_licence() -> None:
    assert PROJECT["license"] == "Apache-2.0"
    assert (ROOT / "LICENSE").read_text().lstrip().startswith("Apache License")


def test_runtime_dependencies() -> None:
    names = {d.split(">")[0].strip() for d in PROJECT["dependencies"]}
    assert names == {"numpy", "llvmlite"}


def test_entry_point() -> None:
    assert PROJECT["scripts"] == {"tensorel": "tensorel.cli:main"}
    assert python("from tensorel.cli import main; print(callable(main))") == "True"
    installed = [e for e in entry_points(group="console_scripts") if e.name == "tensorel"]
    if installed:  # `make test` installs the project; a bare source tree has no entry points
        assert installed[0].value == "tensorel.cli:main"
        assert metadata("tensorel")["Version"] == PROJECT["version"]


def test_public_names_exist_and_are_documented() -> None:
    code = (
        "import tensorel as tr\n"
        "missing = [n for n in tr.__all__ if not hasattr(tr, n)]\n"
        "assert not missing, missing\n"
        "public = [(n, getattr(tr, n)) for n in tr.__all__]\n"
        "bare = [n for n, x in public if callable(x) and not x.__doc__]\n"
        "assert not bare, bare"
    )
    python(code)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_source_habits(path: Path) -> None:
    text = path.read_text()
    lines = text.count("\n")
    assert lines <= 600, f"{lines} lines: split by idea"
    for word in ("TO" + "DO", "FIX" + "ME", "XX" + "X"):
        assert word not in text, word
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert (node.end_lineno or 0) - node.lineno < 80, f"{node.name} is over 80 lines"
            assert not (inner := _own_imports(node)), f"{node.name} imports {inner} inside"


def _own_imports(function: ast.AST) -> list[str]:
    """Our own modules that a function imports: direction of imports is stated at the top."""
    found: list[str] = []
    for node in ast.walk(function):
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append("tensorel" if node.level else node.module or "")
    return [name for name in found if name.split(".")[0] == "tensorel"]
