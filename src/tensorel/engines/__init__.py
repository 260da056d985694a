"""Engines: where programs run.

>>> import tensorel as tr
>>> A = tr.asarray([[1.0, 2.0], [3.0, 4.0]])
>>> with tr.engines.local(sites=2) as e:
...     (A @ A).compute(engine=e).to_numpy().tolist()
[[7.0, 10.0], [15.0, 22.0]]
"""

from __future__ import annotations

from tensorel.config import parse_bytes
from tensorel.engines.sites.ray_cluster import RayCluster
from tensorel.engines.sites.sites_engine import SitesEngine
from tensorel.engines.sites.threads import ThreadCluster
from tensorel.errors import ValueError_

MAX_THREADS = 1 << 16  # sites that plans can be studied for

__all__ = ["local", "ray"]


def local(sites: int = 4, memory: object = None) -> SitesEngine:
    """Sites that are threads of this process; bytes are counted as if they were sent. Plans for
    thousands of sites can be looked at (``explain``) without data.

    >>> local(sites=3).stats()["sites"]
    3
    """
    if isinstance(sites, bool) or not isinstance(sites, int) or not 1 <= sites <= MAX_THREADS:
        raise ValueError_(f"sites={sites!r} is no number of sites", hint="a whole number from 1 on")
    return SitesEngine(ThreadCluster(sites, None if memory is None else parse_bytes(memory)))


def ray(address: str | None = None, nodes: int | None = None, memory: object = None
        ) -> SitesEngine:
    """The nodes of a Ray cluster: joins the one at ``address`` ("auto", "host:port"), or starts one
    of ``nodes`` nodes on this machine. Needs the extra ``tensorel[ray]``."""
    return SitesEngine(RayCluster(address, nodes, None if memory is None else parse_bytes(memory)))
