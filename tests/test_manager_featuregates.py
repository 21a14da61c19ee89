"""Feature gates: their table, what a release has on, what may be set."""

from __future__ import annotations

import subprocess
import sys
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm_lite.manager.featuregates import (
    PRE_ALPHA,
    TODAY,
    FeatureGates,
    Gate,
    GateError,
    Spec,
    known_gates,
    open_gates,
    parse_release,
    parse_settings,
    parse_version,
    read_gate,
    text_of,
)
from tests.tools_support import ROOT

RELEASES = [f"1.{minor}" for minor in range(TODAY[1] + 1)]


def test_a_gate_says_what_holds_from_which_release_on() -> None:
    gate = read_gate("1.9 ALPHA off, 1.22 BETA on, 1.31 GA on locked; needs A B")
    assert gate.needs == ("A", "B")
    assert gate.at((1, 8)) == Spec((0, 0), PRE_ALPHA, False)
    assert gate.at((1, 9)) == gate.at((1, 21)) == Spec((1, 9), "ALPHA", False)
    assert gate.at((1, 22)) == Spec((1, 22), "BETA", True)
    assert gate.at((1, 99)) == Spec((1, 31), "GA", True, True)
    assert Gate((Spec((0, 0), "ALPHA", False),)).at((1, 0)).stage == "ALPHA"


def test_the_table_is_sound() -> None:
    assert len(known_gates()) == 242
    for name, gate in known_gates().items():
        releases = [spec.since for spec in gate.specs]
        assert releases == sorted(set(releases)), name
        assert {spec.stage for spec in gate.specs} <= {"ALPHA", "BETA", "GA", "DEPRECATED"}, name
        assert set(gate.needs) <= known_gates().keys() - {name}, name
        locked = [spec.locked for spec in gate.specs]
        assert locked == sorted(locked), f"{name} is unlocked again"


@pytest.mark.parametrize("release", RELEASES)
def test_the_defaults_of_a_release_hold_together(release: str) -> None:
    gates = FeatureGates.for_release(release)
    for name, gate in known_gates().items():
        assert gates.enabled(name) == gate.at(parse_release(release)).default
    assert gates.since(release) and not gates.since("1.37")


def test_some_defaults_that_readers_know() -> None:
    on = {
        "PodDeletionCost": "1.22",
        "LogarithmicScaleDown": "1.22",
        "JobBackoffLimitPerIndex": "1.29",
        "JobManagedBy": "1.32",
        "StaleControllerConsistencyReplicaSet": "1.36",
    }
    for name, first in on.items():
        enabled = [r for r in RELEASES if FeatureGates.for_release(r).enabled(name)]
        assert enabled[0] == first, name


@pytest.mark.parametrize("release", ["1.37", "2.0", "0.9"])
def test_releases_that_are_not_there(release: str) -> None:
    with pytest.raises(ValueError, match=r"is not between \[1.0, 1.36\]"):
        FeatureGates.for_release(release)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'could not parse "" as version'),
        ("x1.2", 'could not parse "x1.2" as version'),
        ("1", 'illegal version string "1"'),
        ("01.2", 'illegal zero-prefixed version component "01" in "01.2"'),
    ],
)
def test_what_is_no_version(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_version(text)
    assert str(caught.value) == message


def test_versions() -> None:
    assert parse_version(" v1.36.2-rc.1") == (1, 36, 2)
    assert parse_release("1.9.11") == (1, 9) < parse_release("1.22")
    assert text_of((1, 36)) == "1.36"


# ---- settings


def test_settings_are_read() -> None:
    assert parse_settings(" A = true ,,B=0,A=F") == {"A": False, "B": False}
    assert parse_settings("") == {}
    for text, message in [
        ("A", "missing bool value for A"),
        ("A=", 'invalid value of A=, err: strconv.ParseBool: parsing "": invalid syntax'),
        ("A=b=c", 'invalid value of A=b=c, err: strconv.ParseBool: parsing "b=c": invalid syntax'),
    ]:
        with pytest.raises(GateError) as caught:
            parse_settings(text)
        assert str(caught.value) == message


def test_a_setting_outranks_the_default_and_a_later_one_the_earlier() -> None:
    gates = FeatureGates().set("PodDeletionCost=false")
    assert not gates.enabled("PodDeletionCost") and FeatureGates().enabled("PodDeletionCost")
    assert gates.set("PodDeletionCost=true").enabled("PodDeletionCost")
    assert not gates.set("JobManagedBy=true").enabled("PodDeletionCost")


def test_refusals() -> None:
    with pytest.raises(GateError) as caught:
        FeatureGates.for_release("1.34").set(
            "NoSuch=true,LogarithmicScaleDown=false,StaleControllerConsistencyJob=true"
        )
    assert caught.value.problems == (
        "unrecognized feature gate: NoSuch",
        "cannot set feature gate LogarithmicScaleDown to false, feature is locked to true",
        "cannot set feature gate StaleControllerConsistencyJob to true, feature is PreAlpha at "
        "emulated version 1.34, min compatibility version 1.33",
    )
    assert str(caught.value) == f"[{', '.join(caught.value.problems)}]"
    assert FeatureGates().set("LogarithmicScaleDown=true")  # locked, and so it is
    assert (
        not FeatureGates.for_release("1.30")
        .set("LogarithmicScaleDown=false")
        .enabled("LogarithmicScaleDown")
    )
    with pytest.raises(KeyError):
        FeatureGates().enabled("NoSuch")


def test_what_is_on_needs_what_it_depends_on() -> None:
    with pytest.raises(GateError) as caught:
        FeatureGates().set("AtomicFIFO=false")
    kinds = ("DaemonSet", "Job", "ReplicaSet", "StatefulSet")
    assert caught.value.problems == tuple(
        f"StaleControllerConsistency{kind} is enabled, but depends on features that are disabled: "
        "[AtomicFIFO]"
        for kind in kinds
    )
    off = {f"StaleControllerConsistency{kind}": False for kind in kinds}
    assert not FeatureGates(settings={**off, "AtomicFIFO": False}).enabled("AtomicFIFO")
    with pytest.raises(GateError) as two:
        FeatureGates().set("DRAWorkloadResourceClaims=true,NoSuch=true")
    assert two.value.problems == ("unrecognized feature gate: NoSuch",)  # that comes first


def test_all_of_a_stage() -> None:
    gates = FeatureGates(settings={"AllAlpha": True, "HPAScaleToZero": False})
    for name, gate in known_gates().items():
        stage = gate.at(TODAY).stage
        default = gate.at(TODAY).default
        wanted = True if stage == "ALPHA" and name != "HPAScaleToZero" else default
        assert gates.enabled(name) == (wanted if name != "HPAScaleToZero" else False), name
    none = FeatureGates().set("AllBeta=false")
    assert not any(none.enabled(n) for n, g in known_gates().items() if g.at(TODAY).stage == "BETA")
    assert none.enabled("JobManagedBy")  # GA


def test_the_order_of_settings_does_not_matter() -> None:
    parts = ["AllBeta=false", "PodDeletionCost=true", "AllAlpha=false"]
    found = [FeatureGates().set(",".join(order)) for order in permutations(parts)]
    for name in known_gates():
        assert len({gates.enabled(name) for gates in found}) == 1, name


@given(
    st.sampled_from(RELEASES),
    st.dictionaries(st.sampled_from(sorted(known_gates())), st.booleans()),
)
def test_settings_are_taken_whole_or_refused(release: str, settings: dict[str, bool]) -> None:
    try:
        gates = FeatureGates.for_release(release, settings)
    except GateError as error:
        assert error.problems
        return
    assert all(gates.enabled(name) == value for name, value in settings.items())
    for name, gate in known_gates().items():
        assert not gates.enabled(name) or all(map(gates.enabled, gate.needs))


def test_gates_that_can_be_set() -> None:
    shown = open_gates(FeatureGates())
    assert "PodDeletionCost=true|false (BETA - default=true)" in shown
    assert not any(line.startswith("JobManagedBy=") for line in shown)
    assert len(shown) == sum(g.at(TODAY).stage in ("ALPHA", "BETA") for g in known_gates().values())


def test_the_simulation_can_use_gates_without_the_rest_of_the_manager() -> None:
    code = (
        "import sys, kcm_lite.manager.featuregates\n"
        "print(sorted(m for m in sys.modules if m.startswith('kcm_lite.manager.')))"
    )
    run = [sys.executable, "-c", code]
    done = subprocess.run(run, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "['kcm_lite.manager.featuregates']\n"
