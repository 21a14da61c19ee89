# Generated from book/08b_job_rules.ipynb by tools/tangle.py; edit it there.

"""What a Job's policies say about a failed pod, and about the indexes that have succeeded.

See: chapter *Job: the rules*; upstream ``pkg/controller/job/pod_failure_policy.go`` and
``success_policy.go``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kcm_lite.api.batch import OnExitCodes, PodFailurePolicy, PodFailurePolicyRule, SuccessPolicy
from kcm_lite.api.core import ContainerStatus, Pod
from kcm_lite.controllers.job_indexes import Intervals, parse_indexes, total


# %% book/08b_job_rules.ipynb#273af5cf
@dataclass(frozen=True, slots=True)
class FailureMatch:
    """What a failure policy makes of a failed pod.

    Attributes:
        action: Of the rule that matched; empty if none did.
        message: Why the whole Job fails, if it does.
        rule: The number of the rule.
    """

    action: str = ""
    message: str = ""
    rule: int = 0

    @property
    def text(self) -> str:
        """The same in words."""
        return f"rule {self.rule} says {self.action}" if self.action else "no rule: it counts"

    @property
    def counts(self) -> bool:
        """Whether the failure counts against the limits."""
        return self.action != "Ignore"


def match_pod_failure_policy(policy: PodFailurePolicy | None, pod: Pod) -> FailureMatch:
    """Find the first rule that a failed pod matches."""
    for number, rule in enumerate(policy.rules if policy is not None else ()):
        why = _why(rule, pod)
        if why and rule.action in ("Ignore", "FailIndex", "Count"):
            return FailureMatch(rule.action, rule=number)
        if why and rule.action == "FailJob":
            message = f"{why} matching FailJob rule at index {number}"
            return FailureMatch("FailJob", message, number)
    return FailureMatch()


# %% book/08b_job_rules.ipynb#2be1ecb6
def _why(rule: PodFailurePolicyRule, pod: Pod) -> str:
    """Say how a pod matches a rule; nothing if it does not."""
    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    status = pod.status
    if rule.on_exit_codes is not None:
        for statuses in (status.container_statuses, status.init_container_statuses):
            found = _failed_container(statuses, rule.on_exit_codes)
            if found is not None and found.state.terminated is not None:
                code = found.state.terminated.exit_code
                return f"Container {found.name} for pod {name} failed with exit code {code}"
        return ""
    patterns = {(pattern.type, pattern.status) for pattern in rule.on_pod_conditions}
    for condition in status.conditions:
        if (condition.type, condition.status) in patterns:
            return f"Pod {name} has condition {condition.type}"
    return ""


def _failed_container(
    statuses: Iterable[ContainerStatus], wanted: OnExitCodes
) -> ContainerStatus | None:
    """Return the first container whose exit code matches; 0 and a running one never do."""
    for status in statuses:
        ended = status.state.terminated
        if ended is None or ended.exit_code == 0:
            continue
        if wanted.container_name not in (None, status.name):
            continue
        listed = ended.exit_code in wanted.values
        if (wanted.operator == "In" and listed) or (wanted.operator == "NotIn" and not listed):
            return status
    return None


# %% book/08b_job_rules.ipynb#2ade60f3
def match_success_policy(
    policy: SuccessPolicy | None, completions: int, succeeded: Intervals
) -> str:
    """Say which rule is met by the indexes that have succeeded; nothing if none is."""
    for number, rule in enumerate(policy.rules if policy is not None and succeeded else ()):
        count = rule.succeeded_count
        if rule.succeeded_indexes is None:
            met = count is not None and total(succeeded) >= count
        else:
            wanted = parse_indexes(rule.succeeded_indexes, completions)
            both = _overlap(wanted, succeeded)
            enough = both == total(wanted) or (count is not None and both >= count)
            met = bool(wanted) and enough
        if met:
            return f"Matched rules at index {number}"
    return ""


def _overlap(a: Intervals, b: Intervals) -> int:
    """Return how many indexes two ordered lists of intervals share."""
    i = j = shared = 0
    while i < len(a) and j < len(b):
        shared += max(min(a[i][1], b[j][1]) - max(a[i][0], b[j][0]) + 1, 0)
        behind = a[i][1] - b[j][1]
        i, j = i + (behind <= 0), j + (behind >= 0)
    return shared
