"""The command ``kcm-lite``.

Exit codes: 0 all went well, 1 an expectation did not hold, 2 the input is wrong.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from kcm_lite import __version__

EPILOG = """\
examples:
  kcm-lite simulate web.yaml                     a manifest: what becomes of it in a minute
  kcm-lite simulate k8s/ --until 5m --nodes 10   all manifests of a directory
  helm template . | kcm-lite simulate -          from standard input
  kcm-lite simulate web.yaml --set-image app:2 --fail-ready 20%
                                                 a new image, and every fifth pod never gets ready
  kcm-lite simulate web.yaml --set-image app:2 --do "undo, at: 40"
                                                 and it is taken back ten seconds later
  kcm-lite simulate web.yaml --do "nodeDeath, node: 1" --until 10m
                                                 a machine dies after 30 seconds
  kcm-lite simulate job.yaml --fail 30% --duration 20s..40s
  kcm-lite simulate web.yaml --explain deploy/web
                                                 and why: what was decided, what held it up
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
        if sys.stdout is not None:  # it is None if the caller closed it
            sys.stdout.flush()
        return code
    except BrokenPipeError:  # whoever read our output has had enough
        _forget_output()
        return 0
    except OSError as error:
        if error.filename is not None:
            raise
        _forget_output()
        return _complain(f"standard output: {error.strerror}")
    except KeyboardInterrupt:
        logging.disable()  # asyncio would complain of the task that was interrupted
        return 130


def _forget_output() -> None:
    """Let what is still to be printed go nowhere, so that Python ends without a complaint."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
    _add(sim, "--scenario", "FILE", "a scenario to go with the manifests")
    _add(
        sim,
        "--until",
        "TIME",
        "how long to simulate: 90, 90s, 5m, 1h30m (default: as the scenario says; 60s; with "
        "a question or a Job until nothing is left to happen, an hour at most)",
        _duration,
    )
    _add(sim, "--seed", "N", "of the random numbers (default 0)", _count)
    _add(sim, "--nodes", "N", "how many nodes (default 3)", _nodes)
    rules = "by whose rules: 1.22, or another since 1.20 (default: the latest)"
    _add(sim, "--release", "X.Y", rules, _release)
    rate = "requests a second of each controller; 0: no limit (default 20, as upstream)"
    _add(sim, "--qps", "N", rate, _rate)
    _add(sim, "--burst", "N", "requests at once (default 30)", _burst)
    _add(sim, "--explain", "KIND/NAME", "also tell why things happened to this object", _reference)
    sim.add_argument("--all", action="store_true", help="print every line, however many")
    _add(
        sim,
        "--json",
        "FILE",
        "also write timeline, objects, outcomes as JSON; - is standard output, "
        "and the report then goes to standard error",
    )
    _add(sim, "--html", "FILE", "also write one page with plots; - likewise")
    group = sim.add_argument_group("questions about one workload of plain manifests")
    _add(group, "--target", "KIND/NAME", "which one, if there are several: deployment/web")
    group.add_argument(
        "--set-image",
        action="append",
        default=[],
        metavar="[NAME=]IMAGE",
        help="Deployment: give a container another image; again for another container",
    )
    group.add_argument(
        "--do",
        action="append",
        default=[],
        metavar="ACTION",
        help="any action or fault of a scenario, with its keys, at --at if it does not say when: "
        '"undo", "pause, at: 40", "nodeDeath, node: 1"; again for another',
    )
    for flag, metavar, convert, text in QUESTIONS:
        _add(group, flag, metavar, text, convert)
    return top


def _add(
    group: argparse._ActionsContainer,
    flag: str,
    metavar: str,
    text: str,
    convert: Callable[[str], Any] = str,
) -> None:
    """Add an option with a value, and have argparse print what a converter says of a bad one."""

    def check(text: str) -> Any:
        try:
            return convert(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    group.add_argument(flag, metavar=metavar, type=check, help=text)


def _duration(text: str) -> float:
    from kcm_lite.sim.durations import parse_duration

    return parse_duration(text)


def _span(text: str) -> Any:
    from kcm_lite.sim.chance import parse_span

    return parse_span(text)


def _share(text: str) -> Any:
    from kcm_lite.sim.chance import parse_share

    return parse_share(text)


def _reference(text: str) -> tuple[str, str]:
    """Return ``kind/name`` and the namespace, which may be empty."""
    from kcm_lite.sim.kinds import resource_named

    parts = text.split("/")
    if len(parts) not in (2, 3) or not all(parts):
        raise ValueError(f'got "{text}", want kind/name or kind/namespace/name: rs/web')
    resource_named(parts[0])
    return f"{parts[0]}/{parts[-1]}", parts[1] if len(parts) == 3 else ""


def _count(
    text: str, most: float = math.inf, want: str = "a whole number >= 0", least: int = 0
) -> int:
    if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
        raise ValueError(f'got "{text}", want {want}')
    return int(text)


def _nodes(text: str) -> int:
    from kcm_lite.sim.scenario import MOST_NODES

    return _count(text, MOST_NODES, f"a whole number from 0 to {MOST_NODES}")


def _release(text: str) -> str:
    from kcm_lite.sim.scenario import RELEASES

    if text not in RELEASES:
        raise ValueError(f'got "{text}", want {RELEASES[0]} to {RELEASES[-1]}')
    return text


def _burst(text: str) -> int:
    return _count(text, want="a whole number >= 1", least=1)


def _exit_code(text: str) -> int:
    return _count(text, 255, "a whole number from 0 to 255")


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not 0 <= rate < 1e9:
        raise ValueError(f'got "{text}", want a number >= 0')
    return rate


QUESTIONS: tuple[tuple[str, str, Callable[[str], Any], str], ...] = (
    ("--scale", "N", _count, "Deployment, ReplicaSet: ask for so many pods"),
    ("--at", "TIME", _duration, "when --set-image, --scale and --do happen (default 30s)"),
    (
        "--fail-ready",
        "SHARE",
        _share,
        "such a part of the pods, of the new template if there is one, never gets ready: 20%%",
    ),
    (
        "--start",
        "TIME|RANGE",
        _span,
        "from having a node to running: 5s, or drawn for each pod: 5s..20s (default 1s)",
    ),
    ("--ready", "TIME|RANGE", _span, "from running to ready (default 1s)"),
    ("--duration", "TIME|RANGE", _span, "Job: from running to the end (default 10s)"),
    (
        "--exit-code",
        "N",
        _exit_code,
        "Job: of all pods, or of those that --fail (default 0, or 1 of those that fail)",
    ),
    ("--fail", "SHARE", _share, "Job: such a part of the pods exits with this code: 30%%"),
)
"""Option, value, converter, help."""


def _simulate(args: argparse.Namespace) -> int:
    from kcm_lite.api.yaml import ManifestError
    from kcm_lite.sim.check import BadInput
    from kcm_lite.sim.questions import Questions
    from kcm_lite.sim.simulate import (
        Options,
        as_json,
        check_target,
        read_input,
        report,
        shortened,
        simulate,
        write_file,
    )

    given = {k: tuple(v) if isinstance(v, list) else v for k, v in vars(args).items()}

    def part(kind: Any) -> dict[str, Any]:
        return {f.name: given[f.name] for f in fields(kind) if f.name in given}

    options = Options(**part(Options), questions=Questions(**part(Questions)))
    targets = [t for t in (args.json, args.html) if t is not None]
    if len({*targets}) < len(targets):
        return _complain(f"--json and --html: only one of them can go to {targets[0]}")
    try:
        html = _page_writer() if args.html is not None else None
        for target in targets:
            if target != "-":
                check_target(target)
        run = simulate(read_input(options))
    except BadInput as error:
        return _complain(*error.lines())
    except ManifestError as error:
        return _complain(str(error))
    except OSError as error:
        return _complain(f"{error.filename}: {error.strerror}")
    out = sys.stderr if "-" in targets else sys.stdout
    print("\n".join(report(run, every_line=args.all)), file=out)
    if args.explain is not None:
        ref, namespace = args.explain
        told = str(run.cluster.explain(ref, namespace=namespace)).splitlines()
        print("", *shortened(told, args.all), sep="\n", file=out)
    texts = {}
    if args.json is not None:
        texts[args.json] = json.dumps(as_json(run), indent=1, ensure_ascii=False) + "\n"
    if html is not None:
        texts[args.html] = html(run)
    for target, text in texts.items():
        if target == "-":
            print(text, end="")
            continue
        try:
            write_file(target, text)
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
