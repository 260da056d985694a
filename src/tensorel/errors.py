"""The exception tree. Every error derives from the built-in one a NumPy user would catch.

Errors say the operation, the operands with their sizes, what went wrong and what to do;
``hint`` is that last part.
"""

from __future__ import annotations

import numpy as np


class TensorelError(Exception):
    """Base of all errors raised on purpose by tensorel."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n  hint: {self.hint}"


class ShapeError(TensorelError, ValueError):
    """Shapes or extents that do not fit together."""


class IndexError_(TensorelError, IndexError):
    """An index out of range, or an axis that does not exist."""


class AxisError(IndexError_, ValueError):
    """An axis that does not exist; as NumPy's, caught as an IndexError and as a ValueError."""


class TypeError_(TensorelError, TypeError):
    """A dtype or an argument type that the operation does not take."""


class ValueError_(TensorelError, ValueError):
    """An argument of the right type with a value that the operation does not know."""


class LinearAlgebraError(TensorelError, np.linalg.LinAlgError):
    """A matrix that has no inverse, no such decomposition, or whose iteration does not converge."""


class RangeError(TypeError_, OverflowError):
    """A Python number that does not fit the dtype that it is to have."""


class ArithmeticError_(ValueError_, OverflowError):
    """A result that is too large for a number."""


class ZeroDivisionError_(ValueError_, ZeroDivisionError):
    """A Python number divided by zero."""


class NameError_(TensorelError, NameError):
    """A variable that is used before it is set."""


class ParseError(TensorelError, ValueError):
    """Text that is not in the grammar; carries line, column and the marked text."""

    def __init__(
        self, message: str, *, text: str = "", position: int = 0, hint: str | None = None
    ) -> None:
        self.text = text
        self.position = position
        self.line = text.count("\n", 0, position) + 1
        self.column = position - (text.rfind("\n", 0, position) + 1) + 1
        super().__init__(message, hint=hint)

    @property
    def marked(self) -> str:
        lines = self.text.split("\n")
        shown = lines[self.line - 1] if self.line <= len(lines) else ""
        return f"{shown}\n{' ' * (self.column - 1)}^"

    def __str__(self) -> str:
        place = f"line {self.line}, column {self.column}"
        mark = "\n".join("    " + part for part in self.marked.split("\n")) if self.text else ""
        body = f"{self.message} ({place})" + (f"\n{mark}" if mark else "")
        return body if self.hint is None else f"{body}\n  hint: {self.hint}"


class StorageError(TensorelError, ValueError):
    """Physical arrays or files that do not form a valid tensor."""


class FileError(StorageError, OSError):
    """A file that the system does not open, read or write; ``errno`` is the system's number, and
    ``filename`` the file."""

    @classmethod
    def of(cls, error: OSError, message: str, hint: str | None = None) -> FileError:
        """The error that says so; also a FileNotFoundError or PermissionError if it was one."""
        kind = cls
        if isinstance(error, FileNotFoundError):
            kind = FileNotFoundError_
        elif isinstance(error, PermissionError):
            kind = PermissionError_
        found = kind(message, hint=hint)
        found.errno, found.filename = error.errno, error.filename
        return found


class FileNotFoundError_(FileError, FileNotFoundError):
    """A file that is not there."""


class PermissionError_(FileError, PermissionError):
    """A file that the user may not read or write."""


class DatabaseError(StorageError, OSError):
    """The folder of a database that is damaged, locked by another process, or cannot be read or
    written; ``errno`` is the system's number if it refused."""


class KeyError_(TensorelError, KeyError):
    """A name that is not there."""


class MemoryLimitError(TensorelError, MemoryError):
    """A plan that would exceed the memory limit; nothing was allocated."""

    def __init__(
        self,
        message: str,
        *,
        needed: int = 0,
        limit: int = 0,
        step: str = "",
        hint: str | None = None,
    ) -> None:
        self.needed = needed
        self.limit = limit
        self.step = step
        super().__init__(message, hint=hint)


class UnsupportedError(TensorelError, NotImplementedError):
    """A meaningful request that this engine cannot serve."""


class ExtentWarning(UserWarning):
    """Axes of different extents are joined: indices that one of them lacks count as absent."""


class NullKeyWarning(UserWarning):
    """Rows of a table have no key, so they have no place in a tensor."""


class NonFiniteWarning(RuntimeWarning):
    """nan or inf meets entries that are not stored, which annihilate it; NumPy has nan there."""


class EngineError(TensorelError, RuntimeError):
    """The engine failed (a bug of ours, or of the machine), or is none that we know."""
