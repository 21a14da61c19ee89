# Generated from book/02_options.ipynb by tools/tangle.py; edit it there.

"""Options: groups of settings that point into the component config, for flags to overwrite.

See: chapter *Options to config*; upstream ``cmd/kube-controller-manager/app/options``.
"""

from __future__ import annotations

from kcm_lite.manager.groups import (
    KubeControllerManagerConfiguration,
    KubeControllerManagerOptions,
)
from kcm_lite.manager.settings import set_defaults, to_internal

# %% book/02_options.ipynb#46053092
NAME = "kube-controller-manager"
PORT = 10257


def new_default_component_config() -> KubeControllerManagerConfiguration:
    """Return the one source of defaults: versioned, filled in, then internal."""
    kind = KubeControllerManagerConfiguration
    return to_internal(kind, set_defaults(kind, {}))


# %% book/02_options.ipynb#45ccc3d6
def new_options(
    component: KubeControllerManagerConfiguration | None = None,
) -> KubeControllerManagerOptions:
    """Return options that point into a component config, with upstream's fixed settings.

    Args:
        component: The config whose groups become the option groups: the same objects, no copies.
            By default a new one.
    """
    options = KubeControllerManagerOptions()
    vars(options).update(vars(component or new_default_component_config()))
    options.authentication.remote_kubeconfig_file_optional = True
    options.authorization.remote_kubeconfig_file_optional = True
    options.secure_serving.cert_directory = ""  # the certificate stays in memory
    options.secure_serving.pair_name = NAME
    options.secure_serving.bind_port = PORT
    ignored = [("", "events"), ("events.k8s.io", "events")]
    options.garbage_collector_controller.gc_ignored_resources = ignored
    options.generic.leader_election.resource_name = NAME
    options.generic.leader_election.resource_namespace = "kube-system"
    return options
