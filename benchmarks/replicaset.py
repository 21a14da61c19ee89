"""How fast a ReplicaSet gets its pods, and how much memory that takes.

    python benchmarks/replicaset.py [--sizes 100 1000 10000] [--repeat 3] [--json FILE]

Every size runs in a process of its own, so that peak memory is that run's alone; of the repeats the
fastest counts. A run goes from the create of the set to the status that says all pods are ready,
without client limits, recording writes only. Beside the seconds on the wall stand those of the CPU:
there is one thread, so they are what a quiet machine would take, and what the aims are about.
"""

from __future__ import annotations

from typing import Any

from runs import HEAD, best, costs, finish, parser, tell, web

AIMS = {1_000: (0.5, 400.0), 10_000: (5.0, 400.0)}
GROWTH = 1.2
"""Time per pod at 10,000 pods over that at the size before: no more than this."""


def all_ready(pods: int) -> dict[str, Any]:
    """Create a set and let time pass until all its pods are ready."""
    from kcm_lite.sim.cluster import Cluster

    def run() -> Cluster:
        cluster = Cluster(nodes=max(3, pods // 100), qps=0, detail=False)
        cluster.apply(web("ReplicaSet", pods))
        while cluster.object("rs/web").status.ready_replicas < pods:
            cluster.run_for(0.25)
            assert cluster.now < 600, "the pods never get ready"
        return cluster

    return {"pods": pods, **costs(run)}


def main() -> int:
    """Measure, print the table, and return 1 if an aim is missed."""
    args = parser(__doc__, [100, 1_000, 10_000]).parse_args()
    runs: list[dict[str, Any]] = []
    print(HEAD)
    for pods in args.sizes:
        run = best(args.repeat, all_ready, pods)
        tell(run, (runs or [run])[-1])
        runs.append(run)
    return finish(args.json, runs, "pods", AIMS, GROWTH)


if __name__ == "__main__":
    raise SystemExit(main())
