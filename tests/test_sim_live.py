from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kcm_lite.api.yaml import dump
from tests.sim_support import replica_set

pytest.importorskip("cryptography")


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    path = tmp_path / "web.yaml"
    path.write_text(dump(replica_set(3)), encoding="utf-8")
    return str(path)


def run(cluster: str, *flags: str) -> subprocess.Popen[str]:
    words = ["controller-manager", "--cluster", cluster, "--real-time", *flags]
    return subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from kcm_lite.cli import main; sys.exit(main())",
            *words,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


def get(url: str, token: str = "") -> tuple[int, str]:
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    request = urllib.request.Request(url)
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, context=trusting, timeout=30) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, ""


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_manager_in_real_time_serves_and_ends_on_a_signal(
    cluster: str, number: signal.Signals
) -> None:
    port = free_port()
    with run(cluster, f"--secure-port={port}") as process:
        try:
            assert process.stdout is not None
            url, _, token = process.stdout.readline().strip().partition(", token ")
            assert url == f"https://127.0.0.1:{port}" and len(token) > 20
            while "[+]replicaset-controller ok" not in get(f"{url}/healthz?verbose")[1]:
                assert process.poll() is None
            assert get(f"{url}/metrics")[0] == 403
            assert get(f"{url}/metrics", "wrong")[0] == 401
            families = {
                f.name: f for f in text_string_to_metric_families(get(f"{url}/metrics", token)[1])
            }
            (sample,) = families["leader_election_master_status"].samples
            assert (sample.labels, sample.value) == ({"name": "kube-controller-manager"}, 1)
            queues = {s.labels["name"] for s in families["workqueue_depth"].samples}
            assert {"deployment", "job", "replicaset", "ttl_jobs_to_delete"} < queues
            codes = {s.labels["code"] for s in families["rest_client_requests"].samples}
            assert {"200", "201"} <= codes
            for name in (
                "rest_client_request_duration_seconds",
                "replicaset_controller_sorting_deletion_age_ratio",
                "job_controller_job_sync_duration_seconds",
                "garbagecollector_controller_resources_sync_error",
            ):
                assert name in families
            assert get(f"{url}/configz", token)[0] == 200
            graph = f"{url}/debug/controllers/garbage-collector-controller/graph"
            assert get(graph)[0] == 403
            code, dot = get(graph, token)
            assert code == 200 and dot.startswith("strict digraph full {") and 'kind="Pod"' in dot
            tasks = get(f"{url}/debug/pprof/goroutine", token)[1]
            assert "task kube-controller-manager: replicaset-controller/worker-0" in tasks
            assert "process_next_work_item (reconcile/worker.py:" in tasks
            with run(cluster, f"--secure-port={port}") as second:
                out, err = second.communicate(timeout=60)
            assert (second.returncode, out) == (1, "")
            assert err.startswith(f"kcm-lite: --secure-port={port}: failed to create listener")
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, out, err) == (0, "Requested to terminate. Exiting.\n", "")


def test_an_address_of_another_machine_is_refused_by_its_name(cluster: str) -> None:
    with run(cluster, "--bind-address=203.0.113.7", "--until=1s") as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert err.startswith("kcm-lite: --bind-address=203.0.113.7: failed to create listener: ")


def test_a_key_that_cannot_be_read_stops_the_manager_before_anything_is_said(
    cluster: str,
) -> None:
    flag = "--service-account-private-key-file=/nowhere"
    with run(cluster, flag, f"--secure-port={free_port()}", "--until=1s") as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert err == f"kcm-lite: {flag}: open /nowhere: no such file or directory\n"


def test_a_run_with_an_end_needs_no_signal(cluster: str) -> None:
    with run(cluster, "--secure-port=0", "--until=1s") as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "Requested to terminate. Exiting.\n", "")


THIEF = """
id: thief
nodes: 1
until: 60
actions:
- at: 0.5
  do: patch
  kind: Lease
  name: kube-controller-manager
  namespace: kube-system
  patch: {spec: {holderIdentity: thief}}
"""


def test_a_lost_lease_ends_the_process_with_1(tmp_path: Path) -> None:
    path = tmp_path / "thief.yaml"
    path.write_text(THIEF, encoding="utf-8")
    times = {"lease-duration": "2s", "renew-deadline": "1s", "retry-period": "500ms"}
    flags = [f"--leader-elect-{name}={value}" for name, value in times.items()]
    with run(str(path), "--secure-port=0", *flags) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (1, "", "kcm-lite: leaderelection lost/stopped\n")


def test_no_thread_is_left(cluster: str) -> None:
    from datetime import UTC, datetime

    from kcm_lite.manager.command import answer
    from kcm_lite.sim.live import live
    from kcm_lite.sim.simulate import Options, read_input

    before = signal.getsignal(signal.SIGTERM)
    flags = [f"--secure-port={free_port()}", "--leader-elect=false"]
    config = answer(flags, now=datetime.now(UTC)).config
    assert config is not None
    said: list[str] = []
    scenario = read_input(Options((cluster,), until=0.2))
    assert live(config, scenario, say=said.append, token="t", endless=False) == (0, "")
    assert said[0].endswith(", token t")
    assert [t.name for t in threading.enumerate() if t.name == "https"] == []
    assert signal.getsignal(signal.SIGTERM) is before
