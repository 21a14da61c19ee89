"""The one table of settings: every flag of kube-controller-manager v1.36, by group.

A row is the field's name, its flag, its default and what it means. A group's section is where
``--help`` shows its flags. Rows without a flag are set by the program. The order of the groups is
that of upstream's ``ApplyTo`` and ``Validate``. See: chapter *Options to config*, *One table*.
"""

from __future__ import annotations

from functools import partial

from kcm_lite.api.quantity import Quantity
from kcm_lite.manager import govalues as go
from kcm_lite.manager.settings import Group, Setting

HOUR, MINUTE = 3600.0, 60.0

boolean = partial(Setting, go.BOOL)
string = partial(Setting, go.STRING)
strings = partial(Setting, go.STRINGS)
int32 = partial(Setting, go.INT32)
integer = partial(Setting, go.INT)
float32 = partial(Setting, go.FLOAT32)
duration = partial(Setting, go.DURATION)
components = partial(Setting, go.COMPONENTS)

# fmt: off

class DebuggingConfiguration(Group, section="debugging"):
    """What the debug endpoints show."""
    enable_profiling = boolean("profiling", True, "Expose pprof handlers on the debug endpoint")
    enable_contention_profiling = boolean("contention-profiling", False, "Turn on lock contention profiles when profiling is on")

class LeaderMigrationOptions(Group, section="leader-migration"):
    """How controllers move between managers."""
    enabled = boolean("enable-leader-migration", False, "Allow controllers to move between managers under a migration lock")
    controller_migration_config = string("leader-migration-config", "", "File that describes the leader migration; empty means the built-in one")

class ClientConnectionConfiguration(Group, section="generic"):
    """How requests go to the API server."""
    kubeconfig = string("kubeconfig", "", "Kubeconfig with server and credentials", section="misc")
    accept_content_types = string("", "")
    content_type = string("kube-api-content-type", "application/vnd.kubernetes.protobuf", "Media type of API requests")
    qps = float32("kube-api-qps", 20.0, "Client requests per second towards the API server")
    burst = int32("kube-api-burst", 30, "Client request burst towards the API server")

class LeaderElectionConfiguration(Group, section="generic"):
    """Who of several managers acts."""
    leader_elect = boolean("leader-elect", True, "Only act while holding the leader lease")
    lease_duration = duration("leader-elect-lease-duration", 15.0, "How long a lease stays valid without renewal")
    renew_deadline = duration("leader-elect-renew-deadline", 10.0, "Leader gives up after failing to renew this long")
    retry_period = duration("leader-elect-retry-period", 2.0, "Wait between acquire or renew attempts")
    resource_lock = string("leader-elect-resource-lock", "leases", "Kind of lock object")
    resource_name = string("leader-elect-resource-name", "", "Name of the lock object")
    resource_namespace = string("leader-elect-resource-namespace", "", "Namespace of the lock object")

class GenericControllerManagerConfiguration(Group, section="generic"):
    """What any controller manager has."""
    debugging: DebuggingConfiguration
    client_connection: ClientConnectionConfiguration
    leader_election: LeaderElectionConfiguration
    min_resync_period = duration("min-resync-period", 12 * HOUR, "Lower bound of informer resync; the real one is randomised up to double")
    controller_start_interval = duration("controller-start-interval", 0.0, "Pause between starting one controller and the next")
    controllers = strings("controllers", ["*"], "Which controllers run: names, * and -name")
    leader_migration_enabled = boolean("", False)

class CloudProviderConfiguration(Group, section="generic"):
    """Which cloud, and its file."""
    name = string("cloud-provider", "", "Name of the cloud provider; only empty or external works")
    cloud_config_file = string("cloud-config", "", "File handed to the cloud provider")

class KubeCloudSharedConfiguration(Group, section="generic"):
    """What this manager and a cloud controller manager share."""
    cloud_provider: CloudProviderConfiguration
    external_cloud_volume_plugin = string("external-cloud-volume-plugin", "", "In-tree volume plugin to load when the cloud provider is external")
    use_service_account_credentials = boolean("use-service-account-credentials", False, "Give each controller its own service account identity")
    allow_untagged_cloud = boolean("allow-untagged-cloud", False, "Deprecated: accept cloud instances without a cluster tag", hidden=True)
    route_reconciliation_period = duration("route-reconciliation-period", 10.0, "How often provider routes are reconciled")
    node_monitor_period = duration("node-monitor-period", 5.0, "How often node health is evaluated")
    cluster_name = string("cluster-name", "kubernetes", "Prefix used to tell this cluster apart at the provider")
    cluster_cidr = string("cluster-cidr", "", "Pod address range(s) of the cluster")
    allocate_node_cidrs = boolean("allocate-node-cidrs", False, "Give each node a pod address range and program it")
    cidr_allocator_type = string("cidr-allocator-type", "RangeAllocator", "Which node address range allocator to run")
    configure_cloud_routes = boolean("configure-cloud-routes", True, "Create provider routes for node pod ranges")
    node_sync_period = duration("node-sync-period", 0.0, "Deprecated and without effect", hidden=True)

class AttachDetachControllerConfiguration(Group, section="persistentvolume-attach-detach-controller"):
    """Attaches volumes to nodes."""
    disable_attach_detach_reconciler_sync = boolean("disable-attach-detach-reconcile-sync", False, "Switch that reconciliation off")
    reconciler_sync_loop_period = duration("attach-detach-reconcile-sync-period", MINUTE, "Interval of volume attach state reconciliation")
    disable_force_detach_on_timeout = boolean("disable-force-detach-on-timeout", False, "Never force-detach volumes after the unmount timeout")

class CSRSigningControllerConfiguration(Group, section="certificatesigningrequest-signing-controller"):
    """Signs certificates."""
    cluster_signing_cert_file = string("cluster-signing-cert-file", "", "CA certificate for signing all requests")
    cluster_signing_key_file = string("cluster-signing-key-file", "", "CA key for signing all requests")
    kubelet_serving_cert_file = string("cluster-signing-kubelet-serving-cert-file", "", "CA certificate for kubelet serving requests")
    kubelet_serving_key_file = string("cluster-signing-kubelet-serving-key-file", "", "CA key for kubelet serving requests")
    kubelet_client_cert_file = string("cluster-signing-kubelet-client-cert-file", "", "CA certificate for kubelet client requests")
    kubelet_client_key_file = string("cluster-signing-kubelet-client-key-file", "", "CA key for kubelet client requests")
    kube_apiserver_client_cert_file = string("cluster-signing-kube-apiserver-client-cert-file", "", "CA certificate for API server client requests")
    kube_apiserver_client_key_file = string("cluster-signing-kube-apiserver-client-key-file", "", "CA key for API server client requests")
    legacy_unknown_cert_file = string("cluster-signing-legacy-unknown-cert-file", "", "CA certificate for legacy signer requests")
    legacy_unknown_key_file = string("cluster-signing-legacy-unknown-key-file", "", "CA key for legacy signer requests")
    cluster_signing_duration = duration("cluster-signing-duration", 8760 * HOUR, "Longest validity of issued certificates")

class DaemonSetControllerConfiguration(Group, section="daemonset-controller"):
    """A pod on every node."""
    concurrent_daemon_set_syncs = int32("concurrent-daemonset-syncs", 2, "Parallel daemon set workers")

class DeploymentControllerConfiguration(Group, section="deployment-controller"):
    """Rolls out replica sets."""
    concurrent_deployment_syncs = int32("concurrent-deployment-syncs", 5, "Parallel deployment workers")

class DeviceTaintEvictionControllerConfiguration(Group, section="device-taint-eviction-controller"):
    """Evicts pods from tainted devices."""
    concurrent_syncs = int32("concurrent-device-taint-eviction-syncs", 8, "Parallel device taint eviction workers")

class ResourceClaimControllerConfiguration(Group, section="resourceclaim-controller"):
    """Makes claims from templates."""
    concurrent_syncs = int32("concurrent-resourceclaim-syncs", 50, "Parallel resource claim workers")

class StatefulSetControllerConfiguration(Group, section="statefulset-controller"):
    """Pods with names and volumes of their own."""
    concurrent_stateful_set_syncs = int32("concurrent-statefulset-syncs", 5, "Parallel stateful set workers")

class DeprecatedControllerConfiguration(Group, section="deprecated"):
    """What is going away; at present nothing."""

class EndpointControllerConfiguration(Group, section="endpoints-controller"):
    """The addresses behind a Service, old form."""
    concurrent_endpoint_syncs = int32("concurrent-endpoint-syncs", 5, "Parallel endpoints workers")
    endpoint_updates_batch_period = duration("endpoint-updates-batch-period", 0.0, "Delay that batches endpoints changes")

class EndpointSliceControllerConfiguration(Group, section="endpointslice-controller"):
    """The addresses behind a Service."""
    concurrent_service_endpoint_syncs = int32("concurrent-service-endpoint-syncs", 5, "Parallel endpoint slice workers (1-50)")
    max_endpoints_per_slice = int32("max-endpoints-per-slice", 100, "Most endpoints in one slice (1-1000)")
    endpoint_updates_batch_period = duration("endpointslice-updates-batch-period", 0.0, "Delay that batches endpoint slice changes")

class EndpointSliceMirroringControllerConfiguration(Group, section="endpointslice-mirroring-controller"):
    """Copies Endpoints made by hand."""
    mirroring_concurrent_service_endpoint_syncs = int32("mirroring-concurrent-service-endpoint-syncs", 5, "Parallel slice mirroring workers (1-50)")
    mirroring_max_endpoints_per_subset = int32("mirroring-max-endpoints-per-subset", 1000, "Most endpoints mirrored per subset (1-1000)")
    mirroring_endpoint_updates_batch_period = duration("mirroring-endpointslice-updates-batch-period", 0.0, "Delay that batches mirrored slices")

class EphemeralVolumeControllerConfiguration(Group, section="ephemeral-volume-controller"):
    """Volumes that live as long as a pod."""
    concurrent_ephemeral_volume_syncs = int32("concurrent-ephemeralvolume-syncs", 5, "Parallel ephemeral volume workers")

class GarbageCollectorControllerConfiguration(Group, section="garbage-collector-controller"):
    """Deletes what its owner has left behind."""
    concurrent_gc_syncs = int32("concurrent-gc-syncs", 20, "Parallel garbage collector workers")
    enable_garbage_collector = boolean("enable-garbage-collector", True, "Run the generic garbage collector; must match the API server")
    gc_ignored_resources = components("", [])

class HPAControllerConfiguration(Group, section="horizontal-pod-autoscaler-controller"):
    """Sets replicas by load."""
    concurrent_horizontal_pod_autoscaler_syncs = int32("concurrent-horizontal-pod-autoscaler-syncs", 5, "Parallel autoscaler workers")
    horizontal_pod_autoscaler_sync_period = duration("horizontal-pod-autoscaler-sync-period", 15.0, "Autoscaler evaluation interval")
    horizontal_pod_autoscaler_downscale_stabilization_window = duration("horizontal-pod-autoscaler-downscale-stabilization", 5 * MINUTE, "Look-back window before scaling down")
    horizontal_pod_autoscaler_tolerance = Setting(go.FLOAT64, "horizontal-pod-autoscaler-tolerance", 0.1, "Relative deviation from target that causes no scaling")
    horizontal_pod_autoscaler_cpu_initialization_period = duration("horizontal-pod-autoscaler-cpu-initialization-period", 5 * MINUTE, "CPU samples of younger pods may be ignored")
    horizontal_pod_autoscaler_initial_readiness_delay = duration("horizontal-pod-autoscaler-initial-readiness-delay", 30.0, "Early readiness flips count as start-up")

class JobControllerConfiguration(Group, section="job-controller"):
    """Runs pods to completion."""
    concurrent_job_syncs = int32("concurrent-job-syncs", 5, "Parallel job workers")

class CronJobControllerConfiguration(Group, section="cronjob-controller"):
    """Makes Jobs by the clock."""
    concurrent_cron_job_syncs = int32("concurrent-cron-job-syncs", 5, "Parallel cron job workers")

class LegacySATokenCleanerConfiguration(Group, section="legacy-serviceaccount-token-cleaner-controller"):
    """Removes old tokens nobody uses."""
    clean_up_period = duration("legacy-service-account-token-clean-up-period", 8760 * HOUR, "Age after which unused old tokens are removed")

class NamespaceControllerConfiguration(Group, section="namespace-controller"):
    """Empties namespaces that are deleted."""
    namespace_sync_period = duration("namespace-sync-period", 5 * MINUTE, "Namespace resync interval")
    concurrent_namespace_syncs = int32("concurrent-namespace-syncs", 10, "Parallel namespace workers")

class NodeIPAMControllerConfiguration(Group, section="node-ipam-controller"):
    """Address ranges for nodes."""
    service_cidr = string("service-cluster-ip-range", "", "Service address range(s), kept out of node ranges")
    secondary_service_cidr = string("", "")
    node_cidr_mask_size = int32("node-cidr-mask-size", 0, "Prefix length per node, single stack")
    node_cidr_mask_size_ipv4 = int32("node-cidr-mask-size-ipv4", 0, "IPv4 prefix length per node")
    node_cidr_mask_size_ipv6 = int32("node-cidr-mask-size-ipv6", 0, "IPv6 prefix length per node")

class NodeLifecycleControllerConfiguration(Group, section="node-lifecycle-controller"):
    """Notices nodes that have gone silent."""
    node_startup_grace_period = duration("node-startup-grace-period", MINUTE, "Same for a node that never reported")
    node_monitor_grace_period = duration("node-monitor-grace-period", 50.0, "Silence after which a node is unhealthy")
    node_eviction_rate = float32("node-eviction-rate", 0.1, "Node taint/eviction rate per second in a healthy zone")
    secondary_node_eviction_rate = float32("secondary-node-eviction-rate", 0.01, "Rate in a partly unhealthy large zone")
    large_cluster_size_threshold = int32("large-cluster-size-threshold", 50, "Node count above which a zone counts as large for eviction")
    unhealthy_zone_threshold = float32("unhealthy-zone-threshold", 0.55, "Share of unready nodes (at least 3) that makes a zone unhealthy")

class PersistentVolumeBinderControllerConfiguration(Group, section="persistentvolume-binder-controller"):
    """Binds claims to volumes."""
    pv_claim_binder_sync_period = duration("pvclaimbinder-sync-period", 15.0, "Volume binder resync interval")
    pod_template_file_path_nfs = string("pv-recycler-pod-template-filepath-nfs", "", "Pod template of the NFS scrubber")
    minimum_timeout_nfs = int32("pv-recycler-minimum-timeout-nfs", 300, "Least NFS scrubber deadline in seconds")
    increment_timeout_nfs = int32("pv-recycler-increment-timeout-nfs", 30, "Extra NFS scrubber seconds per GiB")
    pod_template_file_path_host_path = string("pv-recycler-pod-template-filepath-hostpath", "", "Pod template of the host path scrubber")
    minimum_timeout_host_path = int32("pv-recycler-minimum-timeout-hostpath", 60, "Least host path scrubber deadline in seconds")
    increment_timeout_host_path = int32("pv-recycler-timeout-increment-hostpath", 30, "Extra host path scrubber seconds per GiB")
    enable_host_path_provisioning = boolean("enable-hostpath-provisioner", False, "Host path volumes for test clusters")
    enable_dynamic_provisioning = boolean("enable-dynamic-provisioning", True, "Provision volumes where supported")
    flex_volume_plugin_dir = string("flex-volume-plugin-dir", "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/", "Where flex volume plugins live")

class PodGCControllerConfiguration(Group, section="pod-garbage-collector-controller"):
    """Deletes pods that nobody needs any more."""
    terminated_pod_gc_threshold = int32("terminated-pod-gc-threshold", 12_500, "Finished pods kept before collection; <=0 disables")

class ReplicaSetControllerConfiguration(Group, section="replicaset-controller"):
    """Keeps a number of pods running."""
    concurrent_rs_syncs = int32("concurrent-replicaset-syncs", 5, "Parallel replica set workers")

class ReplicationControllerConfiguration(Group, section="replicationcontroller-controller"):
    """The same for the older kind."""
    concurrent_rc_syncs = int32("concurrent_rc_syncs", 5, "Parallel replication controller workers")

class ResourceQuotaControllerConfiguration(Group, section="resourcequota-controller"):
    """Counts what namespaces use."""
    resource_quota_sync_period = duration("resource-quota-sync-period", 5 * MINUTE, "Quota usage resync interval")
    concurrent_resource_quota_syncs = int32("concurrent-resource-quota-syncs", 5, "Parallel quota workers")

class SAControllerConfiguration(Group, section="serviceaccount-controller"):
    """Service accounts and, with a key, tokens."""
    service_account_key_file = string("service-account-private-key-file", "", "Key that signs service account tokens")
    concurrent_sa_token_syncs = int32("concurrent-serviceaccount-token-syncs", 5, "Parallel token workers")
    root_ca_file = string("root-ca-file", "", "CA bundle put into token secrets")

class ServiceControllerConfiguration(Group, section="service-lb-controller"):
    """Load balancers of a cloud."""
    concurrent_service_syncs = int32("concurrent-service-syncs", 1, "Parallel load balancer service workers")

class TTLAfterFinishedControllerConfiguration(Group, section="ttl-after-finished-controller"):
    """Deletes Jobs some time after they end."""
    concurrent_ttl_syncs = int32("concurrent-ttl-after-finished-syncs", 5, "Parallel finished-job TTL workers")

class ValidatingAdmissionPolicyStatusControllerConfiguration(Group, section="validatingadmissionpolicy-status-controller"):
    """Type-checks admission policies."""
    concurrent_policy_syncs = int32("concurrent-validating-admission-policy-status-syncs", 5, "Parallel admission policy status workers")

class KubeControllerManagerConfiguration(Group):
    """The component config: everything that a controller reads, in the order of ``apply_to``."""
    generic: GenericControllerManagerConfiguration
    kube_cloud_shared: KubeCloudSharedConfiguration
    attach_detach_controller: AttachDetachControllerConfiguration
    csr_signing_controller: CSRSigningControllerConfiguration
    daemon_set_controller: DaemonSetControllerConfiguration
    deployment_controller: DeploymentControllerConfiguration
    device_taint_eviction_controller: DeviceTaintEvictionControllerConfiguration
    resource_claim_controller: ResourceClaimControllerConfiguration
    stateful_set_controller: StatefulSetControllerConfiguration
    deprecated_controller: DeprecatedControllerConfiguration
    endpoint_controller: EndpointControllerConfiguration
    endpoint_slice_controller: EndpointSliceControllerConfiguration
    endpoint_slice_mirroring_controller: EndpointSliceMirroringControllerConfiguration
    ephemeral_volume_controller: EphemeralVolumeControllerConfiguration
    garbage_collector_controller: GarbageCollectorControllerConfiguration
    hpa_controller: HPAControllerConfiguration
    job_controller: JobControllerConfiguration
    cron_job_controller: CronJobControllerConfiguration
    legacy_sa_token_cleaner: LegacySATokenCleanerConfiguration
    namespace_controller: NamespaceControllerConfiguration
    node_ipam_controller: NodeIPAMControllerConfiguration
    node_lifecycle_controller: NodeLifecycleControllerConfiguration
    persistent_volume_binder_controller: PersistentVolumeBinderControllerConfiguration
    pod_gc_controller: PodGCControllerConfiguration
    replica_set_controller: ReplicaSetControllerConfiguration
    replication_controller: ReplicationControllerConfiguration
    resource_quota_controller: ResourceQuotaControllerConfiguration
    sa_controller: SAControllerConfiguration
    service_controller: ServiceControllerConfiguration
    ttl_after_finished_controller: TTLAfterFinishedControllerConfiguration
    validating_admission_policy_status_controller: ValidatingAdmissionPolicyStatusControllerConfiguration

# ---- what only options have

class SecureServingOptions(Group, section="secure serving"):
    """The HTTPS server."""
    bind_address = Setting(go.ADDRESS, "bind-address", "0.0.0.0", "Address to serve HTTPS on")
    bind_port = integer("secure-port", 443, "HTTPS port; 0 switches serving off")
    disable_http2_serving = boolean("disable-http2-serving", False, "Serve HTTP/1.1 only")
    cert_directory = string("cert-dir", "apiserver.local.config/certificates", "Directory for generated serving certificates")
    pair_name = string("", "apiserver")
    cert_file = string("tls-cert-file", "", "Serving certificate")
    key_file = string("tls-private-key-file", "", "Key of the serving certificate")
    cipher_suites = strings("tls-cipher-suites", [], "Allowed TLS 1.2 cipher suites")
    curve_preferences = Setting(go.INT32S, "tls-curve-preferences", [], "Ordered key exchange curves")
    min_tls_version = string("tls-min-version", "", "Oldest accepted TLS version")
    sni_cert_keys = Setting(go.CERTIFICATES, "tls-sni-cert-key", [], "Extra certificate/key pairs chosen by server name")
    http2_max_streams_per_connection = integer("http2-max-streams-per-connection", 0, "Stream limit per HTTP/2 connection; 0 = library default")
    permit_port_sharing = boolean("permit-port-sharing", False, "Set SO_REUSEPORT on the listener")
    permit_address_sharing = boolean("permit-address-sharing", False, "Set SO_REUSEADDR on the listener")

class DelegatingAuthenticationOptions(Group, section="authentication"):
    """Who may speak to the HTTPS server."""
    remote_kubeconfig_file = string("authentication-kubeconfig", "", "Kubeconfig used for token reviews")
    remote_kubeconfig_file_optional = boolean("", False)
    cache_ttl = duration("authentication-token-webhook-cache-ttl", 10.0, "Cache time of token reviews")
    client_ca = string("client-ca-file", "", "CA that authenticates client certificates")
    username_headers = strings("requestheader-username-headers", ["x-remote-user"], "Headers that carry the user name")
    uid_headers = strings("requestheader-uid-headers", [], "Headers that carry the user uid")
    group_headers = strings("requestheader-group-headers", ["x-remote-group"], "Headers that carry groups")
    extra_header_prefixes = strings("requestheader-extra-headers-prefix", ["x-remote-extra-"], "Header prefixes that carry extra user data")
    request_header_ca = string("requestheader-client-ca-file", "", "CA of the front proxy certificate")
    allowed_names = strings("requestheader-allowed-names", [], "Allowed common names of the front proxy")
    skip_in_cluster_lookup = boolean("authentication-skip-lookup", False, "Do not read missing authentication settings from the cluster")
    tolerate_in_cluster_lookup_failure = boolean("authentication-tolerate-lookup-failure", False, "Start even if authentication settings cannot be read")

class DelegatingAuthorizationOptions(Group, section="authorization"):
    """What they may ask for."""
    remote_kubeconfig_file = string("authorization-kubeconfig", "", "Kubeconfig used for access reviews")
    remote_kubeconfig_file_optional = boolean("", False)
    allow_cache_ttl = duration("authorization-webhook-cache-authorized-ttl", 10.0, "Cache time of allowed answers")
    deny_cache_ttl = duration("authorization-webhook-cache-unauthorized-ttl", 10.0, "Cache time of denied answers")
    always_allow_paths = strings("authorization-always-allow-paths", ["/healthz", "/readyz", "/livez"], "HTTP paths open to everyone")

class MetricsOptions(Group, section="metrics"):
    """What ``/metrics`` shows."""
    show_hidden_metrics_for_version = string("show-hidden-metrics-for-version", "", "Show metrics hidden since the previous minor release")
    disabled_metrics = strings("disabled-metrics", [], "Metrics to switch off")
    allow_list_mapping = Setting(go.PAIRS, "allow-metric-labels", {}, "Allowed label values per metric")
    allow_list_mapping_manifest = string("allow-metric-labels-manifest", "", "File with the same")

class LoggingOptions(Group, section="logs"):
    """What is logged, and how."""
    format = string("logging-format", "text", "Log encoding")
    flush_frequency = duration("log-flush-frequency", 5.0, "Longest time between log flushes")
    verbosity = Setting(go.LEVEL, "v", 0, "Log verbosity", short="v")
    vmodule = Setting(go.VMODULE, "vmodule", {}, "Per-file verbosity")
    split_stream = boolean("log-text-split-stream", False, "Errors to stderr, info to stdout")
    info_buffer_size = Setting(go.QUANTITY, "log-text-info-buffer-size", Quantity(0), "Buffer of info messages in split mode")

class ComponentGlobalsOptions(Group, section="generic"):
    """Which release to be."""
    emulated_version = strings("emulated-version", [], "API/feature version to behave as")
    min_compatibility_version = strings("min-compatibility-version", [], "Oldest control plane version to stay compatible with")
    feature_gates = components("feature-gates", [], "Switch feature gates on or off")

class GlobalFlags(Group, section="global"):
    """Flags of any command."""
    help = boolean("help", False, "Show help", short="h")
    version = Setting(go.VERSION, "version", "false", "Print version and exit (true, raw, or vX.Y.Z)")

class KubeControllerManagerOptions(KubeControllerManagerConfiguration):
    """Everything that a flag can set: the component config's own groups, and those above."""
    leader_migration: LeaderMigrationOptions
    secure_serving: SecureServingOptions
    authentication: DelegatingAuthenticationOptions
    authorization: DelegatingAuthorizationOptions
    metrics: MetricsOptions
    logs: LoggingOptions
    component_globals: ComponentGlobalsOptions
    global_flags: GlobalFlags
    master = string("master", "", "API server address, overrides kubeconfig", section="misc")
    controller_shutdown_timeout = duration("controller-shutdown-timeout", 10.0, "How long to wait for controllers at exit", section="generic")

class InsecureServingOptions(Group, section="insecure serving"):
    """The HTTP server without authentication: gone since 1.24, refused before."""
    bind_port = integer("port", 0, "The port to serve on; 1.22 takes 0 only")

SECTIONS = (
    "debugging", "leader-migration", "generic", "service-lb-controller", "secure serving",
    "authentication", "authorization", "persistentvolume-attach-detach-controller",
    "certificatesigningrequest-signing-controller", "deployment-controller",
    "device-taint-eviction-controller", "resourceclaim-controller", "statefulset-controller",
    "daemonset-controller", "deprecated", "endpoints-controller", "endpointslice-controller",
    "endpointslice-mirroring-controller", "ephemeral-volume-controller",
    "garbage-collector-controller", "horizontal-pod-autoscaler-controller", "job-controller",
    "cronjob-controller", "legacy-serviceaccount-token-cleaner-controller",
    "namespace-controller", "node-ipam-controller", "node-lifecycle-controller",
    "persistentvolume-binder-controller", "pod-garbage-collector-controller",
    "replicaset-controller", "replicationcontroller-controller", "resourcequota-controller",
    "serviceaccount-controller", "ttl-after-finished-controller",
    "validatingadmissionpolicy-status-controller", "metrics", "logs", "misc", "global",
)
"""The sections of ``--help``, in its order."""
# fmt: on
