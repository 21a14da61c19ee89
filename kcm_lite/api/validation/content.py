"""The formats of names, labels and other short strings.

Each function returns what is wrong, as messages; nothing means valid. Lengths count bytes.
See: k8s.io/apimachinery ``pkg/util/validation`` and ``pkg/api/validate/content``.
"""

from __future__ import annotations

import re
from functools import lru_cache

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_KEY})?"
_PERCENT = "[0-9]+%"

_label_re = re.compile(_LABEL)
_subdomain_re = re.compile(_SUBDOMAIN)
_key_re = re.compile(_KEY)
_value_re = re.compile(_VALUE)
_percent_re = re.compile(_PERCENT)

_LABEL_MESSAGE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-',"
    " and must start and end with an alphanumeric character"
)
_SUBDOMAIN_MESSAGE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or"
    " '.', and must start and end with an alphanumeric character"
)
_KEY_MESSAGE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an"
    " alphanumeric character"
)
_VALUE_MESSAGE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or"
    " '.', and must start and end with an alphanumeric character"
)
_PERCENT_MESSAGE = "a valid percent string must be a numeric string followed by an ending '%'"


def max_len_message(limit: int, unit: str = "characters") -> str:
    """The message for a string that is too long: label keys and values say ``bytes``."""
    return f"must be no more than {limit} {unit}"


def range_message(low: int, high: int) -> str:
    """The message for a number outside of an inclusive range."""
    return f"must be between {low} and {high}, inclusive"


def regex_message(message: str, pattern: str, *examples: str) -> str:
    """The message for a string that does not match, with examples that do."""
    if not examples:
        return f"{message} (regex used for validation is '{pattern}')"
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{message} (e.g. {shown}regex used for validation is '{pattern}')"


def _too_long(value: str, limit: int) -> bool:
    return len(value) * 4 > limit and len(value.encode(errors="surrogatepass")) > limit


@lru_cache(4096)
def is_dns1123_label(value: str) -> list[str]:
    """A label of a DNS name: namespaces, containers, ports' hosts."""
    errs = [max_len_message(63)] if _too_long(value, 63) else []
    if not _label_re.fullmatch(value):
        if _subdomain_re.fullmatch(value):
            errs.append("must not contain dots")
        else:
            errs.append(regex_message(_LABEL_MESSAGE, _LABEL, "my-name", "123-abc"))
    return errs


def is_dns1123_subdomain(value: str, unit: str = "characters") -> list[str]:
    """A DNS name: what most objects are called."""
    errs = [max_len_message(253, unit)] if _too_long(value, 253) else []
    if not _subdomain_re.fullmatch(value):
        errs.append(regex_message(_SUBDOMAIN_MESSAGE, _SUBDOMAIN, "example.com"))
    return errs


@lru_cache(4096)
def is_qualified_name(value: str) -> list[str]:
    """A label key: a name with an optional DNS prefix and a slash (``IsLabelKey``)."""
    name_message = regex_message(_KEY_MESSAGE, _KEY, "MyName", "my.name", "123-abc")
    parts = value.split("/")
    if len(parts) > 2:
        return [
            f"a valid label key {name_message} with an optional DNS subdomain prefix and '/'"
            " (e.g. 'example.com/MyName')"
        ]
    errs = []
    name = parts[-1]
    if len(parts) == 2:
        prefix = parts[0]
        if not prefix:
            errs.append("prefix part must be non-empty")
        else:
            errs += [f"prefix part {err}" for err in is_dns1123_subdomain(prefix, "bytes")]
    if not name:
        errs.append("name part must be non-empty")
    elif _too_long(name, 63):
        errs.append(f"name part {max_len_message(63, 'bytes')}")
    if not _key_re.fullmatch(name):
        errs.append(f"name part {name_message}")
    return errs


@lru_cache(4096)
def is_label_value(value: str) -> list[str]:
    """A label value: like a name, but it may be empty."""
    errs = [max_len_message(63, "bytes")] if _too_long(value, 63) else []
    if not _value_re.fullmatch(value):
        errs.append(regex_message(_VALUE_MESSAGE, _VALUE, "MyValue", "my_value", "12345"))
    return errs


def is_valid_percent(value: str) -> list[str]:
    """A percentage such as ``25%``."""
    if _percent_re.fullmatch(value):
        return []
    return [regex_message(_PERCENT_MESSAGE, _PERCENT, "1%", "93%")]


def is_valid_port_name(value: str) -> list[str]:
    """The name of a port: short, lower case, with a letter in it."""
    errs = [max_len_message(15)] if _too_long(value, 15) else []
    if not re.fullmatch("[-a-z0-9]+", value):
        errs.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", value):
        errs.append("must contain at least one letter (a-z)")
    if "--" in value:
        errs.append("must not contain consecutive hyphens")
    if value and "-" in (value[0], value[-1]):
        errs.append("must not begin or end with a hyphen")
    return errs


def is_valid_port_num(value: int) -> list[str]:
    """A port number."""
    return [] if 1 <= value <= 65535 else [range_message(1, 65535)]


def is_config_map_key(value: str) -> list[str]:
    """A key of a ConfigMap, which becomes a file name."""
    errs = [max_len_message(253)] if _too_long(value, 253) else []
    if not re.fullmatch("[-._a-zA-Z0-9]+", value):
        message = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        errs.append(regex_message(message, "[-._a-zA-Z0-9]+", "key.name", "KEY_NAME", "key-name"))
    if value == ".":
        errs.append("must not be '.'")
    elif value == "..":
        errs.append("must not be '..'")
    elif value.startswith(".."):
        errs.append("must not start with '..'")
    return errs


def is_path_segment(value: str) -> list[str]:
    """A name that can stand in a URL."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{part}'" for part in "/%" if part in value]


def mask_trailing_dash(name: str) -> str:
    """Return a ``generateName`` prefix as a name could be: a last dash stands for more to come."""
    return name[:-2] + "a" if len(name) > 1 and name.endswith("-") else name
