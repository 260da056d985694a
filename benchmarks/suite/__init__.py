"""The benchmark suite: cases, peers, measurement and reports."""
