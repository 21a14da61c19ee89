from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcm_lite.cli import main
from kcm_lite.sim.answers import answers
from kcm_lite.sim.cluster import Cluster
from kcm_lite.sim.course import courses
from kcm_lite.sim.jobcourse import job_courses
from tests.sim_support import deployment, job, pod, replica_set

Capture = pytest.CaptureFixture[str]
SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {}}


@pytest.fixture
def ask(tmp_path: Path, capsys: Capture) -> Any:
    """Simulate manifests with options; return exit code, output, complaints and the JSON."""

    def call(manifests: Any, *args: str) -> tuple[int, str, str, dict[str, Any]]:
        documents = manifests if isinstance(manifests, list) else [manifests]
        path, data = tmp_path / "in.yaml", tmp_path / "out.json"
        path.write_text("\n---\n".join(map(json.dumps, documents)))
        try:
            code = main(["simulate", str(path), "--json", str(data), *args])
        except SystemExit as error:
            code = int(error.code or 0)
        out, err = capsys.readouterr()
        return code, out, err, json.loads(data.read_text()) if code < 2 else {}

    return call


def verdict(data: dict[str, Any]) -> dict[str, Any]:
    assert len(data["verdicts"]) == 1
    found: dict[str, Any] = data["verdicts"][0]
    return found


# ---- Deployment


def test_a_new_image_is_rolled_out_at_30_seconds(ask: Any) -> None:
    code, out, err, data = ask(deployment(10), "--set-image", "app:2")
    assert (code, err) == (0, "")
    assert "00:30.0  Deployment/web: user sets spec.template" in out
    answer = verdict(data)
    assert answer["state"] == "finished"
    assert answer["started"] == 30.0 and 34 < answer["finished"] < 35
    assert (answer["peak"], answer["peakAllowed"]) == (13, 13)
    assert (answer["lowestAvailable"], answer["promised"], answer["secondsBelow"]) == (8, 8, 0)
    tail = out.splitlines()[-3:]
    assert tail[0].startswith("Deployment/web finished in 4.2 s, from 00:30.0 to 00:34.2")
    assert tail[1].startswith("  at most 13 pods at once (10 wanted, 3 more allowed), ")
    assert tail[2] == "  at least 8 available (at 00:30.0), 8 promised"
    assert answer["text"] == tail
    images = [o for o in data["objects"] if o["kind"] == "Pod"]
    assert {p["spec"]["containers"][0]["image"] for p in images} == {"app:2"}


def test_pods_that_never_get_ready_make_it_stick_and_are_named(ask: Any) -> None:
    raw = deployment(10, progressDeadlineSeconds=100)
    code, out, _, data = ask(raw, "--set-image", "c=app:2", "--fail-ready", "20%")
    assert code == 0  # nobody expected anything else
    answer = verdict(data)
    assert answer["state"] == "stuck" and answer["finished"] is None
    assert answer["reason"] == "ProgressDeadlineExceeded"
    assert len(answer["notAvailable"]) == 2  # the share of ten is exact
    name = answer["notAvailable"][0]
    names = ", ".join(answer["notAvailable"])
    assert f"  not available: 2 running but not ready ({names})\n" in out
    assert "Deployment/web is stuck: ProgressDeadlineExceeded: ReplicaSet " in out
    pods = {o["metadata"]["name"]: o for o in data["objects"] if o["kind"] == "Pod"}
    assert pods[name]["spec"]["containers"][0]["image"] == "app:2"
    assert answer["lowestAvailable"] >= answer["promised"]


def test_only_pods_of_the_new_template_fail(ask: Any) -> None:
    raw = deployment(4, progressDeadlineSeconds=60)
    _, _, _, data = ask(raw, "--set-image", "app:2", "--fail-ready", "100%", "--at", "10")
    answer = verdict(data)
    assert answer["state"] == "stuck" and answer["started"] == 10.0
    ready = [
        o
        for o in data["objects"]
        if o["kind"] == "Pod" and o["status"]["containerStatuses"][0]["ready"]
    ]
    assert {p["spec"]["containers"][0]["image"] for p in ready} == {"app:1"}
    assert len(ready) == 3


def test_without_a_change_the_first_template_is_the_new_one(ask: Any) -> None:
    raw = deployment(5, progressDeadlineSeconds=60)
    answer = verdict(ask(raw, "--fail-ready", "20%")[3])
    assert answer["state"] == "stuck" and len(answer["notAvailable"]) == 1
    assert "lowestAvailable" not in answer  # nothing was available before


def test_a_stuck_rollout_is_exit_1_only_if_somebody_expects_more(
    ask: Any, tmp_path: Path, capsys: Capture
) -> None:
    plan = {
        "id": "s",
        "until": 40,
        "objects": [deployment(2, progressDeadlineSeconds=10)],
        "kubelet": {"neverReady": True},
    }
    code, out, _, _ = ask(plan)
    assert code == 0 and "Deployment/web is stuck: ProgressDeadlineExceeded" in out
    code, out, _, _ = ask({**plan, "expect": [{"object": "Deployment/web", "verdict": "complete"}]})
    assert code == 1 and "found 'failing'" in out


def test_scaling(ask: Any) -> None:
    answer = verdict(ask(deployment(3), "--scale", "6", "--at", "12.5")[3])
    assert answer["state"] == "finished" and answer["started"] == 12.5
    assert answer["peak"] == 6
    assert answer["secondsBelow"] > 1  # a larger promise holds at once
    code, out, _, data = ask(replica_set(3), "--scale", "1")
    assert code == 0 and out.endswith("ReplicaSet/web is complete\n")
    assert verdict(data) == {
        "subject": "ReplicaSet/web",
        "state": "complete",
        "text": ["ReplicaSet/web is complete"],
    }


def test_image_and_scale_together(ask: Any) -> None:
    answer = verdict(ask(deployment(3), "--set-image", "app:2", "--scale", "5")[3])
    assert answer["state"] == "finished" and answer["peak"] <= answer["peakAllowed"]


def test_times_are_drawn_for_each_pod(ask: Any) -> None:
    args = ("--set-image", "app:2", "--start", "5s..20s", "--ready", "2s..5s")
    _, _, _, data = ask(deployment(6), *args)
    assert verdict(data)["state"] == "finished"
    ready = [line for line in data["timeline"] if line["text"].endswith("1 pod ready")]
    assert len({round(line["t"] % 1, 2) for line in ready}) > 3
    assert ask(deployment(6), *args)[3] == data  # the same seed, the same pods
    assert ask(deployment(6), *args, "--seed", "1")[3]["timeline"] != data["timeline"]


def test_a_change_before_the_pods_are_there_is_told(ask: Any) -> None:
    _, out, _, data = ask(deployment(4), "--set-image", "app:2", "--start", "20s..40s")
    answer = verdict(data)
    assert answer["availableBefore"] < 4 == answer["wantedBefore"]
    assert f"  it began when only {answer['availableBefore']} of 4 were available\n" in out
    _, out, _, data = ask(deployment(4), "--scale", "8")
    assert verdict(data)["availableBefore"] == 4 and "it began when" not in out


def plan(*actions: dict[str, Any], **more: Any) -> dict[str, Any]:
    about = {"kind": "Deployment", "name": "web"}
    steps = [{**about, **action} for action in actions]
    return {"id": "s", "until": 60, "objects": [deployment(4)], "actions": steps, **more}


@pytest.mark.parametrize(
    ("actions", "started"),
    [
        ([{"at": 10, "do": "setImage", "image": "app:2"}], 10),
        # a size while it rolls belongs to it, a size later is something new
        (
            [
                {"at": 10, "do": "setImage", "image": "app:2"},
                {"at": 11, "do": "scale", "replicas": 6},
            ],
            10,
        ),
        (
            [
                {"at": 10, "do": "setImage", "image": "app:2"},
                {"at": 30, "do": "scale", "replicas": 6},
            ],
            30,
        ),
        # another template is another rollout
        (
            [
                {"at": 10, "do": "setImage", "image": "app:2"},
                {"at": 11, "do": "setImage", "image": "app:3"},
            ],
            11,
        ),
        # a pause is part of it
        (
            [
                {"at": 10, "do": "setImage", "image": "app:2"},
                {"at": 11, "do": "pause"},
                {"at": 20, "do": "resume"},
            ],
            10,
        ),
        (
            [
                {"at": 10, "do": "setImage", "image": "app:2"},
                {"at": 30, "do": "pause"},
                {"at": 31, "do": "resume"},
            ],
            10,
        ),
    ],
)
def test_when_a_rollout_begins(ask: Any, actions: list[dict[str, Any]], started: float) -> None:
    code, _, _, data = ask(plan(*actions))
    answer = verdict(data)
    assert code == 0 and answer["state"] == "finished"
    assert answer["started"] == started < answer["finished"]


def test_an_undo_ends_what_was_stuck(ask: Any) -> None:
    bad = {"match": {"image": "app:2"}, "neverReady": True}
    actions = [
        {"at": 10, "do": "setImage", "image": "app:2"},
        {"at": 30, "do": "status"},
        {"at": 40, "do": "undo"},
    ]
    raw = plan(*actions, kubelet={"overrides": [bad]})
    _, out, _, data = ask(raw)
    assert verdict(data)["state"] == "finished" and verdict(data)["started"] == 40
    assert "00:30.0  kubectl rollout status: Waiting for deployment " in out


def test_recreate_promises_nothing(ask: Any) -> None:
    raw = deployment(3, strategy={"type": "Recreate"})
    _, out, _, data = ask(raw, "--set-image", "app:2")
    answer = verdict(data)
    assert answer["state"] == "finished"
    assert (answer["lowestAvailable"], answer["promised"]) == (0, 0)
    assert "at least 0 available" in out and "none promised" in out


def test_a_chosen_end_may_come_too_early(ask: Any) -> None:
    _, out, _, data = ask(deployment(3), "--set-image", "app:2", "--until", "31")
    assert verdict(data)["state"] == "unfinished" and data["until"] == 31
    assert "Deployment/web has not finished after 1.0 s: " in out


def test_a_paused_one_is_paused(ask: Any) -> None:
    assert verdict(ask(deployment(3, paused=True))[3])["state"] == "paused"


def test_without_a_deadline_it_is_stuck_when_nothing_is_left_to_happen(ask: Any) -> None:
    raw = deployment(2, progressDeadlineSeconds=2147483647)
    _, out, _, data = ask(raw, "--fail-ready", "100%")
    assert verdict(data)["state"] == "stuck" and data["until"] < 60
    assert "Deployment/web is stuck: nothing more will happen" in out


def test_a_refused_pod_is_the_reason(ask: Any) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q"},
        "spec": {"hard": {"pods": "2"}},
    }
    raw = deployment(3, progressDeadlineSeconds=30)
    answer = verdict(ask([quota, raw], "--until", "50")[3])
    assert answer["state"] == "stuck" and answer["reason"] == "FailedCreate"
    assert "exceeded quota" in answer["message"]


def test_the_only_workload_that_a_question_fits_is_the_target(ask: Any) -> None:
    both = [deployment(), job()]
    assert "Deployment/web finished in 6.2 s, from 00:30.0" in ask(both, "--set-image", "a:2")[1]
    jobs = ask(both, "--exit-code", "1")[3]["verdicts"]
    assert [v["state"] for v in jobs] == ["finished", "Failed"]


def test_pods_of_the_target_only(ask: Any) -> None:
    manifests = [deployment(2), deployment(2, "api", progressDeadlineSeconds=60), pod()]
    args = ("--target", "deploy/web", "--set-image", "app:2", "--fail-ready", "100%")
    code, _, _, data = ask(manifests, *args)
    assert code == 0
    states = {v["subject"]: v["state"] for v in data["verdicts"]}
    assert states == {"Deployment/web": "stuck", "Deployment/api": "finished"}


def test_a_target_in_another_namespace(ask: Any) -> None:
    shop = deployment(2, progressDeadlineSeconds=60)
    shop["metadata"]["namespace"] = "shop"
    args = ("--set-image", "app:2", "--fail-ready", "100%")
    code, _, _, data = ask(shop, *args)
    assert code == 0 and verdict(data)["state"] == "stuck"
    assert verdict(data)["namespace"] == "shop"
    code, _, err, _ = ask([shop, deployment(2)], *args)
    assert code == 2 and "one of deployment/shop/web, deployment/web" in err
    for target, stuck in (("deployment/shop/web", "shop"), ("deploy/web", "default")):
        _, _, _, data = ask(
            [shop, deployment(2, progressDeadlineSeconds=60)], *args, "--target", target
        )
        states = {v["namespace"]: v["state"] for v in data["verdicts"]}
        assert states.pop(stuck) == "stuck" and set(states.values()) == {"finished"}


def test_adopted_sets_bring_their_pods(ask: Any) -> None:
    orphan = replica_set(3, "old")
    orphan["metadata"]["labels"] = {"app": "web"}
    orphan["spec"]["selector"] = deployment()["spec"]["selector"]
    orphan["spec"]["template"] = deployment()["spec"]["template"]
    create = {"at": 20, "do": "create", "object": deployment(3)}
    raw = {"id": "s", "until": 40, "objects": [orphan], "actions": [create]}
    _, out, _, data = ask(raw)
    answer = verdict(data)
    assert (answer["subject"], answer["peak"]) == ("Deployment/web", 3)
    assert "at most 3 pods at once (3 wanted)" in out


def test_orphaned_sets_keep_theirs() -> None:
    cluster = Cluster()
    cluster.apply(deployment(2))
    cluster.run_for(10)
    cluster.delete("deploy/web", propagation="Orphan")
    cluster.run_for(10)
    cluster.apply(deployment(2))
    cluster.run_for(10)
    first, second = courses(cluster.trace, cluster.now)
    assert first.points[-1].pods == 0 == first.points[-1].available
    assert first.gone is not None and second.gone is None
    last = second.points[-1]
    assert (last.pods, last.available, last.terminating) == (2, 2, 0)
    assert [size for _, _, size in second.sizes] == [2]


# ---- Job


def test_a_job_ends_by_itself(ask: Any) -> None:
    code, out, err, data = ask(job(completions=3))
    assert (code, err) == (0, "")
    answer = verdict(data)
    assert answer["state"] == "Complete" and answer["reason"] == "CompletionsReached"
    assert (answer["pods"], answer["succeeded"], answer["failed"]) == (3, 3, 0)
    assert answer["secondsInBackoff"] == 0 and "back-off" not in out
    assert out.splitlines()[-1] == "  3 pods used: 3 succeeded, 0 failed"


def test_a_job_that_always_fails_loses_its_time_in_back_off(ask: Any) -> None:
    code, out, _, data = ask(job(backoffLimit=3), "--exit-code", "7", "--duration", "2s")
    assert code == 0
    answer = verdict(data)
    assert answer["state"] == "Failed" and answer["reason"] == "BackoffLimitExceeded"
    assert (answer["pods"], answer["succeeded"], answer["failed"]) == (4, 0, 4)
    # waits of 10, 20 and 40 s begin when the pod ended, at whole seconds
    assert 67 <= answer["secondsInBackoff"] <= 70
    assert answer["seconds"] > answer["secondsInBackoff"]
    assert "Job/batch is Failed after" in out and "s lost in back-off" in out
    codes = {
        s["state"]["terminated"]["exitCode"]
        for o in data["objects"]
        if o["kind"] == "Pod"
        for s in o["status"]["containerStatuses"]
    }
    assert codes == {7}


def test_a_share_of_a_jobs_pods_fails(ask: Any) -> None:
    raw = job(completions=10, parallelism=5, backoffLimit=20)
    args = ("--fail", "30%", "--duration", "20s..40s")
    _, _, _, data = ask(raw, *args)
    answer = verdict(data)
    assert answer["state"] == "Complete" and answer["succeeded"] == 10
    assert answer["pods"] == 10 + answer["failed"]
    assert 3 <= answer["failed"] <= 6  # 3 of the first ten pods, and of those that replace them
    assert ask(raw, *args)[3] == data


def test_pods_that_are_stopped_are_told_apart_from_those_that_fail(ask: Any) -> None:
    raw = job(completions=40, parallelism=20, backoffLimit=2)
    _, out, _, data = ask(raw, "--fail", "20%", "--duration", "10s..90s")
    answer = verdict(data)
    assert answer["reason"] == "BackoffLimitExceeded"
    assert answer["failed"] == 3 + answer["stopped"] and answer["stopped"] > 10
    assert f"\n  {answer['stopped']} of them stopped by the controller before their end\n" in out
    _, out, _, data = ask(job(completions=4))
    assert verdict(data)["stopped"] == 0 and "stopped" not in out


def test_in_place_restarts_count_against_the_limit(ask: Any) -> None:
    raw = job(restart="OnFailure", backoffLimit=2)
    answer = verdict(ask(raw, "--exit-code", "1", "--duration", "5s")[3])
    assert (answer["state"], answer["reason"]) == ("Failed", "BackoffLimitExceeded")
    assert answer["pods"] == 1


def test_the_exit_code_reaches_the_failure_policy(ask: Any) -> None:
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
    raw = job(podFailurePolicy={"rules": [rule]})
    answer = verdict(ask(raw, "--exit-code", "42")[3])
    assert (answer["state"], answer["reason"], answer["pods"]) == (
        "Failed",
        "PodFailurePolicy",
        1,
    )
    answer = verdict(ask(job(podFailurePolicy={"rules": [rule]}, backoffLimit=0), "--fail", "1")[3])
    assert answer["reason"] == "BackoffLimitExceeded"


def test_a_job_that_takes_too_long(ask: Any) -> None:
    raw = job(activeDeadlineSeconds=30)
    answer = verdict(ask(raw, "--duration", "1h")[3])
    assert (answer["state"], answer["reason"]) == ("Failed", "DeadlineExceeded")
    assert 29 < answer["seconds"] < 33


def test_jobs_that_have_not_ended(ask: Any) -> None:
    assert verdict(ask(job(), "--until", "5")[3])["state"] == "unfinished"
    assert verdict(ask(job(suspend=True))[3])["state"] == "Suspended"


def test_a_job_that_is_gone_still_has_its_verdict(ask: Any) -> None:
    _, out, _, data = ask(job(ttlSecondsAfterFinished=20))
    assert not [o for o in data["objects"] if o["kind"] == "Job"]
    assert verdict(data)["state"] == "Complete"
    assert "  gone at 00:3" in out


def test_a_job_with_a_made_up_name(ask: Any) -> None:
    raw = job(backoffLimit=0)
    raw["metadata"] = {"generateName": "nightly-"}
    answer = verdict(ask(raw, "--exit-code", "3")[3])
    assert answer["subject"].startswith("Job/nightly-") and answer["state"] == "Failed"


def test_the_pods_of_other_jobs_end_well(ask: Any) -> None:
    manifests = [job("a", backoffLimit=0), job("b", backoffLimit=0)]
    _, _, _, data = ask(manifests, "--target", "job/b", "--exit-code", "1")
    states = {v["subject"]: v["state"] for v in data["verdicts"]}
    assert states == {"Job/a": "Complete", "Job/b": "Failed"}


# ---- the page


def test_the_page_has_the_verdict_and_its_pictures(ask: Any, tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    target = tmp_path / "o.html"
    raw = deployment(3, progressDeadlineSeconds=30)
    args = ("--set-image", "app:2", "--fail-ready", "100%", "--html", str(target))
    assert ask(raw, *args)[0] == 0
    page = target.read_text()
    for text in ("Verdict", "Availability", "Replica sets", "Pods"):
        assert f"<h2>{text}</h2>" in page
    assert "Deployment/web is stuck: ProgressDeadlineExceeded: ReplicaSet &quot;web-" in page
    assert "<h2>Replicas</h2>" not in page and "<h2>Jobs</h2>" not in page
    assert ask([job(completions=2), replica_set(1)], "--html", str(target))[0] == 0
    page = target.read_text()
    assert "<h2>Jobs</h2>" in page and "<h2>Replicas</h2>" in page
    assert "Job/batch is Complete after" in page


# ---- bad input

TWO = [deployment(), deployment(1, "api")]
UNNAMED = {**deployment(), "metadata": {"generateName": "web-"}}
SIDE = deployment()
SIDE["spec"]["template"]["spec"]["containers"].append({"name": "side", "image": "side:1"})


@pytest.mark.parametrize(
    ("manifests", "args", "message"),
    [
        (TWO, ["--scale", "1"], "--scale: which workload? add --target, one of deployment/web, de"),
        ([deployment(), job()], ["--start", "1"], "--start: which workload? add --target"),
        (
            [*TWO, job()],
            ["--scale", "1"],
            "--scale: which workload? add --target, one of deployment/web, deployment/api",
        ),
        (
            [deployment(), job()],
            ["--set-image", "a:2", "--fail", "5%"],
            "--set-image: which workload? add --target, one of deployment/web, job/batch",
        ),
        (TWO, ["--scale", "1", "--target", "web"], '--target: got "web", want one of deployment/w'),
        (
            TWO,
            ["--scale", "1", "--target", "deployment/wep"],
            'want one of deployment/web, deployment/api (did you mean "deployment/web"?)',
        ),
        ([SERVICE], ["--scale", "1"], "--scale: the manifests hold no workload (Deployment, Repl"),
        ([pod()], ["--fail", "1%"], "--fail: the manifests hold no workload"),
        ([deployment()], ["--exit-code", "1"], "--exit-code: is for Job, not for deployment/web"),
        ([deployment()], ["--fail", "1%"], "--fail: is for Job, not for deployment/web"),
        ([deployment()], ["--duration", "5s"], "--duration: is for Job, not for deployment/web"),
        ([job()], ["--set-image", "a:1"], "--set-image: is for Deployment, not for job/batch"),
        ([job()], ["--fail-ready", "1%"], "--fail-ready: is for Deployment and ReplicaSet and Re"),
        ([job()], ["--ready", "5s"], "--ready: is for Deployment and ReplicaSet and Replication"),
        ([job()], ["--scale", "3"], "--scale: is for Deployment and ReplicaSet and Replication"),
        ([replica_set()], ["--set-image", "a:1"], "--set-image: is for Deployment, not for repli"),
        ([deployment()], ["--target", "deployment/web"], "--target: goes with --set-image, --sca"),
        ([deployment()], ["--at", "5"], "--at: goes with --set-image, --scale and --do"),
        (
            [deployment()],
            ["--scale", "1", "--at", "2m", "--until", "1m"],
            "--at: is after the end of the run (--until 60)",
        ),
        ([deployment()], ["--set-image", "c="], '--set-image: got "c=", want [NAME=]IMAGE'),
        ([deployment()], ["--set-image", ""], '--set-image: got "", want [NAME=]IMAGE'),
        ([deployment()], ["--set-image", "a b"], '--set-image: got "a b", want [NAME=]IMAGE'),
        ([deployment()], ["--set-image", "=a"], '--set-image: got "=a", want [NAME=]IMAGE'),
        (
            [deployment()],
            ["--set-image", "cc=app:2"],
            '--set-image: unable to find container named "cc": deployment/web has c (did you mean',
        ),
        (
            [SIDE],
            ["--set-image", "app:2"],
            "--set-image: which container? want NAME=app:2, NAME: c, side",
        ),
        (
            [deployment()],
            ["--set-image", "app:2", "--set-image", "c=app:3"],
            "--set-image: container c is there twice",
        ),
        (
            [deployment()],
            ["--set-image", "app:1"],
            "--set-image: container c has the image app:1 already",
        ),
        ([deployment()], ["--do", "undoo"], '--do undoo.do: got "undoo", want one of addNode, '),
        (
            [deployment()],
            ["--do", ""],
            '--do: got "", want an action, and its keys: "undo, at: 60"',
        ),
        ([deployment()], ["--do", "undo, toRevision: x"], '--do undo.toRevision: got "x", want a'),
        ([deployment()], ["--do", "scale"], "--do scale.replicas: is missing"),
        ([deployment()], ["--do", "pause, at: ["], '--do: got "pause, at: [", want an action, and'),
        ([deployment()], ["--do", "a}, {b"], '--do: got "a}, {b", want an action, and its keys'),
        (TWO, ["--do", "pause"], "--do: which workload? add --target, one of deployment/web, depl"),
        ([UNNAMED], ["--do", "pause"], "--do pause: deployment/web- has no name yet"),
        ([deployment()], ["--do", "pause, at: -1"], "--do pause.at: got -1, want seconds >= 0"),
        ([SERVICE], ["--do", "pause"], "--do: the manifests hold no workload"),
        ([{"id": "s", "until": 9}], ["--do", "undo"], "--do: is for plain manifests: a scenario"),
        (
            [deployment()],
            ["--release", "1.19"],
            'argument --release: got "1.19", want 1.20 to 1.36',
        ),
        ([job()], ["--fail", "5%", "--exit-code", "0"], "--fail: pods that fail have an exit code"),
        (
            [{"id": "s", "until": 9}],
            ["--start", "5s"],
            "--start: is for plain manifests: a scenario says it under actions and kubelet",
        ),
        ([{"id": "s", "until": 9}], ["--at", "5s"], "--at: is for plain manifests"),
        ([deployment()], ["--scale", "-1"], 'argument --scale: got "-1", want a whole number >='),
        ([deployment()], ["--scale", "1.5"], 'argument --scale: got "1.5", want a whole number'),
        ([deployment()], ["--at", "soon"], 'argument --at: got "soon", want seconds or a dura'),
        (
            [deployment()],
            ["--fail-ready", "120%"],
            'argument --fail-ready: got "120%", want a share from 0% to 100%, such as 20%',
        ),
        ([deployment()], ["--fail-ready", "20"], 'argument --fail-ready: got "20", want a share'),
        (
            [deployment()],
            ["--start", "9s..2s"],
            'argument --start: got "9s..2s", want a range from the smaller to the larger',
        ),
        (
            [deployment()],
            ["--ready", "x"],
            'argument --ready: got "x", want seconds or a duration such as 90, 90s, 5m, 1h30m, '
            "or a range: 5s..20s",
        ),
        ([job()], ["--duration", "5s.."], 'argument --duration: got "5s..", want seconds or a'),
        ([job()], ["--exit-code", "256"], 'argument --exit-code: got "256", want a whole number '),
        ([job()], ["--exit-code", "-1"], "--exit-code"),
        ([job()], ["--fail", "many"], 'argument --fail: got "many", want a share from 0% to 100%'),
    ],
)
def test_bad_questions_are_exit_2_and_say_what_is_allowed(
    ask: Any, manifests: list[Any], args: list[str], message: str
) -> None:
    code, out, err, _ = ask(manifests, *args)
    assert (code, out) == (2, "")
    assert message in " ".join(err.split())


def test_an_action_is_about_the_workload_unless_it_says_of_what(ask: Any) -> None:
    undo = ["--set-image", "app:2", "--do", "undo, at: 33"]
    code, out, err, data = ask(deployment(10), *undo)
    assert (code, err) == (0, "")
    assert verdict(data)["started"] == 33.0
    (web,) = (o for o in data["objects"] if o["kind"] == "Deployment")
    assert web["spec"]["template"]["spec"]["containers"][0]["image"] == "app:1"
    _, out, _, _ = ask(TWO, "--do", "pause", "--target", "deployment/api", "--at", "9")
    assert "00:09.0  Deployment/api: user sets spec.paused" in out
    _, out, _, _ = ask(TWO, "--do", "scale, kind: Deployment, name: web, replicas: 7")
    assert "00:30.0  Deployment/web: user sets spec.replicas" in out


def test_actions_are_done_in_the_order_of_their_times(ask: Any) -> None:
    steps = ["--do", "scale, at: 20, replicas: 2", "--do", "scale, at: 10, replicas: 5"]
    _, out, _, data = ask(deployment(3), *steps, "--scale", "4", "--at", "15")
    sizes = [line for line in out.splitlines() if "Deployment/web: user sets spec.replicas" in line]
    assert [line.split()[0] for line in sizes] == ["00:10.0", "00:15.0", "00:20.0"]
    assert [o["spec"]["replicas"] for o in data["objects"] if o["kind"] == "Deployment"] == [2]


def test_a_run_goes_on_until_a_fault_has_done_its_harm(ask: Any) -> None:
    code, out, _, data = ask(deployment(10), "--do", "nodeDeath, node: 1")
    assert code == 0
    short = verdict(data)["shortage"]
    assert (short["available"], short["wanted"], short["from"]) == (6, 10, 80.0)
    assert 380 < short["to"] < 383  # 350 s after the death its pods go, and others come
    assert short["seconds"] == pytest.approx(short["to"] - short["from"])
    last = "  later only 6 of 10 available (fewer than wanted for 302.0 s between 01:20.0 and 06:2"
    assert out.splitlines()[-1].startswith(last)
    _, out, _, data = ask(deployment(10), "--do", "nodeDeath, node: 1", "--until", "2m")
    assert verdict(data)["shortage"]["to"] is None
    assert out.splitlines()[-1].endswith("for 40.0 s between 01:20.0 and the end)")
    chaos = "podChaos, every: 20s, effect: delete, for: 3m"
    _, out, _, data = ask(deployment(10), "--do", chaos, "--all")
    assert out.count("fault: Pod/") == 8
    short = verdict(data)["shortage"]  # eight times two seconds, not all the time between
    assert 8 * 2 <= short["seconds"] < 8 * 3 < short["to"] - short["from"]
    _, out, _, _ = ask(deployment(), "--do", "crashManager, restartAfter: 9", "--do", "restart")
    assert "00:39.0  fault: the manager starts" in out


def test_a_manifest_runs_by_the_rules_of_a_release(ask: Any) -> None:
    _, old, _, data = ask(job(completions=1), "--release", "1.22")
    assert data["release"] == "1.22"
    assert "release 1.22" in old.splitlines()[0]
    _, new, _, _ = ask(job(completions=1))
    assert "Complete is True (CompletionsReached)" in new  # v1.22 gave no reason
    assert "Complete is True ()" in old


def test_all_problems_are_named_at_once(ask: Any) -> None:
    _, _, err, _ = ask([deployment()], "--fail", "5%", "--duration", "1s")
    assert [line.split(": ")[1] for line in err.splitlines()] == ["--fail", "--duration"]


def test_a_side_container_can_be_named(ask: Any) -> None:
    args = ("--set-image", "side=side:2", "--set-image", "c=app:2")
    _, _, _, data = ask([SIDE], *args)
    assert verdict(data)["state"] == "finished"
    assert len([o for o in data["objects"] if o["kind"] == "ReplicaSet"]) == 2  # one rollout


# ---- invariants of what a verdict is made of

SPECS = st.fixed_dictionaries(
    {
        "replicas": st.integers(0, 6),
        "maxSurge": st.integers(0, 3),
        "maxUnavailable": st.integers(1, 3),
        "minReadySeconds": st.integers(0, 3),
    }
)


@settings(max_examples=25)
@given(SPECS, st.integers(0, 3), st.sampled_from(["0%", "34%", "100%"]), st.integers(1, 6))
def test_a_course_agrees_with_what_the_cluster_holds(
    spec: dict[str, int], seed: int, share: str, after: int
) -> None:
    bad = {"match": {"images": {"c": "app:2"}, "share": share}, "neverReady": True}
    profile = {"startAfter": "1s..4s", "overrides": [bad]}
    cluster = Cluster(seed=seed, profile=profile)
    limits = {k: spec[k] for k in ("maxSurge", "maxUnavailable")}
    raw = deployment(
        spec["replicas"],
        minReadySeconds=spec["minReadySeconds"],
        strategy={"rollingUpdate": limits},
    )
    cluster.apply(raw)
    cluster.run_for(20)
    cluster.set_image("deploy/web", {"c": "app:2"})
    cluster.run_for(after * 10)
    end = cluster.now
    (course,) = courses(cluster.trace, end)
    last, d = course.points[-1], cluster.object("deploy/web")
    pods = [s for s in cluster.kubelets.pods.values() if not s.deleting]
    assert (last.pods, last.wanted) == (len(pods), spec["replicas"])
    assert last.terminating == len(cluster.kubelets.pods) - len(pods)
    assert all(min(p.pods, p.terminating, p.available) >= 0 for p in course.points)
    assert all(p.available <= p.pods for p in course.points)
    assert all(a.t < b.t for a, b in zip(course.points, course.points[1:], strict=False))
    assert all(p.pods <= p.ceiling for p in course.window(end))
    assert all(p.available >= p.floor for p in course.window(end))
    # the status follows within the latency of the wire; times in it are whole seconds
    assert last.available - d.status.available_replicas in (-1, 0, 1)
    assert (course.finished is not None) == (
        d.status.updated_replicas == d.status.available_replicas == d.status.replicas
        and d.status.replicas == spec["replicas"]
    )
    (answer,) = answers(cluster, end)
    assert answer.state == ("finished" if course.finished is not None else "unfinished")


@settings(max_examples=20)
@given(st.integers(1, 5), st.integers(1, 3), st.integers(0, 3), st.integers(0, 3))
def test_a_jobs_course_adds_up(completions: int, parallelism: int, limit: int, seed: int) -> None:
    bad = {"match": {"share": "50%"}, "exit": {"after": "1s..9s", "code": 1}}
    profile = {"exit": {"after": "1s..9s"}, "overrides": [bad]}
    cluster = Cluster(seed=seed, profile=profile)
    cluster.apply(job(completions=completions, parallelism=parallelism, backoffLimit=limit))
    cluster.run_for(300)
    (course,) = job_courses(cluster.trace, cluster.now)
    assert course.verdict is not None and course.ended is not None
    status = cluster.object("job/batch").status
    assert course.pods == status.succeeded + status.failed
    assert (status.failed > limit) == (course.verdict.type == "Failed")
    assert 0 <= course.backoff <= course.ended - course.started
    if not status.failed:
        assert course.backoff == 0
