"""What upstream checks, in its order and with its words.

See: chapter *Options to config*; upstream ``Validate`` of the option groups,
``component-base/compatibility``, ``component-base/logs/api/v1``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from kcm_lite.api.golang import quote
from kcm_lite.manager.featuregates import (
    TODAY,
    FeatureGates,
    GateError,
    Release,
    parse_settings,
    parse_version,
    text_of,
)
from kcm_lite.manager.flags import flags_of
from kcm_lite.manager.govalues import format_duration
from kcm_lite.manager.groups import KubeControllerManagerOptions
from kcm_lite.manager.validation import (
    Check,
    InvalidOptions,
    Names,
    Problem,
    Values,
    between,
    controllers_are_known,
    find_problems,
    positive,
    refuse,
)


def validate(options: KubeControllerManagerOptions, names: Names) -> None:
    """Find everything that is wrong.

    Raises:
        InvalidOptions: Something is; each problem once, in upstream's order.
    """
    problems: list[Problem] = []
    try:
        problems += release_is_near(feature_gates(options))
    except InvalidOptions as error:
        problems += error.problems
    values = {name: flag.value for name, flag in flags_of(options).items()}
    problems += find_problems(CHECKS, values, names)
    if problems:
        raise InvalidOptions(problems)


def leases_lock(values: Values, names: Names) -> Iterator[Problem]:
    """Only leases are used as locks today."""
    flag = "leader-elect-resource-lock"
    if values["leader-elect"] and values[flag] != "leases":
        yield Problem('resourceLock value must be "leases"', flag)


SIGNERS = {
    "kubelet-serving": "cluster-signing-kubelet-serving",
    "kubelet-client": "cluster-signing-kube-apiserver-client",  # upstream's labels, one off
    "kube-apiserver-client": "cluster-signing-kube-apiserver",
    "legacy-unknown": "cluster-signing-legacy-unknown",
}
"""The signers with files of their own, and what messages call them."""


def signing_files_pair_up(values: Values, names: Names) -> Iterator[Problem]:
    """A signer has a certificate and a key, or neither; one for all excludes those for one."""

    def given(signer: str) -> list[str]:
        flags = (f"cluster-signing-{signer}{kind}-file" for kind in ("cert", "key"))
        return [flag for flag in flags if values[flag]]

    special = {label: given(f"{signer}-") for signer, label in SIGNERS.items()}
    for label, files in special.items():
        if len(files) == 1:
            have, lack = ("key", "cert") if files[0].endswith("key-file") else ("cert", "key")
            yield Problem(f"{quote(label)}: cannot specify {have} without {lack}", files[0])
    if given("") and any(special.values()):
        text = "cannot specify --cluster-signing-{cert,key}-file and other "
        yield Problem(f"{text}--cluster-signing-*-file flags at the same time", given("")[0])


def manifest_is_readable(values: Values, names: Names) -> Iterator[Problem]:
    """The file of allowed labels can be read."""
    flag = "allow-metric-labels-manifest"
    try:
        Path(values[flag]).read_bytes() if values[flag] else None
    except OSError as error:
        text = f"metrics.allowListMappingManifest: Invalid value: {quote(values[flag])}"
        yield Problem(f"{text}: failed to read allow list manifest: {os_error(error)}", flag)


def os_error(error: OSError) -> str:
    """Return an error of the file system as Go prints it."""
    verb = "read" if isinstance(error, IsADirectoryError) else "open"
    return f"{verb} {error.filename}: {(error.strerror or '').lower()}"


def _blank(values: list[str]) -> bool:
    return any(not value.strip() for value in values)


METRIC, LABEL = "[a-zA-Z_:][a-zA-Z0-9_:]*", "[a-zA-Z_][a-zA-Z0-9_]*"
PREVIOUS = f"{TODAY[0]}.{TODAY[1] - 1}"

EMPTY = 'empty value in "{flag}"'

# fmt: off
CHECKS: tuple[Check, ...] = (
    leases_lock,
    controllers_are_known,
    refuse("attach-detach-reconcile-sync-period", lambda v: v < 1, "duration time must be greater "
           "than one second as set via command line option reconcile-sync-loop-period"),
    signing_files_pair_up,
    positive("concurrent-daemonset-syncs"),
    positive("concurrent-device-taint-eviction-syncs", "{flag} must be greater than zero, got {v}"),
    positive("concurrent-resourceclaim-syncs", "{flag} must be larger than 0, got {v}"),
    positive("concurrent-statefulset-syncs"),
    *between("concurrent-service-endpoint-syncs", 50),
    *between("max-endpoints-per-slice", 1000),
    *between("mirroring-concurrent-service-endpoint-syncs", 50),
    *between("mirroring-max-endpoints-per-subset", 1000),
    positive("concurrent-ephemeralvolume-syncs"),
    positive("concurrent-horizontal-pod-autoscaler-syncs"),
    positive("concurrent-job-syncs"),
    positive("concurrent-cron-job-syncs"),
    refuse("service-cluster-ip-range", lambda v: v.count(",") > 1,
           "--{flag} can not contain more than two entries"),
    refuse("secure-port", lambda v: v > 65535,
           "--{flag} {v} must be between 1 and 65535, inclusive. It cannot be turned off with 0"),
    refuse("secure-port", lambda v: v < 0,
           "--{flag} {v} must be between 0 and 65535, inclusive. 0 for turning off secure port"),
    refuse("requestheader-username-headers", _blank, EMPTY),
    refuse("requestheader-group-headers", _blank, EMPTY),
    refuse("requestheader-extra-headers-prefix", _blank, EMPTY),
    refuse("requestheader-allowed-names", _blank, EMPTY),
    refuse("requestheader-uid-headers", _blank, EMPTY),
    refuse("requestheader-uid-headers", lambda v: v and "x-remote-uid" not in map(str.lower, v),
           "--{flag} is set without specifying the standard X-Remote-Uid header - API aggregation "
           "will not work"),
    refuse("show-hidden-metrics-for-version", lambda v: v not in ("", PREVIOUS),
           "metrics.showHiddenMetricsForVersion: Invalid value: {q}: must be omitted or have the "
           f"value '{PREVIOUS}'; only the previous minor version is allowed"),
    refuse("disabled-metrics",
           lambda v: next((quote(name) for name in v if not re.fullmatch(METRIC, name)), ""),
           "metrics.disabledMetrics: Invalid value: {q}: must be fully qualified metric names "
           f'matching "^{METRIC}$", got {{wrong}}'),
    refuse("allow-metric-labels",
           lambda v: not all(re.fullmatch(f"{METRIC},{LABEL}", key) for key in v),
           "metrics.allowListMapping: Invalid value: {q}: must have keys with format "
           f'`metricName,labelName` where metricName matches "{METRIC}" and labelName matches '
           f'"{LABEL}"'),
    manifest_is_readable,
    refuse("cloud-provider", lambda v: v not in ("", "external"),
           "cloud provider {q} was specified, but built-in cloud providers are disabled. Please "
           "set --cloud-provider=external and migrate to an external cloud provider"),
    refuse("cidr-allocator-type", lambda v: v not in ("", "RangeAllocator"),
           "built-in cloud providers are disabled. The ipam {v} is not available"),
)
# fmt: on
"""What upstream checks, in its order. Other numbers it takes as they are, negative ones too."""


def check_logs(options: KubeControllerManagerOptions, gates: FeatureGates) -> None:
    """Check the options of the log, which is set up before anything else.

    Raises:
        InvalidOptions: Something is wrong with them.
    """
    logs, problems = options.logs, []
    if logs.flush_frequency <= 0:
        text = f"flushFrequency: Invalid value: {quote(format_duration(logs.flush_frequency))}"
        problems.append(Problem(f"{text}: Must be greater than zero", "log-flush-frequency"))
    if logs.format not in ("text", "json"):
        text = f"format: Invalid value: {quote(logs.format)}: Unsupported log format"
        problems.append(Problem(text, "logging-format"))
    if logs.vmodule and logs.format not in ("", "text"):
        problems.append(
            Problem("vmodule: Forbidden: Only supported for text log format", "vmodule")
        )
    for flag, field, value in (
        ("log-text-split-stream", "splitStream", logs.split_stream),
        ("log-text-info-buffer-size", "infoBufferSize", logs.info_buffer_size),
    ):
        if value and not gates.enabled("LoggingAlphaOptions"):
            text = f"options.text.{field}: Forbidden: Feature LoggingAlphaOptions is disabled"
            problems.append(Problem(text, flag))
    if problems:
        raise InvalidOptions(problems)


# ---- releases and gates

FLOOR: Release = (1, 33)
"""The oldest release that v1.36 may be told to behave as."""


def feature_gates(options: KubeControllerManagerOptions) -> FeatureGates:
    """Return the gates that the options ask for.

    Raises:
        InvalidOptions: A version cannot be read, or a gate cannot be set.
    """
    wanted, flag = options.component_globals, "emulated-version"
    release, minimum = TODAY, (TODAY[0], TODAY[1] - 1)
    try:
        if emulated := _version(wanted.emulated_version):
            release, minimum = emulated, max((emulated[0], emulated[1] - 1), FLOOR)
        flag = "min-compatibility-version"
        minimum = _version(wanted.min_compatibility_version) or minimum
        flag = "feature-gates"
        if len({component for component, _ in wanted.feature_gates} & {"", "kube"}) > 1:
            text = "set kube feature gates with default empty prefix or kube: prefix consistently"
            raise ValueError(f"{text}, do not mix use")
        for component, _ in wanted.feature_gates:
            _kube(component or "kube")
        settings = parse_settings(",".join(text for _, text in wanted.feature_gates))
        return FeatureGates(release, settings, minimum)
    except GateError as error:
        raise InvalidOptions(Problem(text, flag) for text in error.problems) from None
    except ValueError as error:
        raise InvalidOptions([Problem(str(error), flag)]) from None


def _version(entries: list[str]) -> Release | None:
    """Read ``[kube=]1.35``; there may be one."""
    found: list[tuple[int, ...]] = []
    for entry in entries:
        component, _, text = entry.rpartition("=")
        version = parse_version(text.strip())
        shown = ".".join(map(str, version))
        if any(version[2:]):
            raise ValueError(f"patch version not allowed, got: {component or 'kube'}={shown}")
        if found:
            first = ".".join(map(str, found[0]))
            raise ValueError(f"duplicate version flag, kube={first} and kube={shown}")
        _kube(component.strip() or "kube")
        found.append(version)
    return (found[0][0], found[0][1]) if found else None


def _kube(component: str) -> None:
    if component != "kube":
        raise ValueError(f"component not registered: {component}")


def release_is_near(gates: FeatureGates) -> Iterator[Problem]:
    """The release to behave as is at most three back, and so is the oldest neighbour."""
    release, minimum, floor = gates.release, gates.minimum, text_of(FLOOR)
    if not FLOOR <= release <= TODAY:
        text = f"emulation version {text_of(release)} is not between [{floor}, {text_of(TODAY)}.0]"
        yield Problem(text, "emulated-version")
    if not FLOOR <= minimum <= release:
        text = f"minCompatibilityVersion version {text_of(minimum)} is not between"
        flag = "min-compatibility-version"
        yield Problem(f"{text} [{floor}, {text_of(release)}]", flag)
