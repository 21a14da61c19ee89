# Generated from book/08b_job_rules.ipynb by tools/tangle.py; edit it there.

"""Completion indexes: sets of numbers, kept and written as intervals.

>>> done = parse_indexes("1,3-5", completions=10)
>>> format_indexes(with_indexes(done, [2, 7]))
'1-5,7'

See: chapter *Job: the rules*; upstream ``pkg/controller/job/indexed_job_utils.go``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping

from kcm_lite.api.batch import COMPLETION_INDEX
from kcm_lite.api.core import Pod
from kcm_lite.api.golang import parse_int

# %% book/08b_job_rules.ipynb#7a7c0e93
Interval = tuple[int, int]
Intervals = tuple[Interval, ...]
"""First and last index of each run, in order, with gaps between them."""


def merge(a: Intervals, b: Intervals) -> Intervals:
    """Return the union of two ordered lists of intervals; neighbours become one."""
    out: list[Interval] = []
    i = j = 0
    while i < len(a) or j < len(b):
        if j == len(b) or (i < len(a) and a[i][0] < b[j][0]):
            first, last = a[i]
            i += 1
        else:
            first, last = b[j]
            j += 1
        if not out or first > out[-1][1] + 1:
            out.append((first, last))
        elif out[-1][1] < last:
            out[-1] = out[-1][0], last
    return tuple(out)


def with_indexes(intervals: Intervals, indexes: Iterable[int]) -> Intervals:
    """Return the intervals with more indexes, given in any order."""
    return merge(intervals, tuple((index, index) for index in sorted(set(indexes))))


def total(intervals: Intervals) -> int:
    """Return how many indexes there are."""
    return sum(last - first + 1 for first, last in intervals)


def has_index(intervals: Intervals, index: int) -> bool:
    """Whether an index is in one of the intervals."""
    at = bisect_left(intervals, index, key=lambda interval: interval[1])
    return at < len(intervals) and intervals[at][0] <= index


# %% book/08b_job_rules.ipynb#f11537c6
def format_indexes(intervals: Intervals) -> str:
    """Return the text that the status holds: ``0,2,3,5-7`` (two neighbours are not a range)."""
    return ",".join(
        str(first) if first >= last else f"{first}{',' if last == first + 1 else '-'}{last}"
        for first, last in intervals
    )


def parse_indexes(text: str, completions: int) -> Intervals:
    """Read such a text; what is no number is skipped, what is too large is cut off."""
    out: list[Interval] = []
    for part in text.split(",") if text else ():
        ends = part.split("-")
        try:
            first = parse_int(ends[0])
            if first >= completions:
                break
            last = min(parse_int(ends[1]), completions - 1) if len(ends) > 1 else first
        except ValueError:
            continue
        if out and out[-1][1] == first - 1:
            out[-1] = out[-1][0], last
        else:
            out.append((first, last))
    return tuple(out)


# %% book/08b_job_rules.ipynb#3835ef43
UNKNOWN = -1
"""The index of a pod that has none, or none that can be read."""


def number_in(annotations: Mapping[str, str], name: str, default: int = 0) -> int:
    """Return the number that an annotation holds; the default if there is none or it is bad."""
    text = annotations.get(name)
    if text is None:
        return default
    try:
        number = parse_int(text)
    except ValueError:
        return default
    return number if number >= 0 else default


def completion_index(pod: Pod) -> int:
    """Return the index that a pod works on."""
    return number_in(pod.metadata.annotations, COMPLETION_INDEX, UNKNOWN)


def indexes_of(pods: Iterable[Pod]) -> set[int]:
    """Return the indexes of some pods."""
    found = {completion_index(pod) for pod in pods}
    return found - {UNKNOWN}


def first_pending(taken: Intervals, count: int, completions: int) -> list[int]:
    """Return the first ``count`` indexes below ``completions`` that are not taken."""
    found: list[int] = []
    candidate = 0
    for first, last in (*taken, (completions, completions)):
        end = min(first, completions, candidate + count - len(found))
        found += range(candidate, end)
        candidate = max(candidate, last + 1)
        if len(found) == count:
            break
    return found
