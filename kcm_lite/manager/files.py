"""What options name, and a run needs: certificates, kubeconfigs, the plan of a leader migration.

Whatever is wrong with a file is `InvalidOptions`, with the flag that names it. See: chapter
*Options to config*; upstream ``client-go/util/cert``, ``client-go/tools/clientcmd``,
``controller-manager/pkg/leadermigration/config``.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import msgspec

from kcm_lite.api.golang import quote
from kcm_lite.api.yaml import ManifestError, load_documents
from kcm_lite.manager.checks import os_error
from kcm_lite.manager.groups import (
    DelegatingAuthenticationOptions,
    DelegatingAuthorizationOptions,
    SecureServingOptions,
)
from kcm_lite.manager.validation import InvalidOptions, Problem

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.x509 import CertificateBuilder


def refuse(message: str, flag: str) -> NoReturn:
    """Raise `InvalidOptions` with one problem."""
    raise InvalidOptions([Problem(message, flag)]) from None


def read(path: str, flag: str) -> bytes:
    """Read a file that a flag names."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        refuse(os_error(error), flag)


def read_document(path: str, flag: str, problem: str) -> Mapping[str, Any]:
    """Read the first YAML document of a file that a flag names."""
    try:
        return load_documents(Path(path).read_text("utf-8"), path)[0].raw
    except OSError as error:
        refuse(f"{problem}: {os_error(error)}", flag)
    except (ManifestError, UnicodeDecodeError) as error:
        refuse(f"{problem}: {error}", flag)
    except IndexError:
        refuse(f"{problem}: it is empty", flag)


# ---- certificates


def serving_certificate(serving: SecureServingOptions, now: datetime) -> tuple[bytes, bytes]:
    """Return certificate and key in PEM form: from files, or new and kept in memory.

    Args:
        serving: Its files, or its directory, or neither.
        now: From when a new certificate holds.
    """
    if serving.min_tls_version not in ("", *(f"VersionTLS1{minor}" for minor in range(4))):
        refuse(f"unknown tls version {quote(serving.min_tls_version)}", "tls-min-version")
    if serving.cert_file or serving.key_file:
        if not (serving.cert_file and serving.key_file):
            refuse("missing filename for serving cert", "tls-cert-file")
        key = read(serving.key_file, "tls-private-key-file")
        return read(serving.cert_file, "tls-cert-file"), key
    stem = Path(serving.cert_directory, serving.pair_name)
    files = [stem.with_suffix(end) for end in (".crt", ".key")] if serving.cert_directory else []
    if files and all(file.exists() for file in files):
        return read(str(files[0]), "cert-dir"), read(str(files[1]), "cert-dir")
    problem = "error creating self-signed certificates"
    anywhere = serving.bind_address in ("0.0.0.0", "::")
    try:
        made = self_signed("localhost", ["127.0.0.1", *[serving.bind_address][anywhere:]], now)
        for file, content in zip(files, made, strict=False):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
    except ImportError:
        text = 'they need the tls extra: pip install "kcm-lite[tls]", or give --tls-cert-file and'
        refuse(f"{problem}: {text} --tls-private-key-file, or --secure-port=0", "secure-port")
    except OSError as error:
        refuse(f"{problem}: {os_error(error)}", "cert-dir")
    return made


def self_signed(host: str, addresses: list[str], now: datetime) -> tuple[bytes, bytes]:
    """Return a certificate, followed by the one that signed it, and its key, in PEM form.

    Args:
        host: The name it is for.
        addresses: Addresses it is for, too.
        now: It holds from an hour before, for a year.

    Raises:
        ImportError: The ``tls`` extra is not installed.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    def named(text: str) -> x509.Name:
        stamp = f"{text}@{int(now.timestamp())}"
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, stamp)])

    def begin(subject: str, key: rsa.RSAPrivateKey, ca: bool) -> CertificateBuilder:
        start = now - timedelta(hours=1)
        return (
            x509.CertificateBuilder(named(f"{host}-ca"), named(subject), key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(start)
            .not_valid_after(start + timedelta(days=365))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )

    authority, key = (rsa.generate_private_key(65537, 2048) for _ in range(2))
    above = begin(f"{host}-ca", authority, True).sign(authority, hashes.SHA256())
    subject = [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
    names = x509.SubjectAlternativeName([x509.DNSName(host), *subject])
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    below = begin(host, key, False).add_extension(names, False).add_extension(usage, False)
    pem = serialization.Encoding.PEM
    form = serialization.PrivateFormat.TraditionalOpenSSL
    chain = below.sign(authority, hashes.SHA256()).public_bytes(pem) + above.public_bytes(pem)
    return chain, key.private_bytes(pem, form, serialization.NoEncryption())


# ---- the API server


def server_address(master: str, kubeconfig: str) -> str:
    """Return the server that the flags name; empty: none, so it is the one in this process."""
    host = _server_of(kubeconfig, "kubeconfig") if kubeconfig else ""
    if master:
        host = master if "://" in master else f"http://{master}"
        name = re.split("[/?#]", host.partition("://")[2])[0].rpartition("@")[2]
        if not name.startswith("[") and not re.fullmatch(r"[^:]*(:\d*)?", name, re.A):
            port = quote(name[name.index(":") :])
            refuse(f"parse {quote(host)}: invalid port {port} after host", "master")
    return host


def _server_of(path: str, flag: str, prefix: str = "") -> str:
    """Return the server of a kubeconfig's current context."""
    if not Path(path).exists():
        refuse(f"{prefix}stat {path}: no such file or directory", flag)
    problem = f"{prefix}error loading config file {quote(path)}"
    raw = read_document(path, flag, problem)
    try:
        context = next(c for c in raw["contexts"] if c["name"] == raw["current-context"])
        cluster = next(c for c in raw["clusters"] if c["name"] == context["context"]["cluster"])
        return str(cluster["cluster"]["server"])
    except (KeyError, StopIteration, TypeError):
        refuse(f"{problem}: it has no current context with a cluster and a server", flag)


def check_delegation(
    authentication: DelegatingAuthenticationOptions, authorization: DelegatingAuthorizationOptions
) -> None:
    """Refuse files of these options that cannot be read; nothing here uses what is in them."""
    for what, group in (("authentication", authentication), ("authorization", authorization)):
        if path := group.remote_kubeconfig_file:
            prefix = f"failed to get delegated {what} kubeconfig: "
            _server_of(path, f"{what}-kubeconfig", prefix)
    for flag, purpose, path in (
        ("client-ca-file", "client-ca-bundle", authentication.client_ca),
        ("requestheader-client-ca-file", "request-header", authentication.request_header_ca),
    ):
        if path and not read(path, flag):
            refuse(f"missing content for CA bundle {quote(f'{purpose}::{path}')}", flag)


# ---- leader migration


Name = Annotated[str, msgspec.Meta(min_length=1)]


class ControllerLeader(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Which component runs a controller while controllers move; ``*``: whoever has the lease."""

    name: Name
    component: Name


class LeaderMigration(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How controllers move from one manager to another, under a lease of their own."""

    leader_name: Name
    resource_lock: Literal["leases", "endpoints"]
    controller_leaders: tuple[ControllerLeader, ...] = ()
    kind: Literal["LeaderMigrationConfiguration"] = "LeaderMigrationConfiguration"
    api_version: str = "controllermanager.config.k8s.io/v1"


CLOUD_LOOPS = ("route-controller", "service-controller", "cloud-node-lifecycle-controller")

DEFAULT_MIGRATION = LeaderMigration(
    "cloud-provider-extraction-migration",
    "leases",
    tuple(ControllerLeader(name, "*") for name in CLOUD_LOOPS),
)


def read_leader_migration(path: str) -> LeaderMigration:
    """Read the plan of a leader migration; without a file, it is upstream's for the cloud loops."""
    if not path:
        return DEFAULT_MIGRATION
    flag = "leader-migration-config"
    problem = f"unable to read leader migration configuration from {quote(path)}"
    try:
        return msgspec.convert(read_document(path, flag, problem), LeaderMigration)
    except msgspec.ValidationError as error:
        refuse(f"{problem}: {error}", flag)
