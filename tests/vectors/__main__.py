"""python -m tests.vectors [DIR] [--only GLOB ...] [--score FILE]."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.vectors import OWN, adapters, files, replay, score_document


def main(argv: list[str] | None = None) -> int:
    """Replay a directory of vector files; exit 1 when a case failed, 2 when there is none."""
    parser = argparse.ArgumentParser(prog="python -m tests.vectors", description=__doc__)
    parser.add_argument("dir", nargs="?", type=Path, default=OWN, help="holds NAME.json[.gz]")
    parser.add_argument("--only", nargs="+", default=[], metavar="GLOB", help="names to replay")
    parser.add_argument("--score", type=Path, metavar="FILE", help="write the scores as JSON")
    args = parser.parse_args(argv)
    try:
        paths = list(files(args.dir, args.only))
    except FileNotFoundError as error:
        print(f"tests.vectors: {error}", file=sys.stderr)
        return 2
    known, scores = adapters(), []
    for path in paths:
        score = replay(path, known)
        scores.append(score)
        print(score.line, *score.differences, sep="\n    ", flush=True)
    passed, failed = sum(s.passed for s in scores), sum(s.failed for s in scores)
    skipped = sum(s.skipped.total() for s in scores)
    if args.score:
        args.score.write_text(score_document(scores), encoding="utf-8")
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
