"""References of Ray: what they hold, and where that lies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def read(ray: Any, ready: list[Any], timeout: float | None = None) -> list[Any]:
    """What these references hold; for one that holds an error, the error."""
    if not ready:
        return []
    try:
        found: list[Any] = ray.get(ready, timeout=timeout)
    except Exception as problem:  # of Ray, or of a class that Ray makes of its own and another
        if len(ready) == 1:
            return [problem]
        half = len(ready) // 2
        return read(ray, ready[:half], timeout) + read(ray, ready[half:], timeout)
    return found


def locate(ray: Any, refs: Mapping[int, Any], sites: Mapping[str, int]) -> dict[int, set[int]]:
    """The sites at which these lie, as far as the driver knows, which owns them. When a result is
    lost, Ray puts the news of that in its place, at the driver's node, and sends it to sites that
    wait for the result: what lies at the driver's node is looked at."""
    from ray.experimental import get_local_object_locations

    known = get_local_object_locations(list(refs.values()))
    here = ray.get_runtime_context().get_node_id()
    found: dict[int, set[int]] = {}
    for n, ref in refs.items():
        nodes = known.get(ref, {}).get("node_ids") or ()
        gone = here in nodes and isinstance(read(ray, [ref], 0)[0], ray.exceptions.ObjectLostError)
        found[n] = set() if gone else {sites[node] for node in nodes if node in sites}
    return found
