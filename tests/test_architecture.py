"""The page on the architecture says what runs: its trace is compared with a run in a new process,
without kernels from the disk cache, and every package has its section."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "tensorel"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
_LINE = re.compile(r"^[│├└─ ]*([\w/]+)\.py +([\w.]+)", re.MULTILINE)

#: Prints the functions of tensorel in the order in which they are first called.
PROGRAM = """
import json, sys
from pathlib import Path
import numpy as np
import tensorel as tr

root = str(Path(tr.__file__).parent) + "/"
rng = np.random.default_rng(0)
A = tr.from_coo(rng.integers(0, 200, (2, 2000)), np.ones(2000), (200, 200),
                duplicates="last", format="csr")
B = tr.asarray(rng.random((200, 30)))
called = {}

def look(frame, event, arg):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(root):
        called.setdefault((code.co_filename[len(root):-3], code.co_qualname), None)

with tr.options(disk_cache=False, threads=1):
    sys.setprofile(look)
    result = (A @ B).sum().item()
    sys.setprofile(None)
assert np.isclose(result, (A.to_numpy() @ B.to_numpy()).sum())
print(json.dumps(list(called)))
"""


def traced() -> list[tuple[str, str]]:
    """The functions that the page names, with their modules."""
    block = re.search(r"^```trace\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert block is not None
    return [(m[1], m[2]) for m in _LINE.finditer(block[1])]


def test_functions_are_called_in_the_order_of_the_page() -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True,
                         check=True)
    order = {tuple(name): at for at, name in enumerate(json.loads(run.stdout))}
    named = list(dict.fromkeys(traced()))
    assert len(named) > 30
    assert [name for name in named if name not in order] == []
    assert named == sorted(named, key=order.__getitem__)


def test_named_files_exist() -> None:
    paths = set(re.findall(r"\b((?:\w+/)+\w+)\.py\b", PAGE))
    assert [p for p in sorted(paths) if not (SOURCE / f"{p}.py").is_file()] == []
    folders = set(re.findall(r"`((?:\w+/)+)`", PAGE))
    assert [p for p in sorted(folders) if not (SOURCE / p / "__init__.py").is_file()] == []


def test_comments_name_files_that_are_there() -> None:
    missing = []
    for module in sorted(SOURCE.rglob("*.py")):
        named = re.findall(r"(?<![\w/.*-])((?:[\w-]+/)*[\w-]+\.(?:py|md))\b", module.read_text())
        places = (ROOT, SOURCE, module.parent)
        missing += [f"{module.relative_to(SOURCE)}: {name}" for name in named
                    if not any((place / name).is_file() for place in places)]
    assert missing == []


def test_every_package_has_its_section() -> None:
    sections = dict(re.findall(r"^## `(\w+)/`\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
    packages = {f.parent.relative_to(SOURCE).parts for f in SOURCE.glob("*/**/__init__.py")}
    assert {p[0] for p in packages} == set(sections)
    for package in sorted(p for p in packages if len(p) > 1):
        assert f"`{'/'.join(package)}/`" in sections[package[0]], package
