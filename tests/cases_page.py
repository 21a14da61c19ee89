"""The page that lists the cases, written from their files: ``python -m tests.cases_page``."""

from __future__ import annotations

import re
from pathlib import Path

from kcm_lite.sim.scenario import Scenario
from kcm_lite.viz.cases import read_cases

BOOK = Path(__file__).parents[1] / "book"
PAGE = BOOK / "12a_case_list.md"
GROUPS = {
    "rs": "ReplicaSets",
    "dep": "Deployments",
    "job": "Jobs",
    "gc": "The garbage collector",
    "wq": "The work queue",
}
HEAD = """\
<!-- Written by python -m tests.cases_page; the text stands in book/cases. -->

# The list of cases

Every case with its lesson, its file and the place where it was reported.
[The case library](12_cases.ipynb) shows how to run them.
"""


def page() -> str:
    """Return the page."""
    cases = read_cases(BOOK / "cases")
    parts = [HEAD]
    for prefix, heading in GROUPS.items():
        own = {stem: case for stem, case in cases.items() if stem.partition("-")[0] == prefix}
        parts += [f"## {heading}\n", *(entry(stem, case) for stem, case in own.items())]
    return "\n".join(parts)


def entry(stem: str, case: Scenario) -> str:
    """Return what the page says about a case."""
    links = ", ".join(map(linked, case.reference.split(", ")))
    file = f"{{download}}`{stem}.yaml <cases/{stem}.yaml>`"
    return (
        f"### {case.title}\n\n{case.lesson}\n\n{file}, release {case.release}. Reported: {links}\n"
    )


def linked(reference: str) -> str:
    """Return a reference with its address, if it is one, behind its last words."""
    address, _, note = reference.partition(" ")
    if not address.startswith("https://"):
        return reference
    name = address.removeprefix("https://").removeprefix("github.com/").rstrip("/")
    name = re.sub(r"/(issues|pull)/", "#", name)
    return f"[{name}]({address}) {note}".rstrip()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
