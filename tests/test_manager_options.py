"""The table of settings, the values of flags, how a command line is read, and the help."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm_lite.api.quantity import Quantity
from kcm_lite.manager import govalues as go
from kcm_lite.manager.flags import FlagError, flags_of, help_lines, parse
from kcm_lite.manager.groups import (
    SECTIONS,
    GenericControllerManagerConfiguration,
    KubeControllerManagerConfiguration,
    KubeControllerManagerOptions,
    ReplicaSetControllerConfiguration,
)
from kcm_lite.manager.options import new_default_component_config, new_options
from kcm_lite.manager.settings import (
    Group,
    Setting,
    go_name,
    set_defaults,
    to_internal,
    to_versioned,
)
from tests.vectors import OWN, load

TYPES: dict[str, type] = {
    "bool": bool,
    "int32": int,
    "int": int,
    "Level": int,
    "float32": float,
    "float64": float,
    "duration": float,
    "stringSlice": list,
    "int32Slice": list,
    "namedCertKey": list,
    "colonSeparatedMultimapStringString": list,
    "stringToString": dict,
    "pattern=N,...": dict,
    "quantity": Quantity,
}


# ---- settings and groups


def test_every_default_has_the_type_of_its_kind() -> None:
    for group, setting in KubeControllerManagerOptions().walk():
        value = getattr(group, setting.name)
        assert type(value) is TYPES.get(setting.kind.name, str), setting.name


def test_every_flag_is_in_one_place_and_says_what_it_means() -> None:
    names = [s.flag for _, s in KubeControllerManagerOptions().walk() if s.flag]
    assert len(names) == len(set(names)) == 148
    for _, setting in KubeControllerManagerOptions().walk():
        if setting.flag:
            assert setting.help and setting.section in SECTIONS


def test_instances_share_nothing() -> None:
    a, b = KubeControllerManagerOptions(), KubeControllerManagerOptions()
    a.generic.controllers.append("x")
    a.metrics.allow_list_mapping["x,y"] = "z"
    a.replica_set_controller.concurrent_rs_syncs = 9
    assert b.generic.controllers == ["*"] and b.metrics.allow_list_mapping == {}
    assert KubeControllerManagerOptions().generic.controllers == ["*"]
    assert b.replica_set_controller.concurrent_rs_syncs == 5


def test_a_group_knows_its_section_unless_a_setting_has_its_own() -> None:
    class Mine(Group, section="mine"):
        one = Setting(go.INT32, "one", 1)
        two = Setting(go.INT32, "two", 2, section="other")

    assert [s.section for s in Mine.settings()] == ["mine", "other"]
    assert isinstance(Mine.__dict__["one"], Setting) and Mine().one == 1


def test_names_are_spelled_as_upstream_spells_them() -> None:
    spelled = {
        "concurrent_rs_syncs": "ConcurrentRSSyncs",
        "concurrent_gc_syncs": "ConcurrentGCSyncs",
        "hpa_controller": "HPAController",
        "csr_signing_controller": "CSRSigningController",
        "node_ipam_controller": "NodeIPAMController",
        "node_cidr_mask_size_ipv6": "NodeCIDRMaskSizeIPv6",
        "allocate_node_cidrs": "AllocateNodeCIDRs",
        "cidr_allocator_type": "CIDRAllocatorType",
        "root_ca_file": "RootCAFile",
        "concurrent_sa_token_syncs": "ConcurrentSATokenSyncs",
        "legacy_sa_token_cleaner": "LegacySATokenCleaner",
        "pv_claim_binder_sync_period": "PVClaimBinderSyncPeriod",
        "minimum_timeout_nfs": "MinimumTimeoutNFS",
        "terminated_pod_gc_threshold": "TerminatedPodGCThreshold",
        "concurrent_ttl_syncs": "ConcurrentTTLSyncs",
        "qps": "QPS",
        "kubeconfig": "Kubeconfig",
    }
    assert {name: go_name(name) for name in spelled} == spelled


# ---- versioned and internal


def test_defaults_fill_in_what_is_open_and_keep_what_is_set() -> None:
    given_ = {"Generic": {"MinResyncPeriod": "1h0m0s", "LeaderElection": {"LeaderElect": False}}}
    full = set_defaults(KubeControllerManagerConfiguration, given_)
    assert given_ == {
        "Generic": {"MinResyncPeriod": "1h0m0s", "LeaderElection": {"LeaderElect": False}}
    }
    internal = to_internal(KubeControllerManagerConfiguration, full)
    assert internal.generic.min_resync_period == 3600.0
    assert internal.generic.leader_election.leader_elect is False
    assert internal.generic.leader_election.lease_duration == 15.0
    assert internal.replica_set_controller.concurrent_rs_syncs == 5


def test_versioned_and_internal_say_the_same() -> None:
    versioned = set_defaults(KubeControllerManagerConfiguration, {})
    internal = to_internal(KubeControllerManagerConfiguration, versioned)
    assert to_versioned(internal) == versioned
    internal.generic.controllers.append("x")  # no part is shared
    assert versioned["Generic"]["Controllers"] == ["*"]
    assert new_default_component_config().generic.controllers == ["*"]


def test_every_option_group_is_the_configs_own() -> None:
    component = new_default_component_config()
    options = new_options(component)
    for name in KubeControllerManagerConfiguration.parts():
        assert getattr(options, name) is getattr(component, name), name
    parse(flags_of(options), ["--concurrent-replicaset-syncs=7"])
    assert component.replica_set_controller.concurrent_rs_syncs == 7
    assert new_options().replica_set_controller.concurrent_rs_syncs == 5


def test_fixed_settings() -> None:
    options = new_options()
    serving, election = options.secure_serving, options.generic.leader_election
    assert (serving.bind_port, serving.cert_directory) == (10257, "")
    assert serving.pair_name == election.resource_name == "kube-controller-manager"
    assert election.resource_namespace == "kube-system"
    assert options.authentication.remote_kubeconfig_file_optional
    assert options.authorization.remote_kubeconfig_file_optional
    ignored = options.garbage_collector_controller.gc_ignored_resources
    assert ignored == [("", "events"), ("events.k8s.io", "events")]


# ---- values

GOOD: list[tuple[go.Kind[Any], str, Any]] = [
    (go.BOOL, "T", True),
    (go.BOOL, "False", False),
    (go.INT32, "-2147483648", -(1 << 31)),
    (go.INT32, "0x1F", 31),
    (go.INT32, "017", 15),
    (go.INT32, "0o17", 15),
    (go.INT32, "0b101", 5),
    (go.INT32, "1_000", 1000),
    (go.INT32, "0_7", 7),
    (go.INT32, "+5", 5),
    (go.INT, "9223372036854775807", (1 << 63) - 1),
    (go.LEVEL, "2147483647", (1 << 31) - 1),
    (go.FLOAT32, "3.4e38", 3.4e38),
    (go.FLOAT64, ".5", 0.5),
    (go.FLOAT64, "-Inf", float("-inf")),
    (go.DURATION, "0", 0.0),
    (go.DURATION, "-1h30m", -5400.0),
    (go.DURATION, "1.5s", 1.5),
    (go.DURATION, ".5m", 30.0),
    (go.DURATION, "1h1m1s1ms1us1ns", 3661.001001001),
    (go.DURATION, "100µs", 1e-4),
    (go.DURATION, "0.0000000001s", 0.0),
    (go.ADDRESS, " ::1 ", "::1"),
    (go.ADDRESS, "", "0.0.0.0"),
    (go.STRINGS, "", []),
    (go.STRINGS, "a,", ["a", ""]),
    (go.STRINGS, '"a,b","c""d"', ["a,b", 'c"d']),
    (go.INT32S, "29,0x17", [29, 23]),
    (go.CERTIFICATES, "a, b", [go.NamedCertKey("a", "b")]),
    (go.CERTIFICATES, "a,b:x, y", [go.NamedCertKey("a", "b", ("x", "y"))]),
    (go.COMPONENTS, "kube:A=true,B=false,", [("kube", "A=true"), ("", "B=false")]),
    (go.PAIRS, "m,l=v", {"m,l": "v"}),
    (go.PAIRS, '"a,b=c",d=e', {"a,b": "c", "d": "e"}),
    (go.VMODULE, "a=1,,b*=2", {"a": 1, "b*": 2}),
    (go.VERSION, "1", "true"),
    (go.VERSION, "v1.2.3", "v1.2.3"),
    (go.STRING, "", ""),
]


@pytest.mark.parametrize(("kind", "text", "value"), GOOD, ids=lambda v: getattr(v, "name", repr(v)))
def test_values_are_read_as_go_reads_them(kind: go.Kind[Any], text: str, value: Any) -> None:
    assert kind.parse(text) == value


BAD: list[tuple[go.Kind[Any], str, str]] = [
    (go.BOOL, "yes", 'strconv.ParseBool: parsing "yes": invalid syntax'),
    (go.BOOL, "", 'strconv.ParseBool: parsing "": invalid syntax'),
    *(
        (go.INT32, text, f'strconv.ParseInt: parsing "{text}": invalid syntax')
        for text in ("", " 5", "5 ", "08", "1__0", "_1", "1_", "0x", "0o", "1e3", "٣", "--1")
    ),
    (go.INT32, "2147483648", 'strconv.ParseInt: parsing "2147483648": value out of range'),
    (go.INT, "1" * 30, f'strconv.ParseInt: parsing "{"1" * 30}": value out of range'),
    (go.LEVEL, "-1", 'strconv.ParseUint: parsing "-1": invalid syntax'),
    (go.LEVEL, "2147483648", 'strconv.ParseUint: parsing "2147483648": value out of range'),
    (go.FLOAT32, "1e39", 'strconv.ParseFloat: parsing "1e39": value out of range'),
    (go.FLOAT64, "1e309", 'strconv.ParseFloat: parsing "1e309": value out of range'),
    (go.FLOAT64, "1_0", 'strconv.ParseFloat: parsing "1_0": invalid syntax'),
    (go.FLOAT64, ".", 'strconv.ParseFloat: parsing ".": invalid syntax'),
    (go.DURATION, "", 'time: invalid duration ""'),
    (go.DURATION, "-", 'time: invalid duration "-"'),
    (go.DURATION, "s", 'time: invalid duration "s"'),
    (go.DURATION, "5", 'time: missing unit in duration "5"'),
    (go.DURATION, "1m5", 'time: missing unit in duration "1m5"'),
    (go.DURATION, "1d", 'time: unknown unit "d" in duration "1d"'),
    (go.DURATION, "1e3s", 'time: unknown unit "e" in duration "1e3s"'),
    (go.DURATION, "9223372037s", 'time: invalid duration "9223372037s"'),
    (go.ADDRESS, "010.0.0.1", 'failed to parse IP: "010.0.0.1"'),
    (go.ADDRESS, "fe80::1%eth0", 'failed to parse IP: "fe80::1%eth0"'),
    (go.STRINGS, 'a"b', 'parse error on line 1, column 2: bare " in non-quoted field'),
    (go.STRINGS, '"a', 'parse error on line 1, column 3: extraneous or missing " in quoted-field'),
    (go.INT32S, "1,", 'strconv.ParseInt: parsing "": invalid syntax'),
    (go.CERTIFICATES, "a", "expected comma separated certificate and key file paths"),
    (go.CERTIFICATES, "a,b:", "empty names list is not allowed"),
    (go.PAIRS, "a", "a must be formatted as key=value"),
    (go.PAIRS, "a=b,c,d=e", "c must be formatted as key=value"),
    (go.VMODULE, "a=b=c", '"a=b=c" does not have the pattern=N format'),
    (
        go.VMODULE,
        "a=x",
        'parsing verbosity in "a=x": strconv.ParseUint: parsing "x": invalid syntax',
    ),
    (go.VERSION, "x", 'strconv.ParseBool: parsing "x": invalid syntax'),
]


@pytest.mark.parametrize(
    ("kind", "text", "message"), BAD, ids=lambda v: getattr(v, "name", repr(v))
)
def test_bad_values_get_gos_words(kind: go.Kind[Any], text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        kind.parse(text)
    assert str(caught.value) == message


@given(st.integers(min_value=-(10**15), max_value=10**15))
def test_a_duration_reads_back(nanoseconds: int) -> None:
    text = go.format_duration(nanoseconds / 1e9)
    assert go.parse_duration(text) == nanoseconds / 1e9


def test_durations_as_go_prints_them() -> None:
    shown = {0.0: "0s", 43200.0: "12h0m0s", 90.0: "1m30s", 1.5: "1.5s", -2.0: "-2s", 0.2: "200ms"}
    shown |= {0.0015: "1.5ms", 1e-6: "1µs", 1e-9: "1ns", 3600.001: "1h0m0.001s", 0.9999: "999.9ms"}
    assert {value: go.format_duration(value) for value in shown} == shown


@given(st.text(max_size=8))
def test_any_text_is_read_or_refused(text: str) -> None:
    for _, setting in KubeControllerManagerOptions().walk():
        try:
            setting.kind.format(setting.kind.parse(text))
        except ValueError as error:
            assert str(error)


# ---- reading a command line


def read(*args: str, normalize: bool = False) -> tuple[KubeControllerManagerOptions, list[str]]:
    options = new_options()
    return options, parse(flags_of(options), list(args), normalize=normalize)


def test_values_with_an_equals_sign_beside_it_and_without() -> None:
    options, rest = read("--kube-api-burst", "5", "--leader-elect=false", "--profiling", "x", "-v3")
    assert options.generic.client_connection.burst == 5
    assert options.generic.leader_election.leader_elect is False
    assert (options.generic.debugging.enable_profiling, options.logs.verbosity) == (True, 3)
    assert rest == ["x"]


@pytest.mark.parametrize("words", [["-v=2"], ["-v2"], ["-v", "2"], ["--v=2"], ["-hv2"]])
def test_short_names(words: list[str]) -> None:
    assert read(*words)[0].logs.verbosity == 2


def test_two_dashes_end_the_flags() -> None:
    options, rest = read("-", "--", "--kube-api-burst=5")
    assert rest == ["-", "--kube-api-burst=5"]
    assert options.generic.client_connection.burst == 30


def test_a_list_that_is_repeated_replaces_the_default_and_then_grows() -> None:
    options, _ = read(
        "--controllers=a,b", "--controllers=c", "--kube-api-qps=1", "--kube-api-qps=2"
    )
    assert options.generic.controllers == ["a", "b", "c"]
    assert options.generic.client_connection.qps == 2.0


@pytest.mark.parametrize(
    ("args", "message", "hint"),
    [
        (["--nope"], "unknown flag: --nope", ""),
        (["--no-such=1"], "unknown flag: --no-such", ""),
        (
            ["--concurrent-replicaset-sync=1"],
            "unknown flag: --concurrent-replicaset-sync",
            "did you mean --concurrent-replicaset-syncs?",
        ),
        (["--Leader-Elect"], "unknown flag: --Leader-Elect", "did you mean --leader-elect?"),
        (["--kube-api-burst"], "flag needs an argument: --kube-api-burst", ""),
        (["-v"], "flag needs an argument: 'v' in -v", ""),
        (["-x"], "unknown shorthand flag: 'x' in -x", ""),
        (["---v=1"], "bad flag syntax: ---v=1", ""),
        (["--=1"], "bad flag syntax: --=1", ""),
        (
            ["-v", "x"],
            'invalid argument "x" for "-v, --v" flag: strconv.ParseUint: parsing "x": '
            "invalid syntax",
            "",
        ),
        (["--controllers"], "flag needs an argument: --controllers", ""),
    ],
)
def test_bad_command_lines(args: list[str], message: str, hint: str) -> None:
    with pytest.raises(FlagError) as caught:
        read(*args)
    assert (str(caught.value), caught.value.hint) == (message, hint)


def test_underscores_count_only_for_the_command() -> None:
    assert read("--concurrent_rc_syncs=1")[0].replication_controller.concurrent_rc_syncs == 1
    for name in ("concurrent-rc-syncs", "concurrent_rc_syncs", "kube_api_burst"):
        read(f"--{name}=1", normalize=True)
    with pytest.raises(FlagError, match="unknown flag: --kube_api_burst"):
        read("--kube_api_burst=1")
    with pytest.raises(FlagError, match='for "--kube-api-burst" flag'):
        read("--kube_api_burst=x", normalize=True)


def test_what_came_before_an_error_is_set() -> None:
    options = new_options()
    with pytest.raises(FlagError):
        parse(flags_of(options), ["--kube-api-burst=5", "--nope", "--kube-api-qps=1"])
    connection = options.generic.client_connection
    assert (connection.burst, connection.qps) == (5, 20.0)


# ---- help


@pytest.mark.parametrize("columns", [0, 24, 80, 200])
def test_the_help_names_every_flag_of_the_table(columns: int) -> None:
    table = load(OWN / "options.json.gz")["flags"]
    wanted = [f["flag"] for f in table if not f["hidden"] and not f["openshift_only"]]
    lines = help_lines(flags_of(new_options()), columns)
    shown = [m[1] for line in lines if (m := re.match(r"\s+(?:-\w, )?(--[\w-]+)", line))]
    assert shown == wanted
    sections = [line[:-7].lower() for line in lines if line.endswith(" flags:")]
    assert sections == [s for s in SECTIONS if s != "deprecated"]
    if columns == 80:
        assert max(map(len, lines)) <= 80


def test_what_the_help_says_of_a_flag() -> None:
    lines = help_lines(flags_of(new_options()), 0, {"controllers": ". All: a"})
    text = {line.split()[0]: line for line in lines if line.startswith("      --")}
    assert text["--bind-address"].split()[1] == "ip"
    assert text["--controllers"].endswith("(default [*]). All: a")
    assert text["--cluster-name"].endswith('(default "kubernetes")')
    assert text["--min-resync-period"].endswith("(default 12h0m0s)")
    assert text["--profiling"].endswith("(default true)")
    assert text["--allow-metric-labels"].endswith("(default [])")
    assert "default" not in text["--tls-cipher-suites"] + text["--node-cidr-mask-size"]
    assert text["--version"].split()[1] == "version[=true]"
    assert next(line for line in lines if "--v " in line).startswith("  -v, --v Level ")


def test_the_default_in_the_help_is_not_what_was_typed() -> None:
    flags = flags_of(new_options())
    parse(flags, ["--kube-api-burst=5"])
    (line,) = (line for line in help_lines(flags) if "--kube-api-burst" in line)
    assert line.endswith("(default 30)")


def test_a_group_alone_has_flags_too() -> None:
    assert list(flags_of(ReplicaSetControllerConfiguration())) == ["concurrent-replicaset-syncs"]
    assert "leader-elect" in flags_of(GenericControllerManagerConfiguration())
