"""Validation, what options name, the way from options to a config, and the command."""

from __future__ import annotations

import ssl
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from kcm_lite.cli import main
from kcm_lite.manager.checks import validate
from kcm_lite.manager.command import answer
from kcm_lite.manager.config import Config, complete, new_config
from kcm_lite.manager.files import DEFAULT_MIGRATION
from kcm_lite.manager.flags import FlagError, flags_of, parse
from kcm_lite.manager.groups import (
    InsecureServingOptions,
    KubeControllerManagerConfiguration,
    KubeControllerManagerOptions,
)
from kcm_lite.manager.options import new_options
from kcm_lite.manager.registry import KNOWN_NAMES
from kcm_lite.manager.settings import Group
from kcm_lite.manager.validation import InvalidOptions, insecure_port_is_zero
from tests.tools_support import ROOT

NOW = datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC)


def options(*args: str) -> KubeControllerManagerOptions:
    out = new_options()
    assert parse(flags_of(out), ["--secure-port=0", *args]) == []
    return out


def problems(*args: str) -> list[str]:
    """What validation has to say."""
    try:
        validate(options(*args), KNOWN_NAMES)
    except InvalidOptions as error:
        return [problem.message for problem in error.problems]
    return []


def config(*args: str) -> Config:
    return new_config(options(*args), now=NOW)


def refusal(*args: str) -> tuple[str, str]:
    """The message and the flag of the one problem that a config has."""
    with pytest.raises(InvalidOptions) as caught:
        config(*args)
    (problem,) = caught.value.problems
    return problem.message, problem.flag


# ---- validation

LIMITS = {
    "concurrent-daemonset-syncs": ("must be greater than 0, but got 0", None),
    "concurrent-statefulset-syncs": ("must be greater than 0, but got 0", None),
    "concurrent-ephemeralvolume-syncs": ("must be greater than 0, but got 0", None),
    "concurrent-horizontal-pod-autoscaler-syncs": ("must be greater than 0, but got 0", None),
    "concurrent-job-syncs": ("must be greater than 0, but got 0", None),
    "concurrent-cron-job-syncs": ("must be greater than 0, but got 0", None),
    "concurrent-device-taint-eviction-syncs": ("must be greater than zero, got 0", None),
    "concurrent-resourceclaim-syncs": ("must be larger than 0, got 0", None),
    "concurrent-service-endpoint-syncs": ("must not be less than 1, but got 0", 50),
    "mirroring-concurrent-service-endpoint-syncs": ("must not be less than 1, but got 0", 50),
    "max-endpoints-per-slice": ("must not be less than 1, but got 0", 1000),
    "mirroring-max-endpoints-per-subset": ("must not be less than 1, but got 0", 1000),
}


@pytest.mark.parametrize("flag", LIMITS)
def test_limits(flag: str) -> None:
    low, most = LIMITS[flag]
    assert problems(f"--{flag}=0") == [f"{flag} {low}"]
    assert problems(f"--{flag}=-1") == [f"{flag} {low.replace('got 0', 'got -1')}"]
    assert problems(f"--{flag}=1") == []
    if most:
        assert problems(f"--{flag}={most}") == []
        text = f"{flag} must not be more than {most}, but got {most + 1}"
        assert problems(f"--{flag}={most + 1}") == [text]


def test_every_other_number_of_workers_may_be_anything() -> None:
    for name, flag in flags_of(new_options()).items():
        if name.startswith("concurrent") and name not in LIMITS:
            assert problems(f"--{name}=-1") == [], name
            assert flag.setting.kind.name == "int32"


def test_all_problems_are_told_once_and_in_order() -> None:
    found = problems(
        "--concurrent-job-syncs=0", "--controllers=b,-a,b", "--cidr-allocator-type=X",
        "--leader-elect-resource-lock=endpoints", "--emulated-version=1.20",
    )  # fmt: skip
    assert found == [
        "emulation version 1.20 is not between [1.33, 1.36.0]",
        "minCompatibilityVersion version 1.33 is not between [1.33, 1.20]",
        'resourceLock value must be "leases"',
        '"b" is not in the list of known controllers',
        '"a" is not in the list of known controllers',
        "concurrent-job-syncs must be greater than 0, but got 0",
        "built-in cloud providers are disabled. The ipam X is not available",
    ]
    with pytest.raises(InvalidOptions) as caught:
        validate(options("--controllers=b,-a,b"), KNOWN_NAMES)
    assert str(caught.value) == f"[{', '.join(found[3:5])}]"


def test_the_lock_matters_only_with_an_election() -> None:
    assert problems("--leader-elect=false", "--leader-elect-resource-lock=x") == []


@pytest.mark.parametrize("entry", ["job", "-job", "job-controller", "-job-controller", "*"])
def test_names_that_may_be_given(entry: str) -> None:
    assert problems(f"--controllers={entry}") == []


@pytest.mark.parametrize("entry", ["Job", "-*", "--job", " job", "job ", "**", "-"])
def test_names_that_may_not(entry: str) -> None:
    (message,) = problems(f"--controllers={entry}")
    assert message == f'"{entry.removeprefix("-")}" is not in the list of known controllers'


CERT, KEY = "cluster-signing-{}cert-file", "cluster-signing-{}key-file"


@pytest.mark.parametrize(
    ("signer", "label"),
    [
        ("kubelet-serving-", "cluster-signing-kubelet-serving"),
        ("kubelet-client-", "cluster-signing-kube-apiserver-client"),
        ("kube-apiserver-client-", "cluster-signing-kube-apiserver"),
        ("legacy-unknown-", "cluster-signing-legacy-unknown"),
    ],
)
def test_signing_files(signer: str, label: str) -> None:
    cert, key = f"--{CERT.format(signer)}=c", f"--{KEY.format(signer)}=k"
    assert problems(cert, key) == []
    assert problems(cert) == [f'"{label}": cannot specify cert without key']
    assert problems(key) == [f'"{label}": cannot specify key without cert']
    both = "cannot specify --cluster-signing-{cert,key}-file and other --cluster-signing-*-file"
    text = f"{both} flags at the same time"
    assert problems(cert, key, "--cluster-signing-cert-file=a") == [text]
    assert problems(cert, key, "--cluster-signing-key-file=a") == [text]
    assert problems("--cluster-signing-cert-file=a") == []


@pytest.mark.parametrize(
    ("args", "messages"),
    [
        (["--attach-detach-reconcile-sync-period=1s"], []),
        (
            ["--attach-detach-reconcile-sync-period=999ms"],
            [
                "duration time must be greater than one second as set via command line option "
                "reconcile-sync-loop-period"
            ],
        ),
        (["--service-cluster-ip-range=a,b"], []),
        (
            ["--service-cluster-ip-range=a,b,c"],
            ["--service-cluster-ip-range can not contain more than two entries"],
        ),
        (["--requestheader-group-headers= "], ['empty value in "requestheader-group-headers"']),
        (["--requestheader-uid-headers=X-Remote-UID,y"], []),
        (
            ["--requestheader-uid-headers=y"],
            [
                "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid "
                "header - API aggregation will not work"
            ],
        ),
        (["--show-hidden-metrics-for-version=1.35"], []),
        (
            ["--show-hidden-metrics-for-version=1.34"],
            [
                'metrics.showHiddenMetricsForVersion: Invalid value: "1.34": must be omitted or '
                "have the value '1.35'; only the previous minor version is allowed"
            ],
        ),
        (
            ["--disabled-metrics=a,0b"],
            [
                'metrics.disabledMetrics: Invalid value: ["a","0b"]: must be fully qualified '
                'metric names matching "^[a-zA-Z_:][a-zA-Z0-9_:]*$", got "0b"'
            ],
        ),
        (["--allow-metric-labels=m,l=v"], []),
        (
            ["--allow-metric-labels=m=v"],
            [
                'metrics.allowListMapping: Invalid value: {"m":"v"}: must have keys with format '
                '`metricName,labelName` where metricName matches "[a-zA-Z_:][a-zA-Z0-9_:]*" and '
                'labelName matches "[a-zA-Z_][a-zA-Z0-9_]*"'
            ],
        ),
        (
            ["--allow-metric-labels-manifest=/nowhere"],
            [
                'metrics.allowListMappingManifest: Invalid value: "/nowhere": failed to read allow '
                "list manifest: open /nowhere: no such file or directory"
            ],
        ),
        (["--cloud-provider=external"], []),
    ],
)
def test_further_checks(args: list[str], messages: list[str]) -> None:
    assert problems(*args) == messages


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--emulated-version=1"], 'illegal version string "1"'),
        (["--emulated-version=kube=1.35"], None),
        (["--emulated-version=kube=v1.35.0"], None),
        (["--emulated-version=1.35.1"], "patch version not allowed, got: kube=1.35.1"),
        (["--emulated-version=x=1.35"], "component not registered: x"),
        (
            ["--emulated-version=1.35,1.34"],
            "duplicate version flag, kube=1.35 and kube=1.34",
        ),
        (
            ["--emulated-version=1.34", "--min-compatibility-version=1.35"],
            "minCompatibilityVersion version 1.35 is not between [1.33, 1.34]",
        ),
        (["--feature-gates=kube:JobManagedBy=true"], None),
        (["--feature-gates=x:JobManagedBy=true"], "component not registered: x"),
        (
            ["--feature-gates=kube:JobManagedBy=true,JobManagedBy=true"],
            "set kube feature gates with default empty prefix or kube: prefix consistently, do not "
            "mix use",
        ),
        (["--feature-gates=NoSuch=true"], "unrecognized feature gate: NoSuch"),
        (["--emulated-version=1.34", "--feature-gates=JobManagedBy=false"], None),
    ],
)
def test_versions_and_gates(args: list[str], message: str | None) -> None:
    assert problems(*args) == ([] if message is None else [message])


def test_gates_reach_the_config() -> None:
    made = config("--emulated-version=1.34", "--feature-gates=JobManagedBy=false")
    assert made.feature_gates.release == (1, 34)
    assert not made.feature_gates.enabled("JobManagedBy")
    assert not made.feature_gates.enabled("StaleControllerConsistencyJob")


def test_the_insecure_port_of_old() -> None:
    flags = flags_of(InsecureServingOptions())
    parse(flags, ["--port=10252"])
    found = list(insecure_port_is_zero({"port": flags["port"].value}, KNOWN_NAMES))
    assert [p.message for p in found] == ["invalid port value 10252: only zero is allowed"]
    assert not list(insecure_port_is_zero({"port": 0}, KNOWN_NAMES))


# ---- order: nothing is opened before all has been looked at


def test_validation_comes_before_any_file() -> None:
    args = ["--concurrent-job-syncs=0", "--kubeconfig=/nowhere", "--tls-min-version=X"]
    with pytest.raises(InvalidOptions) as caught:
        new_config(_with_port(*args))
    assert [p.flag for p in caught.value.problems] == ["concurrent-job-syncs"]


def test_the_certificate_comes_before_the_kubeconfig() -> None:
    with pytest.raises(InvalidOptions, match="unknown tls version"):
        new_config(_with_port("--kubeconfig=/nowhere", "--tls-min-version=X"))
    message, flag = refusal("--kubeconfig=/nowhere", "--tls-min-version=X")  # no port, no server
    assert (message, flag) == ("stat /nowhere: no such file or directory", "kubeconfig")


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        ("authentication-kubeconfig", "failed to get delegated authentication kubeconfig: "),
        ("authorization-kubeconfig", "failed to get delegated authorization kubeconfig: "),
        ("client-ca-file", ""),
        ("requestheader-client-ca-file", ""),
    ],
)
def test_files_of_those_who_ask_must_be_readable(tmp_path: Path, flag: str, text: str) -> None:
    stat = "stat" if text else "open"
    with pytest.raises(InvalidOptions) as caught:
        answer(["--secure-port=10257", f"--{flag}=/nowhere"], now=NOW)
    (problem,) = caught.value.problems
    assert str(problem) == f"--{flag}=/nowhere: {text}{stat} /nowhere: no such file or directory"
    assert answer(["--secure-port=0", f"--{flag}=/nowhere"], now=NOW).config is not None
    empty = tmp_path / "empty"
    empty.touch()
    with pytest.raises(InvalidOptions, match=r"it is empty|missing content for CA"):
        answer(["--secure-port=10257", f"--{flag}={empty}"], now=NOW)


def test_durations_of_the_election_come_last() -> None:
    assert refusal("--kubeconfig=/nowhere", "--leader-elect-lease-duration=1s")[1] == "kubeconfig"


def _with_port(*args: str) -> KubeControllerManagerOptions:
    return options("--secure-port=10257", *args)


# ---- one way


def reachable(thing: Any, seen: dict[int, Any]) -> dict[int, Any]:
    """Every group, list and mapping that a thing leads to."""
    if isinstance(thing, list | dict | Group | Config) and id(thing) not in seen:
        seen[id(thing)] = thing
        inner = thing if isinstance(thing, list | dict) else vars(thing)
        for part in inner.values() if isinstance(inner, dict) else inner:
            reachable(part, seen)
    return seen


def test_nothing_in_the_config_points_back() -> None:
    made_from = _with_port("--controllers=job", "--allow-metric-labels=a,b=c")
    made = new_config(made_from, now=NOW)
    assert made.secure_serving is not None
    mine, theirs = reachable(made, {}), reachable(made_from, {})
    mine |= reachable(made.secure_serving.settings, {})
    assert not mine.keys() & theirs.keys()
    assert len(mine) > 30


def test_every_group_is_copied() -> None:
    made_from = options()
    for group, setting in made_from.walk():  # a number that is not the default
        number = setting.kind.name in ("int32", "duration")
        if number and not setting.flag.startswith("leader-elect"):
            value = getattr(group, setting.name)
            setattr(group, setting.name, value + (1 if value < 1000 else -1))
    made = new_config(made_from, now=NOW)
    for name in KubeControllerManagerConfiguration.parts():
        mine, theirs = getattr(made.component, name), getattr(made_from, name)
        for (a, setting), (b, _) in zip(mine.walk(), theirs.walk(), strict=True):
            assert getattr(a, setting.name) == getattr(b, setting.name), setting.name
    assert made.controller_shutdown_timeout == 11.0


def test_names_become_canonical_and_ranges_are_taken_apart() -> None:
    made = config("--controllers=job,-ttl,*", "--service-cluster-ip-range=10.0.0.0/8,fd00::/108")
    assert made.component.generic.controllers == ["job-controller", "-ttl-controller", "*"]
    ipam = made.component.node_ipam_controller
    assert (ipam.service_cidr, ipam.secondary_service_cidr) == ("10.0.0.0/8", "fd00::/108")


def test_who_may_ask_matters_only_with_a_server() -> None:
    made = config()
    parts = (made.secure_serving, made.authentication, made.authorization)
    assert parts == (None, None, None)
    served = new_config(_with_port("--authorization-always-allow-paths=/x"), now=NOW)
    assert served.authentication is not None and served.authorization is not None
    assert served.authorization.always_allow_paths == ["/x"]


def test_the_config_of_clients() -> None:
    client = config("--kube-api-qps=7.5", "--kube-api-burst=9", "--master=10.0.0.1:6443").client
    assert (client.host, client.qps, client.burst) == ("http://10.0.0.1:6443", 7.5, 9)
    assert client.content_type == "application/vnd.kubernetes.protobuf"
    assert client.disable_compression
    assert config().client.host == ""


def test_a_completed_config_holds_the_config() -> None:
    made = config()
    assert complete(made).config is made
    with pytest.raises(AttributeError):
        complete(made).config = made  # type: ignore[misc]


# ---- what options name


def test_the_certificate_is_for_this_machine_for_a_year(tmp_path: Path) -> None:
    info = new_config(_with_port(), now=NOW).secure_serving
    assert info is not None and info.settings.bind_port == 10257
    assert b"PRIVATE KEY" in info.key and "PRIVATE KEY" not in repr(info)
    server, authority = x509.load_pem_x509_certificates(info.certificate)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(a) for a in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    assert server.not_valid_before_utc == NOW - timedelta(hours=1)
    assert server.not_valid_after_utc - server.not_valid_before_utc == timedelta(days=365)
    server.verify_directly_issued_by(authority)
    (tmp_path / "c").write_bytes(info.certificate)
    (tmp_path / "k").write_bytes(info.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "c", tmp_path / "k")  # they belong together


def test_a_certificate_for_one_address() -> None:
    info = new_config(_with_port("--bind-address=10.1.2.3"), now=NOW).secure_serving
    assert info is not None
    server = x509.load_pem_x509_certificates(info.certificate)[0]
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(a) for a in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "10.1.2.3"]


def test_a_directory_keeps_the_certificate(tmp_path: Path) -> None:
    flag = f"--cert-dir={tmp_path / 'new'}"
    first = new_config(_with_port(flag), now=NOW).secure_serving
    names = sorted(p.name for p in (tmp_path / "new").iterdir())
    assert names == ["kube-controller-manager.crt", "kube-controller-manager.key"]
    second = new_config(_with_port(flag), now=NOW + timedelta(days=1)).secure_serving
    assert first is not None and second is not None
    assert (first.certificate, first.key) == (second.certificate, second.key)


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidOptions, match="error creating self-signed certificates: "):
        new_config(_with_port(f"--cert-dir={tmp_path}/file"), now=NOW)


def test_files_for_the_certificate(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("C")
    (tmp_path / "k").write_text("K")
    cert, key = f"--tls-cert-file={tmp_path}/c", f"--tls-private-key-file={tmp_path}/k"
    info = new_config(_with_port(cert, key), now=NOW).secure_serving
    assert info is not None and (info.certificate, info.key) == (b"C", b"K")
    for args in ([cert], [key]):
        with pytest.raises(InvalidOptions, match="missing filename for serving cert"):
            new_config(_with_port(*args), now=NOW)
    (tmp_path / "k").unlink()
    with pytest.raises(InvalidOptions) as caught:
        new_config(_with_port(cert, key), now=NOW)
    assert str(caught.value) == f"open {tmp_path}/k: no such file or directory"
    assert caught.value.problems[0].flag == "tls-private-key-file"


def test_without_the_extra_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(InvalidOptions, match=r'pip install "kcm-lite\[tls\]".*--secure-port=0'):
        new_config(_with_port(), now=NOW)
    assert config().secure_serving is None


@pytest.mark.parametrize(
    "master", ["a", "a:1", "http://a:1/x", "https://[::1]:6443", "user:pw@a:1", "a:"]
)
def test_addresses_of_a_server(master: str) -> None:
    assert config(f"--master={master}").client.host.endswith(master)


@pytest.mark.parametrize("master", ["::bad::", "::1", "a:b", "http://a:1:2/x", "a:٣"])
def test_what_is_no_address(master: str) -> None:
    message, flag = refusal(f"--master={master}")
    assert message.startswith("parse ") and message.endswith(" after host")
    assert flag == "master"


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: there, context: {cluster: y}}, {name: here, context: {cluster: x}}]
clusters: [{name: y, cluster: {server: "https://y"}}, {name: x, cluster: {server: "https://x:1"}}]
"""


def test_a_kubeconfig_names_the_server_and_master_outranks_it(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(KUBECONFIG)
    assert config(f"--kubeconfig={path}").client.host == "https://x:1"
    assert config(f"--kubeconfig={path}", "--master=z").client.host == "http://z"


@pytest.mark.parametrize(
    "content",
    ["", "a: [", "- a", KUBECONFIG.replace("here", "gone", 1), "kind: Config", "contexts: 5", "\0"],
)
def test_a_kubeconfig_that_is_none(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    message, flag = refusal(f"--kubeconfig={path}")
    assert message.startswith(f'error loading config file "{path}": ')
    assert flag == "kubeconfig"


def test_files_that_are_directories(tmp_path: Path) -> None:
    message, _ = refusal(f"--kubeconfig={tmp_path}")
    assert message == f'error loading config file "{tmp_path}": read {tmp_path}: is a directory'


MIGRATION = """
kind: LeaderMigrationConfiguration
apiVersion: controllermanager.config.k8s.io/v1beta1
leaderName: moving
resourceLock: leases
controllerLeaders: [{name: job-controller, component: kube-controller-manager}]
"""


def test_the_plan_of_a_migration(tmp_path: Path) -> None:
    path = tmp_path / "plan"
    path.write_text(MIGRATION)
    assert config(f"--leader-migration-config={path}").leader_migration is None  # not enabled
    enable = "--enable-leader-migration"
    assert config(enable).leader_migration == DEFAULT_MIGRATION
    made = config(enable, f"--leader-migration-config={path}")
    assert made.component.generic.leader_migration_enabled
    assert made.leader_migration is not None and made.leader_migration.leader_name == "moving"
    for old, new, why in [
        ("moving", '""', "Expected `str` of length >= 1 - at `$.leaderName`"),
        ("leases", "x", "Invalid enum value 'x' - at `$.resourceLock`"),
        ("name: job", "nam: job", "unknown field `nam`"),
        ("kind: Leader", "kind: ", "Invalid enum value"),
        ("v1beta1", "v1beta1\nextra: 1", "unknown field `extra`"),
    ]:
        path.write_text(MIGRATION.replace(old, new))
        message, flag = refusal(enable, f"--leader-migration-config={path}")
        assert why in message and str(path) in message
        assert flag == "leader-migration-config"
    assert "no such file" in refusal(enable, "--leader-migration-config=/nowhere")[0]


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        (("15s", "10s", "2s"), None),
        (("10s", "10s", "2s"), "leaseDuration must be greater than renewDeadline"),
        (("15s", "2400ms", "2s"), "renewDeadline must be greater than retryPeriod*JitterFactor"),
        (("15s", "2401ms", "2s"), None),
        (("15s", "0s", "2s"), "renewDeadline must be greater than retryPeriod*JitterFactor"),
        (("15s", "10s", "0s"), "retryPeriod must be greater than zero"),
        (("15s", "0s", "-1s"), "renewDeadline must be greater than zero"),
        (("-1s", "-2s", "-3s"), "leaseDuration must be greater than zero"),
    ],
)
def test_durations_of_the_election(spans: tuple[str, ...], message: str | None) -> None:
    names = ("lease-duration", "renew-deadline", "retry-period")
    args = [f"--leader-elect-{name}={span}" for name, span in zip(names, spans, strict=True)]
    assert config("--leader-elect=false", *args)
    if message is None:
        assert config(*args)
    else:
        found, flag = refusal(*args)
        assert found == message
        assert message.lower().startswith(flag.removeprefix("leader-elect-").replace("-", ""))


# ---- the command


def test_help_and_version_come_before_the_rest() -> None:
    lines = answer(["--help", "x", "--controllers=no"], now=NOW, usage=["usage"]).lines
    assert lines[0] == "usage" and "Generic flags:" in lines
    assert answer(["--version", "--controllers=no"], now=NOW).lines == ["Kubernetes v1.36"]
    assert answer(["--version=v1.2.3"], now=NOW).lines == ["Kubernetes v1.2.3"]
    with pytest.raises(FlagError):
        answer(["--help", "--nope"], now=NOW)
    with pytest.raises(InvalidOptions):
        answer(["--version", "--feature-gates=NoSuch=true"], now=NOW)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--log-flush-frequency=0s"],
         'flushFrequency: Invalid value: "0s": Must be greater than zero'),
        (["--logging-format=xml", "--controllers=no"],
         'format: Invalid value: "xml": Unsupported log format'),
        (["--logging-format=json", "--vmodule=a=1"],
         "vmodule: Forbidden: Only supported for text log format"),
        (["--log-text-split-stream"],
         "options.text.splitStream: Forbidden: Feature LoggingAlphaOptions is disabled"),
        (["--log-text-info-buffer-size=1Ki"],
         "options.text.infoBufferSize: Forbidden: Feature LoggingAlphaOptions is disabled"),
    ],
)  # fmt: skip
def test_logs_are_looked_at_before_options(args: list[str], message: str) -> None:
    with pytest.raises(InvalidOptions) as caught:
        answer(["--secure-port=0", *args], now=NOW)
    assert str(caught.value) == message


def test_logs_with_their_gate() -> None:
    args = ["--feature-gates=LoggingAlphaOptions=true", "--log-text-split-stream"]
    assert answer(["--secure-port=0", *args], now=NOW).config is not None


def test_a_problem_names_flag_and_value_as_they_were_typed() -> None:
    with pytest.raises(InvalidOptions) as caught:
        answer(["--controllers=jobb", "--controllers=ttl"], now=NOW)
    assert str(caught.value.problems[0]) == (
        '--controllers=jobb,ttl: "jobb" is not in the list of known controllers (did you mean job?)'
    )


WEB = str(ROOT / "examples" / "web.yaml")


def command(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, list[str], list[str]]:
    code = main(["controller-manager", *args])
    out, err = capsys.readouterr()
    return code, out.splitlines(), err.splitlines()


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (["--nope"], "unknown flag: --nope"),
        (["--kube-api-brst=3"], "(did you mean --kube-api-burst?)"),
        (["--leader-elect=maybe"], 'invalid argument "maybe" for "--leader-elect" flag'),
        (["--secure-port=70000"], "--secure-port=70000: --secure-port 70000 must be between"),
        (["--controllers=deploymentt"], "(did you mean deployment?)"),
        (["--feature-gates=NoSuch=true"], "--feature-gates=NoSuch=true: unrecognized"),
        (["--feature-gates=JobManagedBy=false"], "feature is locked to true"),
        (["--kubeconfig=/nowhere"], "--kubeconfig=/nowhere: stat /nowhere: no such file"),
        (["--leader-elect-lease-duration=10s"], "leaseDuration must be greater than renewDeadline"),
        (["a"], "does not take any arguments"),
        ([], "--cluster is missing"),
        (["--cluster=/nowhere"], "/nowhere: No such file or directory"),
        ([f"--cluster={WEB}", "--until=soon"], '--until=soon: got "soon"'),
        (
            [f"--cluster={WEB}", "--service-account-private-key-file=/nowhere"],
            "--service-account-private-key-file=/nowhere: open /nowhere: no such file or directory",
        ),
        ([f"--cluster={WEB}", "--token=x"], "--token: nothing is served without --real-time"),
        ([f"--cluster={WEB}", "--all", "--real-time"], "--all: there is no report with"),
    ],
)
def test_errors_go_to_stderr_and_end_with_1(
    capsys: pytest.CaptureFixture[str], args: list[str], complaint: str
) -> None:
    code, out, err = command(capsys, "--secure-port=0", *args)
    assert (code, out, len(err)) == (1, [], 1)
    assert complaint in err[0] and err[0].startswith("kcm-lite: ")


def test_a_cluster_that_cannot_be_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for content in ("a: [", "kind: Nope", "apiVersion: apps/v1\nkind: ReplicaSet\nspec: 5"):
        (tmp_path / "c.yaml").write_text(content)
        code, out, err = command(capsys, "--secure-port=0", f"--cluster={tmp_path}/c.yaml")
        if code == 0:
            assert "kind: Nope" in content  # stored, not simulated
            continue
        assert (code, out) == (1, []) and err[0].startswith("kcm-lite: --cluster: ")


def test_the_command_runs_what_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    args = ["--secure-port=0", f"--cluster={WEB}", "--until=5s"]
    code, out, err = command(capsys, *args)
    assert (code, err) == (0, [])
    assert out[-1] == "ReplicaSet/web is complete"
    code, out, _ = command(capsys, *args, "--controllers=-replicaset,*", "--all")
    assert code == 0 and out[-1] != "ReplicaSet/web is complete"
    assert "replicaset-controller: disabled" in out
    assert "serviceaccount-token-controller: disabled because there is no private key" in out


def test_the_same_command_line_gives_the_same_output(capsys: pytest.CaptureFixture[str]) -> None:
    args = ["--secure-port=0", f"--cluster={WEB}", "--until=20s", "--controller-start-interval=1s"]
    assert command(capsys, *args, "--all") == command(capsys, *args, "--all")


def test_the_help_of_the_command_as_a_process() -> None:
    run = [sys.executable, "-m", "kcm_lite.cli", "controller-manager", "--help"]
    done = subprocess.run(run, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stderr == "" and "Usage:\n  kcm-lite controller-manager" in done.stdout


HELD = """
id: lease
nodes: 1
objects:
- apiVersion: apps/v1
  kind: ReplicaSet
  metadata: {name: web, namespace: $NS}
  spec:
    replicas: 3
    selector: {matchLabels: {app: web}}
    template:
      metadata: {labels: {app: web}}
      spec: {containers: [{name: c, image: i}]}
until: 60
"""
THIEF = """
actions:
- at: 5
  do: patch
  kind: Lease
  name: kube-controller-manager
  namespace: kube-system
  patch: {spec: {holderIdentity: thief}}
- {at: 30, do: scale, kind: ReplicaSet, name: web, replicas: 5}
"""
CRASH = """
faults:
- {fault: crashManager, at: 10, restartAfter: 1}
actions:
- {at: 12, do: scale, kind: ReplicaSet, name: web, replicas: 5}
"""


def test_a_scenario_does_not_say_which_release_the_manager_is(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(HELD + 'release: "1.30"')
    code, out, err = command(capsys, "--secure-port=0", f"--cluster={path}")
    assert (code, out) == (1, [])
    assert err == [
        f"kcm-lite: --cluster: {path}: release: got 1.30; here the flags say it, "
        "--emulated-version and --feature-gates"
    ]


def lines_with(out: list[str], text: str) -> list[str]:
    return [line for line in out if text in line]


def test_a_manager_in_virtual_time_leads_by_a_lease_too(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(HELD)
    args = ["--secure-port=0", f"--cluster={path}", "--all"]
    code, out, _ = command(capsys, *args)
    assert code == 0 and len(lines_with(out, "Lease/kube-controller-manager")) == 1
    code, out, _ = command(capsys, *args, "--leader-elect=false")
    assert code == 0 and lines_with(out, "Lease/") == []
    assert "ReplicaSet/web is complete" in out
    code, out, _ = command(capsys, *args, "--leader-elect-resource-name=mine")
    assert code == 0 and len(lines_with(out, "Lease/mine: created by leader-election")) == 1


def test_a_lost_lease_ends_the_command_with_1(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(HELD + THIEF)
    code, out, err = command(capsys, "--secure-port=0", f"--cluster={path}")
    assert (code, err) == (1, ["kcm-lite: leaderelection lost/stopped"])
    assert lines_with(out, "held by thief")[0].startswith("00:05.0")
    (end,) = lines_with(out, "manager: exit 1: leaderelection lost/stopped")
    assert 15 <= float(end[3:7]) <= 17 and "after 00:" + end[3:7] in out
    assert lines_with(out, "3 -> 5") == []  # the run has ended before


def test_a_manager_that_crashed_waits_for_the_lease_of_the_one_before(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(HELD + CRASH)
    code, out, _ = command(capsys, "--secure-port=0", f"--cluster={path}")
    (taken,) = lines_with(out, "Lease/kube-controller-manager: held by")
    (made,) = lines_with(out, "2 pods created by replicaset-controller")
    assert code == 0 and 23 <= float(taken[3:7]) <= float(made[3:7]) <= 32
    code, out, _ = command(capsys, "--secure-port=0", f"--cluster={path}", "--leader-elect=false")
    (made,) = lines_with(out, "2 pods created by replicaset-controller")
    assert code == 0 and float(made[3:7]) < 13


INTERRUPTED = """
import sys
from kcm_lite.cli import main
from kcm_lite.sim import managed, scenario
async def interrupted():
    raise KeyboardInterrupt
def play(cluster, *rest, **more):
    cluster.clock.spawn(interrupted(), name="worker")
    cluster.clock.run_for(1)
managed.play = scenario.play = play
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    "words", [["controller-manager", "--secure-port=0", f"--cluster={WEB}"], ["simulate", WEB]]
)
def test_an_interrupt_ends_the_command_quietly(words: list[str]) -> None:
    run = [sys.executable, "-c", INTERRUPTED, *words]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
