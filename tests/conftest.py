"""Tests plan by the shipped costs, whatever was calibrated on the machine."""

from __future__ import annotations

import os

os.environ["TENSOREL_COSTS"] = "shipped"
