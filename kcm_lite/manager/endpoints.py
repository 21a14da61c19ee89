"""What a manager says of itself over HTTPS: health, metrics, config.

Authentication and authorization are simplified: a bearer token that the process itself knows stands
for a user who may get everything; without one, only the paths that are open to everybody. Upstream
asks the API server (TokenReview, SubjectAccessReview).
See: k8s.io/apiserver ``pkg/server/healthz``, ``pkg/endpoints/filters``; k8s.io/component-base
``configz``.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from fnmatch import fnmatch
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from kcm_lite.controllers.context import DebugHandler
from kcm_lite.manager.config import SecureServingInfo
from kcm_lite.manager.groups import KubeControllerManagerConfiguration
from kcm_lite.manager.settings import Group, to_versioned, to_wire

CONFIGZ = "kubecontrollermanager.config.k8s.io"
TEXT, JSON = "text/plain; charset=utf-8", "application/json"
METRICS = "text/plain; version=0.0.4; charset=utf-8"

Check = Callable[[], None]


@dataclass
class Endpoints:
    """What there is to tell.

    Attributes:
        checks: The health checks by name; each raises if something is wrong. More may come later.
        config: The component config.
        metrics: Returns the metrics in Prometheus' text format.
        token: Whoever sends it may get everything; empty: nobody may.
        open_paths: What everybody may get; a star at the end stands for anything.
        debug_handlers: Returns those of the controllers, by name.
        tasks: Returns the tasks of the manager.
        reading: Held while an answer is made, so that nothing changes meanwhile.
    """

    config: KubeControllerManagerConfiguration
    metrics: Callable[[], str]
    token: str = ""
    open_paths: tuple[str, ...] = ("/healthz", "/readyz", "/livez")
    checks: dict[str, Check] = field(default_factory=dict)
    debug_handlers: Callable[[], Mapping[str, DebugHandler]] = dict
    tasks: Callable[[], Iterable[asyncio.Task[Any]]] = tuple
    reading: AbstractContextManager[Any] = field(default_factory=nullcontext)


@dataclass(frozen=True)
class Answer:
    """An HTTP answer."""

    code: int
    body: str
    content_type: str = TEXT


def answer(endpoints: Endpoints, target: str, authorization: str = "") -> Answer:
    """Answer a GET.

    Args:
        target: Path and query.
        authorization: The header of that name.
    """
    url = urlsplit(target)
    scheme, _, token = authorization.partition(" ")
    known = False
    if scheme.lower() == "bearer":
        known = bool(endpoints.token) and hmac.compare_digest(
            token.strip().encode(), endpoints.token.encode()
        )
        if not known:
            return _status(401, "Unauthorized", "Unauthorized")
    if not known and not any(fnmatch(url.path, path) for path in endpoints.open_paths):
        text = f'forbidden: User "system:anonymous" cannot get path "{url.path}"'
        return _status(403, "Forbidden", text)
    with endpoints.reading:
        return _content(endpoints, url.path, parse_qs(url.query, keep_blank_values=True))


def _content(endpoints: Endpoints, path: str, query: Mapping[str, list[str]]) -> Answer:
    if path == "/healthz":
        return healthz(endpoints.checks, "verbose" in query, query.get("exclude", []))
    if path.startswith("/healthz/"):
        return one_check(endpoints.checks, path.removeprefix("/healthz/"))
    if path == "/metrics":
        return Answer(200, endpoints.metrics(), METRICS)
    if path == "/configz":
        return Answer(200, json.dumps({CONFIGZ: external(endpoints.config)}), JSON)
    debugging = endpoints.config.generic.debugging.enable_profiling
    if path == "/":
        paths = ["/configz", "/healthz", *(f"/healthz/{n}" for n in endpoints.checks), "/metrics"]
        paths += PROFILES if debugging else ()
        return Answer(200, json.dumps({"paths": sorted(paths)}, indent=2), JSON)
    if debugging and path.startswith("/debug/"):
        return debug(endpoints, path, query)
    return NOT_FOUND


NOT_FOUND = Answer(404, "404 page not found\n")
CONTROLLERS = "/debug/controllers/"
PROFILES = ("/debug/pprof/", "/debug/pprof/goroutine")


def debug(endpoints: Endpoints, path: str, query: Mapping[str, list[str]]) -> Answer:
    """Answer what only people ask who look for a fault."""
    if path == PROFILES[0]:
        return Answer(200, "\n".join(["goroutine", ""]))
    if path == PROFILES[1]:
        return Answer(200, dump(endpoints.tasks()))
    name, slash, rest = path.removeprefix(CONTROLLERS).partition("/")
    handler = endpoints.debug_handlers().get(name) if path.startswith(CONTROLLERS) else None
    found = handler(slash + rest, query) if handler is not None else None
    return NOT_FOUND if found is None else Answer(200, found[1], found[0])


def dump(tasks: Iterable[asyncio.Task[Any]]) -> str:
    """Return what every task waits for: upstream dumps its goroutines."""
    lines = [f"task {task.get_name()}\n{''.join(waits_in(task))}" for task in tasks]
    return "\n".join([f"goroutine profile: total {len(lines)}", *lines])


def waits_in(task: asyncio.Task[Any]) -> Iterator[str]:
    """Yield where a task stands, from the innermost call to the first."""
    frames: list[str] = []
    coro: Any = task.get_coro()
    while (frame := getattr(coro, "cr_frame", None)) is not None:
        place = frame.f_code.co_filename.rpartition("kcm_lite/")[2]
        frames.append(f"    {frame.f_code.co_name} ({place}:{frame.f_lineno})\n")
        coro = getattr(coro, "cr_await", None)
    yield from reversed(frames)


def _status(code: int, reason: str, message: str) -> Answer:
    """Return a refusal as the API writes it."""
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    return Answer(code, json.dumps(status, indent=2), JSON)


def healthz(checks: Mapping[str, Check], verbose: bool, exclude: list[str]) -> Answer:
    """Ask all checks; say ``ok``, or which of them failed, but not to everybody why."""
    lines, failed = [], False
    for name, check in checks.items():
        if name in exclude:
            lines.append(f"[+]{name} excluded: ok")
            continue
        try:
            check()
            lines.append(f"[+]{name} ok")
        except Exception:  # whatever it is, it is not healthy
            failed = True
            lines.append(f"[-]{name} failed: reason withheld")
    unknown = [f'"{name}"' for name in exclude if name not in checks]
    if unknown:
        lines.append(
            f"warn: some health checks cannot be excluded: no matches for {', '.join(unknown)}"
        )
    if failed:
        return Answer(500, "\n".join([*lines, "healthz check failed", ""]))
    return Answer(200, "\n".join([*lines, "healthz check passed", ""]) if verbose else "ok")


def one_check(checks: Mapping[str, Check], name: str) -> Answer:
    """Ask one check, and say what is wrong."""
    if name not in checks:
        return NOT_FOUND
    try:
        checks[name]()
    except Exception as error:  # as above
        return Answer(500, f"internal server error: {error}\n")
    return Answer(200, "ok")


def external(config: KubeControllerManagerConfiguration) -> dict[str, Any]:
    """Return the versioned form of the config, as Go writes it.

    Its fields have their Go names, but for three groups that all components share.
    """
    generic = config.generic
    parts = {
        "ClientConnection": generic.client_connection,
        "LeaderElection": generic.leader_election,
        "Debugging": generic.debugging,
    }
    versioned = to_versioned(config)
    versioned["Generic"] |= {name: shared(part) for name, part in parts.items()}
    meta = {"kind": "KubeControllerManagerConfiguration", "apiVersion": f"{CONFIGZ}/v1alpha1"}
    plain: dict[str, Any] = json.loads(json.dumps(versioned, default=str), parse_float=_number)
    return meta | plain


def shared(group: Group) -> dict[str, Any]:
    """Return a group of settings whose fields have names for JSON."""
    return {_camel(s.name): to_wire(s, getattr(group, s.name)) for s in group.settings()}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _number(text: str) -> float:
    """Read a number; a whole one has no fraction in Go."""
    number = float(text)
    return int(number) if number.is_integer() else number


class Server:
    """An HTTPS server in a thread of its own.

    Args:
        endpoints: What it tells.
        secure: Its certificate, its address and port.

    Raises:
        OSError: The port is taken, or the address is none of this machine.
    """

    def __init__(self, endpoints: Endpoints, secure: SecureServingInfo) -> None:
        where = (secure.settings.bind_address, secure.settings.bind_port)
        self._server = ThreadingHTTPServer(where, _handler(endpoints))
        self._server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.NamedTemporaryFile() as pair:  # ssl reads files only
            pair.write(secure.certificate + secure.key)
            pair.flush()
            context.load_cert_chain(pair.name)
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="https", daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(endpoints: Endpoints) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 10.0

        def do_GET(self) -> None:
            found = answer(endpoints, self.path, self.headers.get("Authorization", ""))
            body = found.body.encode()
            self.send_response(found.code)
            self.send_header("Content-Type", found.content_type)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing: the log is the trace."""

    return Handler
