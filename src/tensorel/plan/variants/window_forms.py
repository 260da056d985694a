"""Other ways to write windows and convolutions: names of passes, what they do, and their texts."""

from __future__ import annotations

from collections.abc import Callable

from tensorel.plan.definitions import Program
from tensorel.plan.variants.partial_windows import partial_windows
from tensorel.plan.variants.stored_windows import stored_windows
from tensorel.plan.variants.transforms import transforms
from tensorel.plan.variants.written_windows import written_windows

WINDOW_FORMS: tuple[tuple[str, Callable[[Program], Program | None], str], ...] = (
    ("partial_windows", partial_windows, "windows in parts"),
    ("store_windows", stored_windows, "windows stored"),
    ("write_windows", written_windows, "windows written out"),
    ("transforms", transforms, "by transforms"),
)
