"""Errors that an API server answers with: a reason, an HTTP code, a message a user would see.

See: k8s.io/apimachinery ``pkg/api/errors`` and ``pkg/util/validation/field``.
"""

from __future__ import annotations

from typing import ClassVar

from kcm_lite.api.meta import Struct


class Cause(Struct, frozen=True, kw_only=True):
    """One reason why an object was refused: where, why, and in words."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusError(Exception):
    """An API server's refusal.

    Attributes:
        message: What a user sees, for example ``pods "a" not found``.
        causes: For ``Invalid``, one entry per field.
        retry_after: Seconds after which the server asks to be asked again; 0: it does not.
    """

    code: ClassVar[int] = 500
    reason: ClassVar[str] = "Unknown"

    def __init__(
        self, message: str, *, causes: tuple[Cause, ...] = (), retry_after: int = 0
    ) -> None:
        super().__init__(message)
        self.message = message
        self.causes = causes
        self.retry_after = retry_after


class BadRequest(StatusError):
    """The request makes no sense."""

    code, reason = 400, "BadRequest"


class Unauthorized(StatusError):
    """Who is asking?"""

    code, reason = 401, "Unauthorized"


class Forbidden(StatusError):
    """Not allowed: by a quota, by a terminating namespace, by a policy."""

    code, reason = 403, "Forbidden"


class NotFound(StatusError):
    """No such object (or kind)."""

    code, reason = 404, "NotFound"


class MethodNotSupported(StatusError):
    """This resource does not do that."""

    code, reason = 405, "MethodNotAllowed"


class AlreadyExists(StatusError):
    """A create of a name that is taken."""

    code, reason = 409, "AlreadyExists"


class Conflict(StatusError):
    """The object has changed since it was read, or a precondition fails."""

    code, reason = 409, "Conflict"


class Expired(StatusError):
    """The resource version is too old to watch or list from."""

    code, reason = 410, "Expired"


class Invalid(StatusError):
    """Validation refused the object; ``causes`` has every field."""

    code, reason = 422, "Invalid"


class TooManyRequests(StatusError):
    """The server is busy, or an eviction would break a budget."""

    code, reason = 429, "TooManyRequests"


class InternalError(StatusError):
    """The server failed."""

    code, reason = 500, "InternalError"


class ServerTimeout(StatusError):
    """No answer in time; whether the write happened is unknown."""

    code, reason = 504, "Timeout"
