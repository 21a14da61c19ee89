"""What upstream, too, does not keep under these faults: one table, each entry with its reason."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tests.convergence.library import Sample


def anywhere(sample: Sample) -> bool:
    """Whether an explanation holds for a scenario: for every one."""
    return True


@dataclass(frozen=True)
class Explanation:
    """A deviation that is as it has to be.

    Attributes:
        name: In a few words.
        kinds: Under which faults.
        what: About what: a promise, ``end``, ``stay``.
        text: A regular expression that the failure's text matches.
        reason: Why; and where upstream does the same.
        applies: In which scenarios.
    """

    name: str
    kinds: tuple[str, ...]
    what: str
    text: str
    reason: str
    applies: Callable[[Sample], bool] = anywhere

    def covers(self, sample: Sample, kind: str, what: str, text: str) -> bool:
        """Whether this explains a failure."""
        return (
            kind in self.kinds
            and what == self.what
            and re.search(self.text, text) is not None
            and self.applies(sample)
        )


def has_success_policy(sample: Sample) -> bool:
    """Whether a Job can be over while pods of it run."""
    return has_field(sample, "successPolicy")


def has_unlike_pods(sample: Sample) -> bool:
    """Whether pods of one owner fare differently, so that it shows which of them stay."""
    return "overrides" in (sample.raw.get("kubelet") or {}) or any(
        obj["kind"] == "Pod" for obj in sample.raw["objects"]
    )


def has_failing_pods(sample: Sample) -> bool:
    """Whether a Job's pods fail, so that it waits between them."""
    return "exit" in (sample.raw.get("kubelet") or {}) and has_field(sample, "backoffLimit")


def has_deadline(sample: Sample) -> bool:
    """Whether a Job may take only so long."""
    return has_field(sample, "activeDeadlineSeconds")


def has_field(sample: Sample, name: str) -> bool:
    """Whether the spec of an object says so."""
    return any(name in obj.get("spec", {}) for obj in sample.raw["objects"])


def changes_twice(sample: Sample) -> bool:
    """Whether something is changed, and changed again."""
    return len(sample.raw.get("actions") or ()) > 1


STALE = ("stale",)

EXPLAINED: tuple[Explanation, ...] = (
    Explanation(
        "deleted before the reason was written",
        ("crash", "stale"),
        "end",
        r"^Job/\S+: with status\.failed=\d+$",
        "A Job that meets its success policy deletes its other pods and frees them in the same "
        "sync, uncounted. If the manager dies after the deletions and before the status says why, "
        "the next one finds pods that are being deleted, and those count as failed. Upstream: "
        "trackJobStatusAndRemoveFinalizers looks at isPodFailed before the reason of the end.",
        has_success_policy,
    ),
    Explanation(
        "a back-off that is forgotten",
        ("crash", "stale"),
        "end",
        r"^(Job/\S+: status\.failed=\d+, not \d+$|(\d+ x )?Pod \S+ is (missing|too much): )",
        "How many pods have failed in a row, and so how long to wait, is kept in memory. A new "
        "manager makes the next pod at once; a deadline or a limit then meets the pods at another "
        "moment, and one more or less has run. Upstream: podBackoffStore starts empty, and "
        "getNewFinishedPods skips pods that are noted already.",
        has_failing_pods,
    ),
    Explanation(
        "sets summed up from a cache",
        ("drop", "stale"),
        "surge",
        r"wants \d+ pods in all its sets, may want \d+$",
        "The Deployment controller keeps no account of its own writes: it sums up the sizes of the "
        "sets in its cache. After a broken watch the Deployments may be up to date before the sets "
        "are. The next sync puts it right. Upstream: NewRSNewReplicas, without expectations.",
    ),
    Explanation(
        "pods that an old view does not show",
        STALE,
        "size",
        r"has \d+ active pods, may have \d+$",
        "What a manager expects to see, and which versions it wrote, it keeps in memory. A new one "
        "that is served an old list creates pods again that it cannot see, and deletes the surplus "
        "later. Upstream: kubernetes/kubernetes#59848; expectations and ConsistencyStore start "
        "empty.",
    ),
    Explanation(
        "pods that an old view still shows",
        STALE,
        "enough",
        r"has \d+ active pods left, should keep \d+$",
        "Likewise the other way: it counts pods that have gone since, believes that there are too "
        "many and deletes one more; it is replaced. Upstream: manageReplicas, as above.",
    ),
    Explanation(
        "available pods of an old view",
        STALE,
        "floor",
        r"keeps \d+ of \d+ available pods, promised \d+$",
        "A rollout goes by the sizes and the status of its sets as its cache shows them; in an old "
        "view more pods are available. Upstream: reconcileOldReplicaSets, without expectations.",
    ),
    Explanation(
        "a deadline that passes unseen",
        STALE,
        "end",
        r"^Job/.* status\.conditions\.Failed=True DeadlineExceeded(;|$)",
        "While the manager reads an old replica a Job that was resumed stays as it was, and its "
        "time runs. Upstream: pastActiveDeadline goes by the start time in the status.",
        has_deadline,
    ),
    Explanation(
        "a status from an old object",
        STALE,
        "forward",
        r"has observed generation \d+, then \d+$",
        "After a conflict the status is written once more onto the live object, as it was computed "
        "from the old one. Upstream: updateReplicaSetStatus sets ObservedGeneration before its "
        "retry.",
    ),
    Explanation(
        "a pod that has ended unseen is a surplus",
        STALE,
        "freed",
        r"has let pod \S+ \((Succeeded|Failed)\) go before it was counted$",
        "A Job takes the finalizer off pods that it has no use for and deletes them, uncounted. In "
        "an old view the pod is active; by now it has ended. Another one does its work. Upstream: "
        "deleteJobPods patches what the cache shows.",
    ),
    Explanation(
        "a Job's pods on an old view",
        STALE,
        "end",
        r"^Job/\S+: ((; )?(with |without )?status\.(succeeded|failed)=\d+(, not (\d+|true))?)+$",
        "Pods that were created twice run and are counted, each once: more successes than "
        "completions, more failures than the limit. Upstream warns of TooManySucceededPods.",
    ),
    Explanation(
        "other pods after an old view",
        STALE,
        "end",
        r"^(\d+ x )?Pod[ /]",
        "Which pods are there at the end depends on which were created twice, and which of the "
        "surplus went. How many a set has, and how a Job counts its pods, is in their status, and "
        "that is compared.",
    ),
    Explanation(
        "other victims after an old view",
        STALE,
        "end",
        r"^ReplicaSet/\S+: ((; |with |without )*status\.(ready|available)Replicas=[0-9, not]+)+$",
        "Where pods differ for good (one never gets ready) and an old view decided who goes, "
        "another number of them is ready. Upstream ranks victims by what its cache shows.",
        has_unlike_pods,
    ),
    Explanation(
        "what came and went unseen",
        STALE,
        "end",
        r"^Job/\S+: without status\.conditions\.Suspended=False JobResumed$"
        r"|^\w+/.*: (with )?annotations\.deployment\S+/revision(-history)?=[0-9, not]+$"
        r"|^ReplicaSet/(?!.* spec\.replicas=).* is missing: ",
        "What a user changed and changed again while the manager read an old replica never was, "
        "for it: no condition says that a Job was suspended, a template has no (empty) set and no "
        "revision. Upstream: a sync sees the last state only.",
        changes_twice,
    ),
    Explanation(
        "the pod of an action has gone",
        STALE,
        "error",
        r"no pod is there to pick \(nth, n: \d+\)$",
        "The action means the n-th pod that was created, and that one was part of a surplus.",
    ),
)
"""All of them; the first that covers a failure explains it."""
