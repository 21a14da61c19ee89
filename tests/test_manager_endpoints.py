from __future__ import annotations

import json
import socket
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kcm_lite.client.metrics import Registry
from kcm_lite.clock import VirtualClock
from kcm_lite.manager.command import answer as command
from kcm_lite.manager.config import CompletedConfig
from kcm_lite.manager.endpoints import CONFIGZ, Answer, Endpoints, Server, answer

pytest.importorskip("cryptography")

TOKEN = "let-me-in"
BEARER = f"Bearer {TOKEN}"


def config(*flags: str) -> CompletedConfig:
    found = command(["--bind-address=127.0.0.1", *flags], now=datetime.now(UTC)).config
    assert found is not None
    return found


def broken() -> None:
    raise RuntimeError("failed election to renew leadership on lease kube-controller-manager")


def endpoints(completed: CompletedConfig, token: str = TOKEN) -> Endpoints:
    metrics = Registry()
    metrics.counter("requests_total", 'With a "quote"', ("code",)).with_labels("200").inc(3)
    return Endpoints(completed.config.component, metrics.expose, token)


@pytest.fixture(scope="module")
def told() -> Endpoints:
    return endpoints(config("--secure-port=0"))


def test_health_is_open_to_everybody(told: Endpoints) -> None:
    told.checks = {"leaderElection": lambda: None, "job-controller": lambda: None}
    assert answer(told, "/healthz") == Answer(200, "ok")
    assert answer(told, "/healthz?verbose").body.splitlines() == [
        "[+]leaderElection ok",
        "[+]job-controller ok",
        "healthz check passed",
    ]
    assert answer(told, "/healthz/job-controller", BEARER) == Answer(200, "ok")


def test_a_failing_check_is_told_and_its_reason_is_not(told: Endpoints) -> None:
    told.checks = {"leaderElection": broken, "job-controller": lambda: None}
    found = answer(told, "/healthz")
    assert found.code == 500 and found.body.splitlines() == [
        "[-]leaderElection failed: reason withheld",
        "[+]job-controller ok",
        "healthz check failed",
    ]
    one = answer(told, "/healthz/leaderElection", BEARER)
    assert one.code == 500 and one.body.startswith("internal server error: failed election")
    assert answer(told, "/healthz?exclude=leaderElection") == Answer(200, "ok")
    text = answer(told, "/healthz?verbose&exclude=leaderElection&exclude=x").body
    assert "[+]leaderElection excluded: ok" in text and 'no matches for "x"' in text


@pytest.mark.parametrize(
    ("target", "authorization", "code", "message"),
    [
        (
            "/metrics",
            "",
            403,
            'forbidden: User "system:anonymous" cannot get path "/metrics"',
        ),
        ("/metrics", "Bearer wrong", 401, "Unauthorized"),
        ("/healthz", "Bearer wrong", 401, "Unauthorized"),
        ("/metrics", "Bearer ", 401, "Unauthorized"),
        ("/metrics", "Basic abc", 403, None),
        ("/healthz/../metrics", "", 403, None),
        ("//metrics", "", 403, None),
        ("/healthzz", "", 403, None),
    ],
)
def test_who_may_not(
    told: Endpoints, target: str, authorization: str, code: int, message: str | None
) -> None:
    found = answer(told, target, authorization)
    status = json.loads(found.body)
    assert (found.code, status["code"], status["kind"]) == (code, code, "Status")
    assert message is None or status["message"] == message


def test_no_token_lets_nobody_in() -> None:
    told = endpoints(config("--secure-port=0"), token="")
    assert answer(told, "/metrics", "Bearer ").code == 401
    assert answer(told, "/metrics").code == 403


def test_configz_tells_what_the_controllers_read_as_upstream_writes_it() -> None:
    flags = ("--secure-port=0", "--kube-api-qps=7.5", "--leader-elect-lease-duration=90s")
    body = answer(endpoints(config(*flags)), "/configz", BEARER).body
    found = json.loads(body)[CONFIGZ]
    assert list(found)[:2] == ["kind", "apiVersion"]
    assert found["kind"] == "KubeControllerManagerConfiguration"
    assert found["apiVersion"] == "kubecontrollermanager.config.k8s.io/v1alpha1"
    generic = found["Generic"]
    assert generic["MinResyncPeriod"] == "12h0m0s" and generic["Controllers"] == ["*"]
    assert generic["ClientConnection"] == {
        "kubeconfig": "",
        "acceptContentTypes": "",
        "contentType": "application/vnd.kubernetes.protobuf",
        "qps": 7.5,
        "burst": 30,
    }
    assert generic["Debugging"] == {
        "enableProfiling": True,
        "enableContentionProfiling": False,
    }
    election = generic["LeaderElection"]
    assert (election["leaderElect"], election["leaseDuration"]) == (True, "1m30s")
    assert election["resourceName"] == "kube-controller-manager"
    assert found["DeploymentController"] == {"ConcurrentDeploymentSyncs": 5}
    assert found["HPAController"]["HorizontalPodAutoscalerTolerance"] == 0.1
    assert '"NodeStartupGracePeriod": "1m0s"' in body


def test_whole_numbers_have_no_fraction() -> None:
    body = answer(endpoints(config("--secure-port=0")), "/configz", BEARER).body
    assert '"qps": 20, "burst": 30' in body


def test_metrics_can_be_read_by_the_official_client(told: Endpoints) -> None:
    (family,) = text_string_to_metric_families(answer(told, "/metrics", BEARER).body)
    (sample,) = family.samples
    assert (sample.name, sample.labels, sample.value) == ("requests_total", {"code": "200"}, 3)


def test_paths_are_listed_and_others_are_not_found(told: Endpoints) -> None:
    told.checks = {"leaderElection": lambda: None}
    assert json.loads(answer(told, "/", BEARER).body)["paths"] == [
        "/configz",
        "/debug/pprof/",
        "/debug/pprof/goroutine",
        "/healthz",
        "/healthz/leaderElection",
        "/metrics",
    ]
    for path in ("/metrics/", "/healthz/nothing", "/x", "/debug/pprof/heap", "/debug/nothing"):
        assert answer(told, path, BEARER).code == 404


GRAPH = "/debug/controllers/garbage-collector-controller/graph"


def test_a_controllers_debug_handler_gets_path_and_query(told: Endpoints) -> None:
    def handler(path: str, query: Mapping[str, Sequence[str]]) -> tuple[str, str] | None:
        return ("text/vnd.graphviz", str(query)) if path == "/graph" else None

    told.debug_handlers = lambda: {"garbage-collector-controller": handler}
    found = answer(told, f"{GRAPH}?uid=a&uid=b", BEARER)
    assert found == Answer(200, "{'uid': ['a', 'b']}", "text/vnd.graphviz")
    base = GRAPH.removesuffix("/graph")
    for path in (base, f"{base}/", f"{base}/x", "/debug/controllers/job-controller/graph"):
        assert answer(told, path, BEARER).code == 404
    assert answer(told, GRAPH).code == 403


def test_tasks_say_where_they_wait(told: Endpoints) -> None:
    clock = VirtualClock()

    async def inner() -> None:
        await clock.sleep(10)

    async def outer() -> None:
        await inner()

    task = clock.spawn(outer(), name="job-controller/worker-0")
    clock.run_for(1)
    told.tasks = lambda: [task]
    lines = answer(told, "/debug/pprof/goroutine", BEARER).body.splitlines()
    assert lines[:2] == ["goroutine profile: total 1", "task job-controller/worker-0"]
    assert "inner (" in lines[2] and "outer (" in lines[3] and lines[4:] == []
    clock.close()


def test_without_profiling_there_is_nothing_to_debug() -> None:
    quiet = endpoints(config("--secure-port=0", "--profiling=false"))
    quiet.debug_handlers = lambda: {
        "garbage-collector-controller": lambda path, query: ("text/plain", "")
    }
    for path in ("/debug/pprof/", "/debug/pprof/goroutine", GRAPH):
        assert answer(quiet, path, BEARER) == Answer(404, "404 page not found\n")
    assert "/debug" not in answer(quiet, "/", BEARER).body


@pytest.fixture
def server() -> Iterator[Server]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    completed = config(f"--secure-port={port}")
    secure = completed.config.secure_serving
    assert secure is not None
    told = endpoints(completed)
    told.reading = threading.Lock()
    server = Server(told, secure)
    yield server
    server.close()


def get(server: Server, path: str, token: str = "", method: str = "GET") -> tuple[int, str]:
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    request = urllib.request.Request(f"https://127.0.0.1:{server.port}{path}", method=method)
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, context=trusting, timeout=10) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_over_https(server: Server) -> None:
    assert get(server, "/healthz") == (200, "ok")
    assert get(server, "/metrics")[0] == 403
    assert get(server, "/metrics", "wrong")[0] == 401
    code, text = get(server, "/metrics", TOKEN)
    assert code == 200 and "requests_total" in text
    assert get(server, "/healthz", method="HEAD") == (200, "")
    assert get(server, "/healthz", method="POST")[0] == 501


def test_a_client_that_says_nothing_blocks_nobody(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port)):
        assert get(server, "/healthz") == (200, "ok")


def test_a_port_in_use_is_an_error(server: Server) -> None:
    completed = config(f"--secure-port={server.port}")
    secure = completed.config.secure_serving
    assert secure is not None
    with pytest.raises(OSError, match="in use"):
        Server(endpoints(completed), secure)
