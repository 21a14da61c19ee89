"""Manifests and scenarios for the tests of the simulator."""

from __future__ import annotations

from typing import Any

from kcm_lite.api.yaml import Document
from kcm_lite.sim.scenario import Run, Scenario, parse_scenario, run_scenario


def replica_set(replicas: int = 3, name: str = "web", **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "app:1"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": template,
            **spec,
        },
    }


def deployment(
    replicas: int = 3, name: str = "web", image: str = "app:1", **spec: Any
) -> dict[str, Any]:
    raw = replica_set(replicas, name, **spec)
    raw["kind"] = "Deployment"
    raw["spec"]["template"]["spec"]["containers"][0]["image"] = image
    return raw


def job(name: str = "batch", *, restart: str = "Never", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "app:1"}]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "template": {"spec": {"restartPolicy": restart, "containers": containers}},
            **spec,
        },
    }


def pod(name: str = "lone", **meta: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **meta},
        "spec": {"containers": [{"name": "c", "image": "app:1"}]},
    }


def scenario(**raw: Any) -> Scenario:
    document = {"id": "test", "until": 20, **raw}
    return parse_scenario(Document("test.yaml", 1, 1, document))


def run(**raw: Any) -> Run:
    return run_scenario(scenario(**raw))
