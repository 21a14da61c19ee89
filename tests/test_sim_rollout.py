from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcm_lite.api.apps import Deployment, ReplicaSet
from kcm_lite.api.core import Event, Pod
from kcm_lite.api.errors import NotFound
from kcm_lite.controllers.deployment_templates import equal_ignore_hash
from kcm_lite.sim.cluster import Cluster
from kcm_lite.sim.rollout import CommandError
from kcm_lite.sim.steps import ActionFailed
from kcm_lite.trace import ApiWrite, Note
from tests.sim_support import deployment, pod, replica_set, run

WEB = "deployment/web"


def rolled(*images: str, **spec: Any) -> Cluster:
    """A Deployment that has had these images, one after the other."""
    cluster = Cluster(seed=1)
    cluster.apply(deployment(image=images[0], **spec))
    cluster.run_for(20)
    for image in images[1:]:
        cluster.set_image(WEB, {"c": image})
        cluster.run_for(20)
    return cluster


def image(cluster: Cluster) -> str:
    found: Deployment = cluster.object(WEB)
    return found.spec.template.spec.containers[0].image


# ---- apply, set image, scale


def test_apply_prints_what_happened_to_each_object() -> None:
    cluster = Cluster()
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
    first = cluster.apply([deployment(), replica_set(1, name="other"), service])
    assert str(first) == (
        "deployment.apps/web created\nreplicaset.apps/other created\n"
        "Service/web stored, not simulated"
    )
    assert [o.metadata.name for o in first] == ["web", "other"]
    again = cluster.apply([deployment(replicas=5), pod()])
    assert repr(again) == "deployment.apps/web configured\npod/lone created"
    assert str(cluster.apply(deployment(replicas=5))) == "deployment.apps/web unchanged"


def test_apply_says_configured_only_if_the_server_changed_something() -> None:
    cluster = Cluster()
    cluster.apply(deployment())
    defaults = deployment(minReadySeconds=0, progressDeadlineSeconds=600)
    assert str(cluster.apply(defaults)) == "deployment.apps/web unchanged"


def test_set_image_names_containers() -> None:
    cluster = Cluster()
    raw = deployment()
    containers = raw["spec"]["template"]["spec"]["containers"]
    containers.append({"name": "side", "image": "side:1"})
    raw["spec"]["template"]["spec"]["initContainers"] = [{"name": "init", "image": "init:1"}]
    cluster.apply(raw)

    def images() -> list[str]:
        spec = cluster.object(WEB).spec.template.spec
        return [c.image for c in (*spec.init_containers, *spec.containers)]

    assert cluster.set_image(WEB, {"side": "side:2"}) == "deployment.apps/web image updated"
    assert images() == ["init:1", "app:1", "side:2"]
    assert cluster.set_image("deploy/web", {"init": "init:2", "c": "app:2"}) != ""
    assert images() == ["init:2", "app:2", "side:2"]
    assert cluster.set_image(WEB, {"*": "all:1"}) == "deployment.apps/web image updated"
    assert images() == ["all:1"] * 3
    generation = cluster.object(WEB).metadata.generation
    assert cluster.set_image(WEB, {"c": "all:1"}) == ""
    assert cluster.object(WEB).metadata.generation == generation
    with pytest.raises(CommandError, match=r'^error: unable to find container named "web"$'):
        cluster.set_image(WEB, {"web": "x", "c": "app:9"})
    assert images() == ["all:1"] * 3  # all or nothing


def test_set_image_of_a_pod() -> None:
    cluster = Cluster()
    cluster.apply(pod())
    assert cluster.set_image("pod/lone", {"c": "app:2"}) == "pod/lone image updated"
    assert cluster.object("pod/lone").spec.containers[0].image == "app:2"


def test_scale() -> None:
    cluster = Cluster()
    cluster.apply([deployment(), replica_set(1, name="rs"), pod()])
    assert cluster.scale(WEB, 0) == "deployment.apps/web scaled"
    assert cluster.object(WEB).spec.replicas == 0
    assert cluster.scale("rs/rs", 2) == "replicaset.apps/rs scaled"
    with pytest.raises(CommandError, match="COUNT must be greater than or equal to 0"):
        cluster.scale(WEB, -1)
    with pytest.raises(NotFound, match="could not find the requested resource"):
        cluster.scale("pod/lone", 1)
    with pytest.raises(NotFound, match=r'deployments\.apps "none" not found'):
        cluster.scale("deployment/none", 1)
    assert cluster.object(WEB).spec.replicas == 0


# ---- rollout


def test_the_status_goes_through_its_stages() -> None:
    cluster = rolled("app:1")
    cluster.set_image(WEB, {"c": "app:2"})
    seen: list[str] = []
    for _ in range(2000):
        text = cluster.rollout.status(WEB)
        if not seen or seen[-1] != text:
            seen.append(text)
        cluster.run_for(0.01)
    waiting = 'Waiting for deployment "web" rollout to finish:'
    assert seen[0] == "Waiting for deployment spec update to be observed..."
    assert f"{waiting} 1 out of 3 new replicas have been updated..." in seen
    assert f"{waiting} 2 out of 3 new replicas have been updated..." in seen
    assert f"{waiting} 1 old replicas are pending termination..." in seen
    assert seen[-1] == 'deployment "web" successfully rolled out'


def test_the_status_waits_for_available_pods() -> None:
    cluster = Cluster(profile={"readyAfter": 9})
    cluster.apply(deployment())
    cluster.run_for(5)
    text = 'Waiting for deployment "web" rollout to finish: 0 of 3 updated replicas are available'
    assert cluster.rollout.status(WEB) == f"{text}..."


def test_the_status_of_a_rollout_past_its_deadline_is_an_error() -> None:
    cluster = Cluster(profile={"neverReady": True})
    cluster.apply(deployment(progressDeadlineSeconds=10))
    cluster.run_for(30)
    with pytest.raises(
        CommandError, match=r'^error: deployment "web" exceeded its progress deadline$'
    ):
        cluster.rollout.status(WEB)


def test_the_status_can_be_pinned_to_a_revision() -> None:
    cluster = rolled("app:1", "app:2")
    assert cluster.rollout.status(WEB, revision=2) == 'deployment "web" successfully rolled out'
    with pytest.raises(CommandError, match=r"desired revision \(1\) is different .* \(2\)"):
        cluster.rollout.status(WEB, revision=1)
    with pytest.raises(CommandError, match="revision must be a positive integer: -1"):
        cluster.rollout.status(WEB, revision=-1)


def test_a_paused_deployment_takes_no_rollout_and_catches_up() -> None:
    cluster = rolled("app:1")
    assert cluster.rollout.pause(WEB) == "deployment.apps/web paused"
    cluster.set_image(WEB, {"c": "app:2"})
    cluster.set_image(WEB, {"c": "app:3"})
    cluster.run_for(20)
    assert {p.spec.containers[0].image for p in cluster.objects(Pod)} == {"app:1"}
    for verb, text in (
        ("pause", 'error: deployments.apps "web" is already paused'),
        (
            "restart",
            'error: deployments.apps "web" can\'t restart paused deployment '
            "(run rollout resume first)",
        ),
    ):
        with pytest.raises(CommandError) as caught:
            getattr(cluster.rollout, verb)(WEB)
        assert str(caught.value) == text
    assert cluster.rollout.resume(WEB) == "deployment.apps/web resumed"
    with pytest.raises(CommandError, match=r'^error: deployments.apps "web" is not paused$'):
        cluster.rollout.resume(WEB)
    cluster.run_for(20)
    assert {p.spec.containers[0].image for p in cluster.objects(Pod)} == {"app:3"}
    assert len(cluster.objects(ReplicaSet)) == 2


def test_a_restart_makes_new_pods_of_the_same_image() -> None:
    cluster = rolled("app:1")
    before = {p.metadata.name for p in cluster.objects(Pod)}
    assert cluster.rollout.restart(WEB) == "deployment.apps/web restarted"
    with pytest.raises(CommandError, match="restart has already been triggered within the past"):
        cluster.rollout.restart(WEB)
    cluster.run_for(20)
    pods = cluster.objects(Pod)
    assert len(pods) == 3 and not before & {p.metadata.name for p in pods}
    stamp = pods[0].metadata.annotations["kubectl.kubernetes.io/restartedAt"]
    assert stamp == "2026-01-01T00:00:20Z"
    assert cluster.rollout.restart(WEB) == "deployment.apps/web restarted"


def test_an_undo_brings_an_old_template_back_under_a_new_number() -> None:
    cluster = rolled("app:1", "app:2", "app:3")
    assert cluster.rollout.undo(WEB) == "deployment.apps/web rolled back"
    cluster.run_for(20)
    assert image(cluster) == "app:2"
    assert cluster.rollout.undo(WEB, to_revision=1) == "deployment.apps/web rolled back"
    cluster.run_for(20)
    assert image(cluster) == "app:1"
    assert cluster.rollout.history(WEB).splitlines() == [
        "deployment.apps/web",
        "REVISION  CHANGE-CAUSE",
        "3         <none>",
        "4         <none>",
        "5         <none>",
    ]
    assert len(cluster.objects(ReplicaSet)) == 3
    assert "pod-template-hash" not in cluster.object(WEB).spec.template.metadata.labels


def test_undo_refuses() -> None:
    cluster = rolled("app:1")
    with pytest.raises(
        CommandError, match=r'^error: no rollout history found for deployment "web"$'
    ):
        cluster.rollout.undo(WEB)
    with pytest.raises(
        CommandError, match=r"^error: unable to find specified revision 7 in history$"
    ):
        cluster.rollout.undo(WEB, to_revision=7)
    with pytest.raises(CommandError, match="unable to find specified revision -1 in history"):
        cluster.rollout.undo(WEB, to_revision=-1)
    skipped = "deployment.apps/web skipped rollback (current template already matches revision 1)"
    assert cluster.rollout.undo(WEB, to_revision=1) == skipped
    cluster.set_image(WEB, {"c": "app:2"})
    cluster.run_for(20)
    cluster.rollout.pause(WEB)
    with pytest.raises(CommandError) as caught:
        cluster.rollout.undo(WEB)
    assert str(caught.value) == (
        "error: you cannot rollback a paused deployment; resume it first with "
        "'kubectl rollout resume deployment/web' and try again"
    )
    assert image(cluster) == "app:2"


def test_an_undo_brings_the_annotations_of_then() -> None:
    cluster = Cluster()
    raw = deployment()
    cause = "kubernetes.io/change-cause"
    raw["metadata"]["annotations"] = {cause: "first"}
    cluster.apply(raw)
    cluster.run_for(10)
    raw["metadata"]["annotations"] = {cause: "second"}
    raw["spec"]["template"]["spec"]["containers"][0]["image"] = "app:2"
    cluster.apply(raw)
    cluster.run_for(10)
    assert cluster.rollout.history(WEB).splitlines()[2:] == ["1         first", "2         second"]
    cluster.rollout.undo(WEB)
    cluster.run_for(10)
    annotations = cluster.object(WEB).metadata.annotations
    assert annotations[cause] == "first"
    assert annotations["deployment.kubernetes.io/revision"] == "3"


def test_the_history_tells_one_template() -> None:
    cluster = rolled("app:1", "app:2")
    lines = cluster.rollout.history(WEB, revision=1).splitlines()
    assert lines[:3] == [
        "deployment.apps/web with revision #1",
        "Pod Template:",
        "  Labels:\tapp=web",
    ]
    assert lines[3].startswith("\tpod-template-hash=")
    assert lines[4:] == ["  Containers:", "   c:", "    Image:\tapp:1", "    Port:\t<none>"]
    with pytest.raises(CommandError, match=r"^error: unable to find the specified revision$"):
        cluster.rollout.history(WEB, revision=9)
    with pytest.raises(CommandError, match="revision must be a positive integer: -2"):
        cluster.rollout.history(WEB, revision=-2)


def test_there_is_no_history_before_the_controller_has_seen_it() -> None:
    cluster = Cluster()
    cluster.apply(deployment())
    text = "deployment.apps/web\nNo rollout history found."
    assert cluster.rollout.history(WEB) == text


@pytest.mark.parametrize(
    ("verb", "text"),
    [
        ("pause", 'replicasets.apps "web" pausing is not supported'),
        ("resume", 'replicasets.apps "web" resuming is not supported'),
        ("restart", 'replicasets.apps "web" restarting is not supported'),
        ("undo", 'no rollbacker has been implemented for "ReplicaSet.apps"'),
        ("history", 'no history viewer has been implemented for "ReplicaSet.apps"'),
        ("status", 'no status viewer has been implemented for "ReplicaSet.apps"'),
    ],
)
def test_only_deployments_roll(verb: str, text: str) -> None:
    cluster = Cluster()
    cluster.apply(replica_set())
    with pytest.raises(CommandError) as caught:
        getattr(cluster.rollout, verb)("rs/web")
    assert str(caught.value) == f"error: {text}"
    with pytest.raises(NotFound, match=r'deployments\.apps "none" not found'):
        getattr(cluster.rollout, verb)("deployment/none")
    with pytest.raises(ValueError, match="want kind/name"):
        getattr(cluster.rollout, verb)("web")


def test_a_foreign_set_is_no_history() -> None:
    cluster = rolled("app:1")
    cluster.apply(replica_set(0, name="other"))
    assert cluster.rollout.history(WEB).splitlines()[2:] == ["1         <none>"]


# ---- in scenarios


def act(do: str, at: float, **more: Any) -> dict[str, Any]:
    return {"at": at, "do": do, "kind": "Deployment", "name": "web", **more}


def test_all_verbs_are_actions() -> None:
    cluster = run(
        objects=[deployment()],
        until=90,
        actions=[
            act("setImage", 10, image="app:2", container="c"),
            act("status", 11),
            act("restart", 30),
            act("pause", 31),
            act("resume", 32),
            act("undo", 50, toRevision=1),
            act("history", 80),
        ],
    ).cluster
    notes = [n.text for n in cluster.trace.of(Note) if n.source.startswith("kubectl")]
    assert notes == [
        'Waiting for deployment "web" rollout to finish: 1 out of 3 new replicas have been '
        "updated...",
        "deployment.apps/web",
        "REVISION  CHANGE-CAUSE",
        "2         <none>",
        "3         <none>",
        "4         <none>",
    ]
    assert image(cluster) == "app:1"
    assert "kubectl rollout history: 2         <none>" in str(cluster.timeline())


def test_a_status_past_the_deadline_is_an_answer_and_not_a_failure() -> None:
    raw = deployment(progressDeadlineSeconds=5)
    cluster = run(objects=[raw], kubelet={"neverReady": True}, actions=[act("status", 19)]).cluster
    text = 'kubectl rollout status: error: deployment "web" exceeded its progress deadline'
    assert text in str(cluster.timeline())


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (act("resume", 5), 'error: deployments.apps "web" is not paused'),
        (act("undo", 5), 'error: no rollout history found for deployment "web"'),
        (
            act("setImage", 5, image="x", container="y"),
            'error: unable to find container named "y"',
        ),
        ({**act("pause", 5), "name": "no"}, 'deployments.apps "no" not found'),
    ],
)
def test_a_refused_verb_ends_the_run(action: dict[str, Any], text: str) -> None:
    with pytest.raises(ActionFailed) as caught:
        run(objects=[deployment()], actions=[action])
    assert str(caught.value) == f"actions[0] ({action['do']} at 5): {text}"


# ---- invariants

VERBS = st.sampled_from(["pause", "resume", "restart", "undo", "image", "scale"])


@settings(max_examples=25)
@given(st.lists(st.tuples(VERBS, st.integers(0, 4), st.floats(0, 8)), max_size=12))
def test_a_refused_command_writes_nothing(plan: list[tuple[str, int, float]]) -> None:
    cluster = rolled("app:0")
    for verb, number, pause in plan:
        before = cluster.object(WEB)
        try:
            if verb == "image":
                text = cluster.set_image(WEB, {"c": f"app:{number}"})
            elif verb == "scale":
                text = cluster.scale(WEB, number)
            elif verb == "undo":
                text = cluster.rollout.undo(WEB, to_revision=number)
            else:
                text = getattr(cluster.rollout, verb)(WEB)
        except CommandError as error:
            assert str(error).startswith("error: ")
            assert cluster.object(WEB) is before
        else:
            changed = cluster.object(WEB) is not before
            assert text == "" or text.startswith("deployment.apps/web ")
            if text == "" or "skipped" in text:
                assert not changed
        cluster.run_for(pause)
    if cluster.object(WEB).spec.paused:
        cluster.rollout.resume(WEB)
    cluster.run_for(60)
    assert cluster.rollout.status(WEB) == 'deployment "web" successfully rolled out'
    d = cluster.object(WEB)
    newest = [rs for rs in cluster.objects(ReplicaSet) if rs.spec.replicas]
    assert all(equal_ignore_hash(rs.spec.template, d.spec.template) for rs in newest)
    writes = cluster.trace.of(ApiWrite, agent="user", resource="deployments")
    assert all(w.code < 300 for w in writes)


@pytest.mark.parametrize(
    ("number", "message"),
    [("99", "Unable to find the revision to rollback to."), ("0", "Unable to find last revision.")],
)
def test_the_annotation_asks_for_a_revision_that_is_not_there(number: str, message: str) -> None:
    asked = {"metadata": {"annotations": {"deprecated.deployment.rollback.to": number}}}
    step = {"at": 3, "do": "patch", "kind": "deploy", "name": "web", "patch": asked}
    cluster = run(objects=[deployment(2)], actions=[step]).cluster
    told = [e.message for e in cluster.objects(Event) if "RollbackRevision" in e.reason]
    assert told == [message]
    assert cluster.object("deploy/web").metadata.annotations.keys() == {
        "deployment.kubernetes.io/revision"
    }
