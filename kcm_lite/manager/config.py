# Generated from book/02_options.ipynb by tools/tangle.py; edit it there.

"""Config: what the manager runs on, made from the options in one direction.

See: chapter *Options to config*; upstream ``Config``, ``ApplyTo`` and ``Complete``.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime

from kcm_lite.client.clientset import Client, RequestMetrics
from kcm_lite.client.events import EventRecorder
from kcm_lite.client.leaderelection import check_durations
from kcm_lite.client.transport import Transport
from kcm_lite.clock import Clock
from kcm_lite.manager.checks import feature_gates, validate
from kcm_lite.manager.featuregates import FeatureGates
from kcm_lite.manager.files import (
    LeaderMigration,
    check_delegation,
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
from kcm_lite.manager.registry import KNOWN_NAMES
from kcm_lite.manager.validation import Names


# %% book/02_options.ipynb#d7a41c90
@dataclass(frozen=True)
class ClientConfig:
    """How clients talk to the API server.

    Attributes:
        host: The server's address; empty: the one in this process.
        qps: Requests a second; each client has a bucket of its own.
    """

    host: str
    qps: float
    burst: int
    content_type: str
    accept_content_types: str
    disable_compression: bool = True

    def new_client(
        self,
        transport: Transport,
        clock: Clock,
        agent: str = NAME,
        metrics: RequestMetrics | None = None,
    ) -> Client:
        """Return a client of the cluster that ``transport`` leads to, and who counts for it."""
        qps, burst = self.qps, self.burst
        return Client(transport, clock, agent=agent, qps=qps, burst=burst, metrics=metrics)

    def new_event_recorder(self, client: Client, clock: Clock) -> EventRecorder:
        """Return a recorder of the manager's own events."""
        return EventRecorder(client, clock, NAME)


# %% book/02_options.ipynb#e29d7bba
@dataclass(frozen=True)
class SecureServingInfo:
    """The HTTPS server: its settings, its certificate and its key, in PEM form."""

    settings: SecureServingOptions
    certificate: bytes
    key: bytes = field(repr=False)


@dataclass
class Config:
    """All that a run needs; nothing in it belongs to the options.

    Without a port there is no server, and nobody to authenticate.
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


# %% book/02_options.ipynb#da053f1b
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


# %% book/02_options.ipynb#3282890d
def new_config(
    options: KubeControllerManagerOptions,
    names: Names = KNOWN_NAMES,
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
    serving, connection = options.secure_serving, options.generic.client_connection
    pair = serving_certificate(serving, now) if serving.bind_port else None
    if pair is not None:
        check_delegation(options.authentication, options.authorization)
    client = ClientConfig(
        server_address(options.master, connection.kubeconfig),
        connection.qps,
        connection.burst,
        connection.content_type,
        connection.accept_content_types,
    )
    config = Config(client, feature_gates(options), KubeControllerManagerConfiguration())
    apply_to(options, config, names, pair)
    check_election(config.component.generic.leader_election)
    return config


# %% book/02_options.ipynb#77d6287a
ELECTION_FLAGS = {
    "leaseDuration": "leader-elect-lease-duration",
    "renewDeadline": "leader-elect-renew-deadline",
    "retryPeriod": "leader-elect-retry-period",
}


def check_election(election: LeaderElectionConfiguration) -> None:
    """Refuse durations that the elector would refuse.

    Raises:
        InvalidOptions: Not lease > renew deadline > 1.2 retry periods > 0.
    """
    if not election.leader_elect:
        return
    try:
        check_durations(election.lease_duration, election.renew_deadline, election.retry_period)
    except ValueError as error:
        refuse(str(error), ELECTION_FLAGS[str(error).partition(" ")[0]])


# %% book/02_options.ipynb#448674d6
@dataclass(frozen=True)
class CompletedConfig:
    """A config that will not change any more: the only thing that a run accepts."""

    config: Config


def complete(config: Config) -> CompletedConfig:
    """Complete a config."""
    return CompletedConfig(config)
