"""Loads every module that registers cases, in the order of the report."""

from __future__ import annotations

from importlib import import_module

MODULES = ("suite.products", "suite.shapes", "suite.tensors", "suite.reading")


def load() -> None:
    for module in MODULES:
        import_module(module)
