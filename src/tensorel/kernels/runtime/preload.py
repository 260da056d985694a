"""A machine that has compiled nothing yet loads LLVM while its user still makes tensors.

Loading LLVM takes as long as compiling a small kernel, and the first pass over any code half as
long again: its own pages come from the disk. Both happen beside the caller, in a thread that ends
with them. Where kernels are on the disk already, LLVM may never be needed, and is not loaded."""

from __future__ import annotations

import contextlib
import os
import threading

from tensorel.errors import EngineError
from tensorel.kernels.runtime import compiler, kernel_cache

pending = True

_SMALL = """
define i32 @kernel(ptr noalias %a, ptr noalias %b, i64 %n) {
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %end
body:
  %p = getelementptr inbounds double, ptr %a, i64 %i
  %q = getelementptr inbounds double, ptr %b, i64 %i
  %x = load double, ptr %p
  %y = load double, ptr %q
  %z = fmul double %x, %y
  store double %z, ptr %q
  %next = add nsw i64 %i, 1
  br label %head
end:
  ret i32 0
}
"""


def load_early() -> None:
    """Called when sparse tensors are made; does something once in a process, if at all."""
    global pending
    if not pending:
        return
    pending = False
    if len(_cores()) > 1 and kernel_cache.is_empty():
        with contextlib.suppress(RuntimeError):  # no more threads: then later
            threading.Thread(target=_load, name="tensorel-llvm").start()


def _load() -> None:
    with contextlib.suppress(EngineError, OSError, ImportError):  # who compiles will hear of it
        compiler.rehearse(_SMALL)


def _cores() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))
