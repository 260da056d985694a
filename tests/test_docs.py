"""Every Python block of the README and the docs runs, and prints what the page says.

Blocks of one page share a namespace and run in order, in an empty folder. A ``text`` block
right below a ``python`` block is what that block prints.
"""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from tensorel import errors
from tensorel.algebra import ops
from tensorel.storage import registry

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
_BANNED = re.compile(r"\b(simply|just|obviously)\b", re.IGNORECASE)

ids = [str(p.relative_to(ROOT)) for p in PAGES]


@dataclass(frozen=True)
class Block:
    line: int
    code: str
    prints: str | None


def blocks(text: str) -> list[Block]:
    found: list[Block] = []
    matches = list(_BLOCK.finditer(text))
    for here, after in zip(matches, [*matches[1:], None]):
        if here[1] != "python":
            continue
        shown: str | None = None
        if after is not None and after[1] == "text":
            shown = None if text[here.end() : after.start()].strip() else after[2]
        found.append(Block(text.count("\n", 0, here.start()) + 2, here[2], shown))
    return found


def test_blocks_are_found() -> None:
    text = "a\n```python\nprint(1)\n```\n\n```text\n1\n```\n```python\nx = 2\n```\n"
    assert blocks(text) == [Block(3, "print(1)\n", "1\n"), Block(10, "x = 2\n", None)]


@pytest.mark.parametrize("page", PAGES, ids=ids)
@pytest.mark.usefixtures("own_rules")
def test_code_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__docs__"}
    for block in blocks(page.read_text()):
        printed = run(block, page, namespace)
        if block.prints is not None:
            assert _tidy(printed) == _tidy(block.prints), (
                f"{page.name}:{block.line} prints something else; after a look, "
                "`python tests/test_docs.py` writes the new outputs into the pages"
            )


def run(block: Block, page: Path, namespace: dict[str, object]) -> str:
    """What the block prints; line numbers of tracebacks are those of the page."""
    code = compile("\n" * (block.line - 1) + block.code, str(page), "exec")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, namespace)
    return out.getvalue()


def _tidy(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().split("\n")]


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_prose(page: Path) -> None:
    prose = _BLOCK.sub("", page.read_text())
    assert not (found := _BANNED.findall(prose)), found
    for target in _LINK.findall(prose):
        if "://" not in target:
            assert (page.parent / target).exists(), f"link to {target}"


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_lines_are_readable(page: Path) -> None:
    """But for tables, and for what programs print and diffs say."""
    text = re.sub(r"^```(?:text|diff)\n.*?^```$", "", page.read_text(), flags=re.M | re.S)
    assert [x for x in text.split("\n") if len(x) > 100 and not x.startswith("|")] == []


@pytest.mark.parametrize("page", [p for p in PAGES if "design" in p.parts],
                         ids=lambda page: page.stem)
def test_design_notes_name_files_that_are_there(page: Path) -> None:
    text = page.read_text()
    named = set(re.findall(r"(?<![\w/])((?:\w+/)+\w+\.py)\b", text))
    assert [p for p in sorted(named) if not ((ROOT / p).is_file() or
                                             (ROOT / "src/tensorel" / p).is_file())] == []


@pytest.mark.parametrize("index", sorted((ROOT / "docs/design").glob("*/")), ids=lambda f: f.name)
def test_decisions_have_date_alternatives_and_evidence(index: Path) -> None:
    listed = _LINK.findall(index.with_suffix(".md").read_text())
    for page in sorted(index.glob("*.md")):
        assert f"{index.name}/{page.name}" in listed, page
        text = page.read_text()
        assert re.match(r"# .+\n\n20\d\d-\d\d-\d\d\. ", text), page
        for part in ("Decision", "Alternatives", "Evidence"):
            assert text.count(f"**{part}.**") == 1, f"{page}: {part}"


def test_every_format_has_a_line() -> None:
    table = (ROOT / "docs/reference/formats.md").read_text()
    missing = [n for n in registry.names() if f"`{n}`" not in table]
    assert not missing


def test_every_operator_has_a_line() -> None:
    table = (ROOT / "docs/reference/operators.md").read_text()
    missing = [o.name for o in ops.operators() if f"`{o.name}`" not in table]
    assert not missing


def test_every_error_has_cause_and_cure() -> None:
    page = (ROOT / "docs/reference/errors.md").read_text()
    for name, value in vars(errors).items():
        if isinstance(value, type) and issubclass(value, errors.TensorelError):
            section = page.partition(f"## {name}\n")[2].partition("\n## ")[0]
            assert section, f"no section for {name}"
            if value is not errors.TensorelError:
                assert "**Cause.**" in section and "**Cure.**" in section, name


def rewrite(page: Path) -> None:
    """Put what the blocks print now into the page."""
    text = page.read_text()
    namespace: dict[str, object] = {"__name__": "__docs__"}
    for block in blocks(text):
        printed = run(block, page, namespace)
        if block.prints is not None and _tidy(printed) != _tidy(block.prints):
            old = f"{block.code}```\n\n```text\n{block.prints}```"
            new = f"{block.code}```\n\n```text\n{printed.rstrip()}\n```"
            assert old in text, f"{page.name}:{block.line}: one blank line above the text block"
            text = text.replace(old, new, 1)
    page.write_text(text)


if __name__ == "__main__":
    for page in PAGES:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            rewrite(page)
