"""Locks after a fork: if another thread holds one, nothing releases the child's copy."""

from __future__ import annotations

import os
from typing import Any, TypeVar

L = TypeVar("L", bound=Any)


def renewed(lock: L) -> L:
    """A lock that lives as long as the process; the child of a fork finds it free.

    >>> from threading import Lock
    >>> renewed(Lock()).locked()
    False
    """
    os.register_at_fork(after_in_child=lock._at_fork_reinit)
    return lock
