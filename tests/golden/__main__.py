"""Replay recorded runs: ``python -m tests.golden [DIR] [--only GLOB ...] [--score FILE]``.

DIR (default: the project's own recordings) holds ``scenarios/ID.yaml`` and ``golden/ID.json[.gz]``.
One line per run with its strict, fair and time parts; a run whose kinds or controllers are not
built yet is skipped. Exit 1 when a run failed, 2 when DIR or a file in it cannot be used.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.golden.replay import OWN, find_runs, replay, score_document


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("dir", nargs="?", type=Path, default=OWN, help="the recordings")
    parser.add_argument(
        "--only", nargs="+", metavar="GLOB", default=["*"], help="which runs, by id"
    )
    parser.add_argument("--score", type=Path, metavar="FILE", help="write the scores as JSON")
    parser.add_argument("-v", "--verbose", action="store_true", help="every difference in full")
    args = parser.parse_args(argv)
    try:
        runs = find_runs(args.dir, args.only)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    results = []
    for run in runs:
        result = replay(run)
        results.append(result)
        print(result.line(), flush=True)
        for line in result.differences(5 if not args.verbose else 10_000):
            print(f"    {line if args.verbose else line[:300]}")
    passed, failed, skipped = (
        sum(r.status == s for r in results) for s in ("passed", "failed", "skipped")
    )
    if args.score is not None:
        args.score.write_text(score_document(results), encoding="utf-8")
    print(f"{skipped} skipped")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
