"""Programs that are timed, and their sizes."""

from __future__ import annotations

TILES = 8  # parts of each axis of an operand, where a system asks for them

PROBLEMS: dict[str, tuple[str, tuple]] = {
    "8000 x 8000 x 8000": ("product", (8000, 8000, 8000)),
    "1k x 200k x 1k": ("product", (1000, 200000, 1000)),
    "1k x 20k x 20k": ("product", (1000, 20000, 20000)),
    "500 x 160k x 750": ("product", (500, 160000, 750)),
    "(A + B) @ C, 8000": ("sum", (8000,)),
    "Gram row sums, 8000": ("gram", (8000,)),
    "training step, 1000 x 20000 x 2000 x 2000": ("training", (1000, 20000, 2000, 2000)),
    "3-D convolution, 3 to 10 channels, 70 x 540 x 960":
        ("convolution", ((70, 540, 960), 3, 10, 3)),
    "factorization, 10000 x 10000, rank 50": ("factorization", (10000, 10000, 50)),
}
#: Not scaled: counts of channels, filters and extents of windows, and ranks.
FIXED = {"convolution": (False, True, True, True), "factorization": (False, False, True)}


def scaled(name: str, scale: float) -> tuple[str, tuple]:
    """A kind of program, and its sizes times ``scale``."""
    kind, sizes = PROBLEMS[name]

    def times(size):
        return tuple(map(times, size)) if isinstance(size, tuple) else max(round(size * scale), 1)

    fixed = FIXED.get(kind, (False,) * len(sizes))
    return kind, tuple([s if f else times(s) for s, f in zip(sizes, fixed)])
