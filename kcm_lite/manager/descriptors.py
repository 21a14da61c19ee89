"""The controllers of v1.36, one a line, in the order of upstream's ``NewControllerDescriptors``.

A line is a name, an older name, marks and required gates. ``-``: there is no older name; ``+``: the
controller is younger than 1.22. Marks: ``off`` (disabled by default), ``cloud`` (a cloud's loop),
``special`` (built before all others). See: chapter *Names and gates*.
"""

TABLE = """\
serviceaccount-token-controller                 serviceaccount-token        special
endpoints-controller                            endpoint
endpointslice-controller                        endpointslice
endpointslice-mirroring-controller              endpointslicemirroring
replicationcontroller-controller                replicationcontroller
pod-garbage-collector-controller                podgc
resourcequota-controller                        resourcequota
namespace-controller                            namespace
serviceaccount-controller                       serviceaccount
garbage-collector-controller                    garbagecollector
daemonset-controller                            daemonset
job-controller                                  job
podgroup-protection-controller                  -                           GenericWorkload
deployment-controller                           deployment
replicaset-controller                           replicaset
horizontal-pod-autoscaler-controller            horizontalpodautoscaling
disruption-controller                           disruption
statefulset-controller                          statefulset
cronjob-controller                              cronjob
certificatesigningrequest-signing-controller    csrsigning
certificatesigningrequest-approving-controller  csrapproving
certificatesigningrequest-cleaner-controller    csrcleaner
podcertificaterequest-cleaner-controller        -                           PodCertificateRequest
ttl-controller                                  ttl
bootstrap-signer-controller                     bootstrapsigner             off
token-cleaner-controller                        tokencleaner                off
node-ipam-controller                            nodeipam
node-lifecycle-controller                       nodelifecycle
service-lb-controller                           service                     cloud
node-route-controller                           route                       cloud
cloud-node-lifecycle-controller                 cloud-node-lifecycle        cloud
persistentvolume-binder-controller              persistentvolume-binder
persistentvolume-attach-detach-controller       attachdetach
persistentvolume-expander-controller            persistentvolume-expander
clusterrole-aggregation-controller              clusterrole-aggregation
persistentvolumeclaim-protection-controller     pvc-protection
persistentvolume-protection-controller          pv-protection
volumeattributesclass-protection-controller     -                           VolumeAttributesClass
ttl-after-finished-controller                   ttl-after-finished
root-ca-certificate-publisher-controller        root-ca-cert-publisher
kube-apiserver-serving-clustertrustbundle-publisher-controller - ClusterTrustBundle
ephemeral-volume-controller                     ephemeral-volume
storageversion-garbage-collector-controller storage-version-gc APIServerIdentity StorageVersionAPI
resourceclaim-controller +resource-claim-controller DynamicResourceAllocation
resourcepoolstatusrequest-controller            -                           DRAResourcePoolStatus
device-taint-eviction-controller - DynamicResourceAllocation DRADeviceTaints
legacy-serviceaccount-token-cleaner-controller  +legacy-service-account-token-cleaner
validatingadmissionpolicy-status-controller     -
taint-eviction-controller - SeparateTaintEvictionController
service-cidr-controller - MultiCIDRServiceAllocator
storage-version-migrator-controller             +svm
selinux-warning-controller                      -                           off SELinuxChangePolicy
""".splitlines()
