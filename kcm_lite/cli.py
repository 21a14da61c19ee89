"""The command ``kcm-lite``.

Exit codes: 0 all went well, 1 an expectation did not hold, 2 the input is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from kcm_lite import __version__

T = TypeVar("T")

EPILOG = """\
examples:
  kcm-lite simulate web.yaml                     a manifest: what becomes of it in a minute
  kcm-lite simulate k8s/ --until 5m --nodes 10   all manifests of a directory
  helm template . | kcm-lite simulate -          from standard input
  kcm-lite simulate web.yaml --set-image app:2 --fail-ready 20%
                                                 a new image, and every fifth pod never gets ready
  kcm-lite simulate job.yaml --fail 30% --duration 20s..40s
  kcm-lite simulate scenario.yaml --html run.html
                                                 a scenario with timed actions and expectations

A scenario is a YAML document with objects, actions, a kubelet profile and expectations; see
the documentation of kcm_lite.sim.scenario.

exit codes: 0 the run ended and every expectation held, 1 one did not, 2 the input is wrong
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    managing = words[:1] == ["controller-manager"]  # its flags are Go's, not argparse's
    args = None if managing else parser().parse_args(words)
    try:
        code: int = _controller_manager(words[1:]) if args is None else args.run(args)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # whoever read our output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(
        prog="kcm-lite",
        description="Kubernetes' controller manager, rebuilt in Python and run in virtual time.",
    )
    top.add_argument("--version", action="version", version=f"kcm-lite {__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    commands.add_parser(
        "controller-manager", help="run kube-controller-manager, with its flags", add_help=False
    )
    sim = commands.add_parser(
        "simulate",
        help="run manifests or a scenario in a simulated cluster",
        description="Put manifests into a simulated cluster, or run a scenario, and print what "
        "happens, second by second, and how it ends.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    sim.set_defaults(run=_simulate)
    sim.add_argument(
        "paths",
        nargs="+",
        metavar="FILE|DIR|-",
        help="manifests (YAML or JSON, several documents, List kinds), or one scenario",
    )
    sim.add_argument("--scenario", metavar="FILE", help="a scenario to go with the manifests")
    sim.add_argument(
        "--until",
        type=_checked(_duration),
        metavar="TIME",
        help="how long to simulate: 90, 90s, 5m, 1h30m (default: as the scenario says; 60s; with "
        "a question or a Job until nothing is left to happen, an hour at most)",
    )
    sim.add_argument(
        "--seed", type=_checked(_count), metavar="N", help="of the random numbers (default 0)"
    )
    sim.add_argument(
        "--nodes", type=_checked(_count), metavar="N", help="how many nodes (default 3)"
    )
    sim.add_argument(
        "--qps",
        type=_checked(_rate),
        metavar="N",
        help="requests a second of each controller; 0: no limit (default 20, as upstream)",
    )
    sim.add_argument(
        "--burst", type=_checked(_count), metavar="N", help="requests at once (default 30)"
    )
    sim.add_argument("--all", action="store_true", help="print every line, however many")
    sim.add_argument(
        "--json", metavar="FILE", help="also write timeline, objects, outcomes as JSON"
    )
    sim.add_argument("--html", metavar="FILE", help="also write one page with plots")
    _add_questions(sim)
    return top


def _add_questions(sim: argparse.ArgumentParser) -> None:
    """Add the options that ask something about plain manifests."""
    group = sim.add_argument_group("questions about one workload of plain manifests")
    group.add_argument(
        "--target", metavar="KIND/NAME", help="which one, if there are several: deployment/web"
    )
    group.add_argument(
        "--set-image",
        action="append",
        default=[],
        metavar="[NAME=]IMAGE",
        help="Deployment: give a container another image; again for another container",
    )
    group.add_argument(
        "--scale",
        type=_checked(_count),
        metavar="N",
        help="Deployment, ReplicaSet: ask for so many pods",
    )
    group.add_argument(
        "--at",
        type=_checked(_duration),
        metavar="TIME",
        help="when --set-image and --scale happen (default 30s)",
    )
    group.add_argument(
        "--fail-ready",
        type=_checked(_share),
        metavar="SHARE",
        help="such a part of the pods, of the new template if there is one, never gets ready: 20%%",
    )
    group.add_argument(
        "--start",
        type=_checked(_span),
        metavar="TIME|RANGE",
        help="from having a node to running: 5s, or drawn for each pod: 5s..20s (default 1s)",
    )
    group.add_argument(
        "--ready",
        type=_checked(_span),
        metavar="TIME|RANGE",
        help="from running to ready (default 1s)",
    )
    group.add_argument(
        "--duration",
        type=_checked(_span),
        metavar="TIME|RANGE",
        help="Job: from running to the end (default 10s)",
    )
    group.add_argument(
        "--exit-code",
        type=_checked(_exit_code),
        metavar="N",
        help="Job: of all pods, or of those that --fail (default 0, or 1 of those that fail)",
    )
    group.add_argument(
        "--fail",
        type=_checked(_share),
        metavar="SHARE",
        help="Job: such a part of the pods exits with this code: 30%%",
    )


def _checked(convert: Callable[[str], T]) -> Callable[[str], T]:
    """Have argparse print what a converter has to say about a bad value."""

    def check(text: str) -> T:
        try:
            return convert(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return check


def _duration(text: str) -> float:
    from kcm_lite.sim.durations import parse_duration

    return parse_duration(text)


def _span(text: str) -> Any:
    from kcm_lite.sim.chance import parse_span

    return parse_span(text)


def _share(text: str) -> Any:
    from kcm_lite.sim.chance import parse_share

    return parse_share(text)


def _exit_code(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 255:
        raise ValueError(f'got "{text}", want a whole number from 0 to 255')
    return int(text)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ValueError(f'got "{text}", want a whole number >= 0')
    return int(text)


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not 0 <= rate < 1e9:
        raise ValueError(f'got "{text}", want a number >= 0')
    return rate


def _simulate(args: argparse.Namespace) -> int:
    from kcm_lite.api.yaml import ManifestError
    from kcm_lite.sim.check import BadInput
    from kcm_lite.sim.questions import Questions
    from kcm_lite.sim.simulate import Options, as_json, read_input, report, simulate, write_file

    options = Options(
        paths=tuple(args.paths),
        scenario=args.scenario,
        until=args.until,
        seed=args.seed,
        nodes=args.nodes,
        qps=args.qps,
        burst=args.burst,
        questions=Questions(
            target=args.target,
            set_image=tuple(args.set_image),
            scale=args.scale,
            at=args.at,
            fail_ready=args.fail_ready,
            start=args.start,
            ready=args.ready,
            exit_code=args.exit_code,
            fail=args.fail,
            duration=args.duration,
        ),
    )
    try:
        html = _page_writer() if args.html else None
        run = simulate(read_input(options))
    except BadInput as error:
        return _complain(*error.lines())
    except ManifestError as error:
        return _complain(str(error))
    except OSError as error:
        return _complain(f"{error.filename}: {error.strerror}")
    print("\n".join(report(run, every_line=args.all)))
    try:
        if args.json:
            text = json.dumps(as_json(run), indent=1, ensure_ascii=False)
            write_file(args.json, text + "\n")
        if html is not None:
            write_file(args.html, html(run))
    except OSError as error:
        return _complain(f"{error.filename}: {error.strerror}")
    return 0 if run.ok else 1


def _controller_manager(words: list[str]) -> int:
    from kcm_lite.sim.managed import Refused, command

    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    try:
        lines, ok = command(words, columns=columns, now=datetime.now(UTC), say=_say)
    except Refused as error:
        return _complain(*map(str, error.lines), code=1)
    for line in lines:
        print(line)
    return 0 if ok else 1


def _say(line: str) -> None:
    print(line, flush=True)


def _page_writer() -> Callable[..., str]:
    """Return the function that writes the page; it needs the viz extra.

    Raises:
        BadInput: The extra is not installed.
    """
    from kcm_lite.sim.check import BadInput, Problem

    try:
        from kcm_lite.viz.report import page
    except ImportError as error:
        text = f'--html needs the viz extra ({error.name}): pip install "kcm-lite[viz]"'
        raise BadInput([Problem("", text)]) from None
    return page


def _complain(*lines: str, code: int = 2) -> int:
    for line in lines:
        print(f"kcm-lite: {line}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
