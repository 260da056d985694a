"""Other ways to write windows and convolutions: names of passes, what they do, their texts, and how
many times less their plans must cost (a copy of all windows leaves the caches), and whether they
add in another order."""

from __future__ import annotations

from collections.abc import Callable

from tensorel.plan.definitions import Program
from tensorel.plan.variants.partial_windows import partial_windows
from tensorel.plan.variants.stored_windows import stored_windows
from tensorel.plan.variants.transforms import transforms
from tensorel.plan.variants.written_windows import written_windows

WINDOW_FORMS: tuple[tuple[str, Callable[[Program], Program | None], str, float, bool], ...] = (
    ("partial_windows", partial_windows, "windows in parts", 1.0, True),
    ("store_windows", stored_windows, "windows stored", 2.0, True),
    ("write_windows", written_windows, "windows written out", 1.0, False),
    ("transforms", transforms, "by transforms", 1.0, True),
)
