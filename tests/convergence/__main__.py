"""Crash the manager after each of its writes, in every scenario: does all come right again?

``python -m tests.convergence [--only ID ...] [--kind KIND ...] [--jobs N] [--points N]``

Kinds: crash, stale (it starts again with an old view), drop (its watches break). After the fault
the run must end like the undisturbed one and stay there, and the promises of the controllers must
hold all the time; what upstream does not keep, either, is explained in ``explained.py``. A failure
leaves a small scenario file. Exit 1 when something failed, 2 when an argument is wrong.

All 19,683 points take about an hour of processor time, half of it for ``rs-scale-1100``.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from tests.convergence.library import Sample, find_samples
from tests.convergence.points import KINDS, Point, check_points, problems, spread
from tests.convergence.repro import write_smallest
from tests.convergence.runs import run_to_end
from tests.convergence.table import Row, table_document

CHUNK = 100  # points that one process runs in one go


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    args = parser().parse_args(argv)
    try:
        samples = find_samples(args.only)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    kinds = list(dict.fromkeys(args.kind))
    rows: list[Row] = []
    bad: dict[Sample, list[Point]] = {}
    with ProcessPoolExecutor(args.jobs, get_context("fork")) as pool:
        for row, failed in run(pool, samples, kinds, args.points):
            rows.append(row)
            print(row.line(), flush=True)
            for point in failed[:3]:
                for failure in [f for f in point.failures if not f.explained][:3]:
                    print(f"    {point.kind} {point.k}: {failure.what}: {failure.text[:300]}")
            if failed:
                bad[next(s for s in samples if s.id == row.id)] = failed
    for line in write_smallest(bad, args.out):
        print(line)
    if args.table is not None:
        before = args.table.read_text(encoding="utf-8") if args.table.exists() else ""
        args.table.write_text(table_document(rows, kinds, before), encoding="utf-8")
    failures = sum(row.failed for row in rows)
    print(f"{sum(row.points for row in rows)} points, {failures} failed")
    return 1 if failures else 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    out = argparse.ArgumentParser(prog="python -m tests.convergence", description=__doc__)
    out.add_argument("--only", nargs="+", metavar="ID", default=["*"], help="which scenarios")
    out.add_argument("--kind", nargs="+", choices=KINDS, default=[*KINDS], help="which faults")
    out.add_argument("--jobs", type=positive, default=os.cpu_count(), help="how many processes")
    out.add_argument("--points", type=positive, help="at most so many a scenario and fault")
    out.add_argument(
        "--table", type=Path, metavar="FILE", help="put the results into a table (JSON)"
    )
    folder = Path(tempfile.gettempdir()) / "convergence"
    out.add_argument("--out", type=Path, metavar="DIR", default=folder, help="for failures")
    return out


def positive(text: str) -> int:
    """Read a number that is at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"got {text}, want a whole number >= 1")
    return int(text)


def run(
    pool: ProcessPoolExecutor, samples: Sequence[Sample], kinds: Sequence[str], most: int | None
) -> Iterator[tuple[Row, list[Point]]]:
    """Run every point; yield a row a scenario, in order, with the points that failed."""
    counts = [pool.submit(count, sample) for sample in samples]
    plans: list[tuple[Sample, int, list[str], list[Future[list[Point]]]]] = []
    total = done = 0
    for sample, future in zip(samples, counts, strict=True):
        writes, wrong = future.result()
        chunks = []
        for kind in kinds:
            ks = spread(writes, most)
            total += len(ks)
            for i in range(0, len(ks), CHUNK):
                chunks.append(pool.submit(check_points, sample, kind, ks[i : i + CHUNK]))
        plans.append((sample, writes, wrong, chunks))
    for sample, writes, wrong, chunks in plans:
        points: list[Point] = []
        for chunk in chunks:
            points += chunk.result()
            progress(done + len(points), total, sample.id)
        done += len(points)
        progress(0, 0, "")
        yield Row.of(sample, writes, wrong, points), [p for p in points if p.failed]


def count(sample: Sample) -> tuple[int, list[str]]:
    """Return how many writes there are without faults, and what is wrong even so."""
    ending = run_to_end(sample.scenario())
    return ending.writes, [f"{what}: {text}" for what, text in problems(ending, ending)]


def progress(done: int, total: int, name: str) -> None:
    """Show on a terminal how far it is; without a total, wipe the line."""
    if sys.stderr.isatty():
        text = (
            f"\r\x1b[K{done} of {total} points ({done / total:.0%}), {name}"
            if total
            else "\r\x1b[K"
        )
        sys.stderr.write(text)
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
