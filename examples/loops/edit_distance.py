"""Words nearest to another: edit distances by dynamic programming, in order and natively.

    python examples/loops/edit_distance.py [word]
"""

import sys

import numpy as np

import tensorel as tr

WORDS = ["tensor", "sensor", "tenor", "temper", "matrix", "metric", "vector", "victor", "index",
         "scalar"]


@tr.loops
def distances(text, starts, word):
    """The edit distance of each word of a text to one word; words begin at ``starts``."""
    m = len(word)
    found = np.zeros(len(starts) - 1, dtype=np.int64)
    before, now = np.zeros(m + 1, dtype=np.int64), np.zeros(m + 1, dtype=np.int64)
    for w in range(len(starts) - 1):
        for j in range(m + 1):
            before[j] = j
        for i in range(starts[w], starts[w + 1]):
            now[0] = i - starts[w] + 1
            for j in range(m):
                cost = 0 if text[i] == word[j] else 1
                now[j + 1] = min(before[j] + cost, now[j] + 1, before[j + 1] + 1)
            before, now = now, before
        found[w] = before[m]
    return found


def letters(word: str) -> np.ndarray:
    return np.array([ord(c) for c in word])


def main(word: str) -> None:
    starts = np.cumsum([0, *map(len, WORDS)])
    found = distances(letters("".join(WORDS)), starts, letters(word)).to_numpy()
    for k in np.argsort(found, kind="stable")[:3]:
        print(f"{WORDS[k]}: {found[k]}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "tensel")
