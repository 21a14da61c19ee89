"""Config: what the manager runs on, made from the options in one direction.

>>> options = new_options()
>>> options.secure_serving.bind_port = 0
>>> complete(new_config(options)).config.component.replica_set_controller.concurrent_rs_syncs
5

See: chapter *Options to config*; upstream ``Config``, ``ApplyTo`` and ``Complete``.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime

from kcm_lite.client.clientset import Client
from kcm_lite.client.events import EventRecorder
from kcm_lite.client.transport import Transport
from kcm_lite.clock import Clock
from kcm_lite.manager.featuregates import FeatureGates
from kcm_lite.manager.files import (
    LeaderMigration,
    read_leader_migration,
    refuse,
    server_address,
    serving_certificate,
)
from kcm_lite.manager.groups import (
    DelegatingAuthenticationOptions,
    DelegatingAuthorizationOptions,
    KubeControllerManagerConfiguration,
    KubeControllerManagerOptions,
    LeaderElectionConfiguration,
    MetricsOptions,
    SecureServingOptions,
)
from kcm_lite.manager.options import NAME
from kcm_lite.manager.registry import TODAY
from kcm_lite.manager.validation import Names, feature_gates, validate


@dataclass(frozen=True)
class ClientConfig:
    """How clients talk to the API server.

    Attributes:
        host: The server's address; empty: the one in this process.
        qps: Requests a second; each client has a bucket of its own.
        burst: Requests at once after a quiet time.
        content_type: Of requests.
        accept_content_types: Of answers.
        disable_compression: Answers come as they are, which is cheaper within a data centre.
        user_agent: Who asks.
    """

    host: str
    qps: float
    burst: int
    content_type: str
    accept_content_types: str
    disable_compression: bool = True
    user_agent: str = NAME

    def new_client(self, transport: Transport, clock: Clock, agent: str = NAME) -> Client:
        """Return a client of the cluster that ``transport`` leads to."""
        return Client(transport, clock, agent=agent, qps=self.qps, burst=self.burst)

    def new_event_recorder(self, client: Client, clock: Clock) -> EventRecorder:
        """Return a recorder of the manager's own events."""
        return EventRecorder(client, clock, self.user_agent)


@dataclass(frozen=True)
class SecureServingInfo:
    """The HTTPS server: its settings, its certificate and its key, in PEM form."""

    settings: SecureServingOptions
    certificate: bytes
    key: bytes = field(repr=False)


@dataclass
class Config:
    """All that a run needs; nothing in it belongs to the options.

    Attributes:
        component: What the controllers read.
        client: How their clients talk to the server.
        feature_gates: Which behaviours are on.
        secure_serving: The HTTPS server; None: no port.
        authentication: Who may speak to it; None: there is no server.
        authorization: What they may ask for; None: there is no server.
        leader_migration: The plan, if controllers move.
        controller_shutdown_timeout: Seconds that controllers have to end.
    """

    client: ClientConfig
    feature_gates: FeatureGates
    component: KubeControllerManagerConfiguration
    metrics: MetricsOptions = field(default_factory=MetricsOptions)
    secure_serving: SecureServingInfo | None = None
    authentication: DelegatingAuthenticationOptions | None = None
    authorization: DelegatingAuthorizationOptions | None = None
    leader_migration: LeaderMigration | None = None
    controller_shutdown_timeout: float = 0.0


def new_config(
    options: KubeControllerManagerOptions,
    names: Names = TODAY,
    *,
    now: datetime = datetime(2026, 1, 1, tzinfo=UTC),
) -> Config:
    """Turn options into a config: check, make what they describe, copy. Upstream's ``Config()``.

    Args:
        options: Of no use afterwards.
        names: The controllers that there are.
        now: From when a new certificate holds.

    Raises:
        InvalidOptions: Something is wrong; nothing has been opened or started.
    """
    validate(options, names)
    pair = (
        serving_certificate(options.secure_serving, now)
        if options.secure_serving.bind_port
        else None
    )
    connection = options.generic.client_connection
    client = ClientConfig(
        server_address(options.master, connection.kubeconfig),
        connection.qps,
        connection.burst,
        connection.content_type,
        connection.accept_content_types,
    )
    config = Config(client, feature_gates(options), KubeControllerManagerConfiguration())
    apply_to(options, config, names, pair)
    check_lease_durations(config.component.generic.leader_election)
    return config


def apply_to(
    options: KubeControllerManagerOptions,
    config: Config,
    names: Names,
    pair: tuple[bytes, bytes] | None,
) -> None:
    """Copy every group of the options, in order. It is one way: nothing in the copy points back."""
    for name in KubeControllerManagerConfiguration.parts():
        setattr(config.component, name, copy.deepcopy(getattr(options, name)))
    generic, ipam = config.component.generic, config.component.node_ipam_controller
    generic.controllers = [names.canonical(entry) for entry in options.generic.controllers]
    generic.leader_migration_enabled = options.leader_migration.enabled
    if options.leader_migration.enabled:
        path = options.leader_migration.controller_migration_config
        config.leader_migration = read_leader_migration(path)
    ipam.service_cidr, _, ipam.secondary_service_cidr = ipam.service_cidr.partition(",")
    config.metrics = copy.deepcopy(options.metrics)
    if pair is not None:
        config.secure_serving = SecureServingInfo(copy.deepcopy(options.secure_serving), *pair)
        config.authentication = copy.deepcopy(options.authentication)
        config.authorization = copy.deepcopy(options.authorization)
    config.controller_shutdown_timeout = options.controller_shutdown_timeout


def check_lease_durations(election: LeaderElectionConfiguration) -> None:
    """Refuse durations with which two managers could lead at once.

    Raises:
        InvalidOptions: Not lease > renew deadline > 1.2 retry periods > 0.
    """
    if not election.leader_elect:
        return
    spans = (election.lease_duration, election.renew_deadline, election.retry_period)
    lease, renew, retry = (round(seconds * 1e9) for seconds in spans)
    flags = [
        f"leader-elect-{name}" for name in ("lease-duration", "renew-deadline", "retry-period")
    ]
    if lease <= renew:
        refuse("leaseDuration must be greater than renewDeadline", flags[0])
    if renew <= int(1.2 * retry):
        refuse("renewDeadline must be greater than retryPeriod*JitterFactor", flags[1])
    if retry < 1:
        refuse("retryPeriod must be greater than zero", flags[2])


@dataclass(frozen=True)
class CompletedConfig:
    """A config that will not change any more: the only thing that a run accepts."""

    config: Config


def complete(config: Config) -> CompletedConfig:
    """Complete a config."""
    return CompletedConfig(config)
