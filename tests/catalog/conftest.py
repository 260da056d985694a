"""Tests of databases do not wait for the disk; those of crashes see what is asked of it."""

from __future__ import annotations

import pytest
from catalog_support import Careless

from tensorel.base import directory
from tensorel.catalog import disk


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (disk, directory):
        monkeypatch.setattr(module, "os", Careless())
