"""How long a Job of many completions takes to simulate, and how much memory.

    python benchmarks/job.py [--sizes 1000 10000] [--parallelism 500] [--repeat 3] [--json FILE]

Every size runs in a process of its own; of the repeats the fastest counts. Of the pods, 5 % fail
(every twentieth), the others succeed after 10 s. A run goes from the create of the Job to its
Complete condition, without client limits, recording writes only. Seconds are of the CPU: there is
one thread, so they are what a quiet machine would take.
"""

from __future__ import annotations

from typing import Any

from runs import best, costs, finish, parser

AIMS = {10_000: (10.0, 500.0)}


def job(completions: int, parallelism: int) -> dict[str, Any]:
    """A Job that no number of failures ends."""
    spec = {"restartPolicy": "Never", "containers": [{"name": "work", "image": "work:1"}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "work"},
        "spec": {
            "completions": completions,
            "parallelism": parallelism,
            "backoffLimit": completions,
            "template": {"spec": spec},
        },
    }


def complete(completions: int, parallelism: int) -> dict[str, Any]:
    """Create a Job and let time pass until it is complete."""
    from kcm_lite.api.batch import is_job_finished
    from kcm_lite.sim.cluster import Cluster

    failed = 0

    def run() -> Cluster:
        nonlocal failed
        every_twentieth = list(range(20, completions * 2, 20))
        profile = {
            "readyAfter": 0,
            "exit": {"after": 10, "code": 0},
            "overrides": [{"match": {"index": every_twentieth}, "exit": {"after": 10, "code": 1}}],
        }
        cluster = Cluster(nodes=max(3, parallelism // 50), qps=0, detail=False, profile=profile)
        cluster.apply(job(completions, parallelism))
        while not is_job_finished(cluster.object("job/work")):
            cluster.run_for(1)
            assert cluster.now < 100_000, "the Job does not end"
        status = cluster.object("job/work").status
        assert status.succeeded == completions, status
        failed = status.failed
        return cluster

    taken = costs(run)
    return {"completions": completions, "failed": failed, **taken}


def main() -> int:
    """Measure, print the table, and return 1 if an aim is missed."""
    options = parser(__doc__, [1_000, 10_000])
    options.add_argument("--parallelism", type=int, default=500)
    args = options.parse_args()
    runs: list[dict[str, Any]] = []
    print("completions  failed   wall s    cpu s     MB   writes  us/write  virtual s")
    for size in args.sizes:
        run = best(args.repeat, complete, size, args.parallelism)
        runs.append(run)
        print(
            f"{size:>11,} {run['failed']:>7,} {run['seconds']:>8.2f} {run['cpu']:>8.2f} "
            f"{run['megabytes']:>6.0f} {run['writes']:>8,} "
            f"{1e6 * run['cpu'] / run['writes']:>9.0f} {run['virtual_seconds']:>10.0f}"
        )
    return finish(args.json, runs, "completions", AIMS)


if __name__ == "__main__":
    raise SystemExit(main())
