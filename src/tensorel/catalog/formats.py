"""Formats as texts that a later process understands."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tensorel.algebra.ops import DType
from tensorel.errors import StorageError, TensorelError
from tensorel.storage.format import Format
from tensorel.storage.registry import MAPPING, resolve
from tensorel.storage.stack import Stack
from tensorel.storage.stored import Stored


def text_of(stored: Stored) -> str:
    """A text from which ``resolve`` makes the tensor's format, or one with the same levels: a
    user's mapping that describes CSR is kept as csr."""
    format = stored.format
    for text in (format.text, *_others(format)):
        try:
            found = resolve(text, stored.shape, stored.dtype)
        except TensorelError:
            continue
        if found == format or (
                type(found) is type(format) is Stack
                and (found.order, found.levels) == (format.order, format.levels)):
            return text
    raise StorageError(
        f"a tensor in the format {format.name!r} cannot be kept: no later process would know it",
        hint="register the format under that name, or convert the tensor with T.to_format")


def shown(text: str) -> str:
    """The text for people: of a user's mapping its name."""
    if not text.startswith(MAPPING):
        return text
    try:
        return str(json.loads(text.removeprefix(MAPPING))[0])
    except (ValueError, LookupError, TypeError):
        return text


def _others(format: Format) -> Iterator[str]:
    """Names of stacks that may have the same levels."""
    if type(format) is not Stack:
        return
    axes = ",".join(map(str, format.order))
    yield from ("dense", "dense_f", "coo", "csr", "csc", "dcsr", "dcsc", f"csf({axes})")
    for first in range(format.rank + 1):
        for last in range(first, format.rank + 1):
            parts = format.order[:first], format.order[first:last], format.order[last:]
            yield ";".join(",".join(map(str, p)) for p in parts[: 3 if parts[2] else 2])


def format_of(text: str, stored_in: str, shape: tuple[int, ...], dtype: DType) -> Format:
    """The format of a text in a catalog."""
    try:
        return resolve(text, shape, dtype)
    except TensorelError as error:
        raise StorageError(
            f"{stored_in} holds a tensor in the format {text!r}: {error.message}",
            hint="install or register the package that has this format") from error
