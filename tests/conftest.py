"""Tests plan by the shipped costs, whatever was calibrated on the machine, and hear Ctrl-C, also
where a shell started them in the background, which it does with the signal ignored."""

from __future__ import annotations

import os
import signal

os.environ["TENSOREL_COSTS"] = "shipped"


def pytest_configure() -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
