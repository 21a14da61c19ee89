"""A manager in a simulated cluster in real time: it serves HTTPS and ends on a signal.

The cluster's clock is virtual as ever; it follows the clock on the wall.
"""

from __future__ import annotations

import copy
import errno
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from kcm_lite.client.metrics import Registry
from kcm_lite.manager.config import CompletedConfig, SecureServingInfo
from kcm_lite.manager.endpoints import Endpoints, Server
from kcm_lite.manager.leading import terminate
from kcm_lite.manager.validation import InvalidOptions, Problem
from kcm_lite.sim.managedcluster import ManagedCluster
from kcm_lite.sim.scenario import Scenario, play

TICK = 0.05
"""Seconds that the cluster may be behind the clock on the wall."""


class Stopped(Exception):
    """The run was asked to end."""


class LiveCluster(ManagedCluster):
    """A cluster under a manager, whose time passes as on the wall.

    Attributes:
        lock: Held while anything happens.
        stop: Set to end the run.
    """

    def __init__(self, lock: threading.Lock, stop: threading.Event, *args: Any, **more: Any):
        super().__init__(*args, **more)
        self.lock, self.stop = lock, stop
        self._zero = time.monotonic()

    def run_until(self, when: float) -> None:
        """Let time pass up to a second of the run.

        Raises:
            Stopped: The run was asked to end.
        """
        while self.now < when:
            if self.stop.is_set():
                raise Stopped
            with self.lock:
                super().run_until(min(when, max(self.now, time.monotonic() - self._zero)))
            self.stop.wait(min(TICK, max(0.0, when - self.now)))

    def settle(self, *, until: float) -> float:
        """Let time pass; real time is not skipped."""
        self.run_until(until)
        return self.now


@contextmanager
def signals(stop: threading.Event) -> Iterator[None]:
    """Set ``stop`` on SIGINT and SIGTERM."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda *_: stop.set()) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def live(
    completed: CompletedConfig,
    scenario: Scenario,
    *,
    say: Callable[[str], None],
    token: str = "",
    endless: bool = True,
) -> tuple[int, str]:
    """Run a manager until a signal comes, or the scenario is over.

    Args:
        completed: The manager's config.
        scenario: The cluster and what is done to it.
        say: Prints a line.
        token: Of the HTTPS server; by default a new one.
        endless: Go on after the scenario's end.

    Returns:
        The exit code, and why the manager has ended.

    Raises:
        InvalidOptions: The port is taken, and nothing has been started; or a controller cannot be
            built.
        ActionFailed, StatusError: As `play` raises them.
    """
    config, metrics = completed.config, Registry()
    lock, stop = threading.Lock(), threading.Event()
    endings: list[tuple[int, str]] = []

    def ended(code: int, why: str) -> None:
        endings.append((code, why))
        stop.set()

    token = token or secrets.token_urlsafe()
    endpoints = Endpoints(config.component, metrics.expose, token, reading=lock)
    if config.authorization is not None:
        endpoints.open_paths = tuple(config.authorization.always_allow_paths)
    server = _server(endpoints, config.secure_serving)
    try:
        with signals(stop):
            with lock:
                cluster = LiveCluster(
                    lock,
                    stop,
                    completed,
                    scenario,
                    on_exit=ended,
                    on_built=lambda name: endpoints.checks.update({name: _running}),
                    metrics=metrics,
                )
            if config.component.generic.leader_election.leader_elect:
                first = {cluster.candidate.health.name: lambda: cluster.candidate.health.check()}
                endpoints.checks = {**first, **endpoints.checks}
            endpoints.debug_handlers = cluster.debug_handlers
            endpoints.tasks = cluster.tasks
            if server is not None:
                say(f"https://127.0.0.1:{server.port}, token {token}")
            try:
                play(cluster, scenario)
                if endless:
                    cluster.run_until(float("inf"))
            except Stopped:
                pass
            with lock:
                if not endings:
                    terminate(cluster.candidate)
                    cluster.clock.run_for(config.controller_shutdown_timeout)
    finally:
        if server is not None:
            server.close()
    return max(endings, default=(0, ""))


def _server(endpoints: Endpoints, secure: SecureServingInfo | None) -> Server | None:
    """Serve, but what upstream opens to the whole network only to this machine."""
    if secure is None:
        return None
    if secure.settings.bind_address in ("0.0.0.0", "::"):
        settings = copy.copy(secure.settings)
        settings.bind_address = "127.0.0.1"
        secure = replace(secure, settings=settings)
    host, port = secure.settings.bind_address, secure.settings.bind_port
    try:
        return Server(endpoints, secure)
    except OSError as error:
        text = f"failed to create listener: failed to listen on {host}:{port}: {error.strerror}"
        wrong = {"bind-address": host, "secure-port": str(port)}
        flag = "bind-address" if error.errno == errno.EADDRNOTAVAIL else "secure-port"
        raise InvalidOptions([Problem(text, flag, value=wrong[flag])]) from None


def _running() -> None:
    """A controller that was started is healthy: a bug in it ends the process."""
