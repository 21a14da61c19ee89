"""The differences between two pod specs, as the API server's message shows them."""

from __future__ import annotations

import difflib
import json

from kcm_lite.api.core import PodSpec
from kcm_lite.api.serial import to_wire


def diff_pod_specs(old: PodSpec, new: PodSpec) -> str:
    """Return a unified diff of the two specs, without file names."""
    before, after = (json.dumps(to_wire(spec), indent=1).splitlines() for spec in (old, new))
    lines = list(difflib.unified_diff(before, after, lineterm=""))[2:]
    return "".join(f"{line}\n" for line in lines)
