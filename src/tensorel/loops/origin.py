"""Where a program was written: its errors name the line and show it."""

from __future__ import annotations

from typing import NoReturn

from tensorel.base.records import dataclass
from tensorel.errors import TensorelError, UnsupportedError


@dataclass(frozen=True, slots=True)
class Origin:
    """``first``: the number of the first line of ``text`` in the user's file."""

    name: str
    text: str
    first: int = 1
    file: str = ""

    def shown(self, line: int) -> str:
        """The text of a line."""
        lines = self.text.split("\n")
        k = line - self.first
        return lines[k].strip() if 0 <= k < len(lines) else ""

    def error(self, kind: type[TensorelError], message: str, line: int,
              hint: str | None = None) -> TensorelError:
        place = f"{self.file}, line {line}" if self.file else f"line {line}"
        shown = self.shown(line)
        mark = f"\n    {shown}" if shown else ""
        return kind(f"{self.name}: {message} ({place}){mark}", hint=hint)

    def fail(self, kind: type[TensorelError], message: str, line: int,
             hint: str | None = None) -> NoReturn:
        raise self.error(kind, message, line, hint)

    def refuse(self, message: str, line: int, hint: str | None = None) -> NoReturn:
        """The program is outside the language."""
        self.fail(UnsupportedError, message, line, hint)
