"""Names that the API server and the controllers make up.

See: k8s.io/apimachinery ``pkg/util/rand`` and k8s.io/apiserver ``pkg/storage/names``.
"""

from __future__ import annotations

import random

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Letters and digits without vowels and look-alikes, so that no words come out."""

SUFFIX_LENGTH = 5
MAX_GENERATED_NAME_LENGTH = 63 - SUFFIX_LENGTH


def random_suffix(rng: random.Random) -> str:
    """Return random letters of the safe alphabet."""
    choose = rng.random
    return "".join([ALPHABET[int(choose() * 27)] for _ in range(SUFFIX_LENGTH)])


def generate_name(base: str, rng: random.Random) -> str:
    """Return ``base``, cut to 58 bytes, with a random suffix: what ``generateName`` asks for."""
    if len(base) > MAX_GENERATED_NAME_LENGTH:
        base = base[:MAX_GENERATED_NAME_LENGTH]
    return base + random_suffix(rng)


def new_uid(rng: random.Random) -> str:
    """Return a random (version 4) UUID, the same one for the same seed."""
    text = rng.randbytes(16).hex()
    variant = "89ab"[int(text[16], 16) & 3]
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{variant}{text[17:20]}-{text[20:]}"


def safe_encode_string(text: str) -> str:
    """Return the text, character by character, in the safe alphabet (for hashes in names).

    Upstream reserves one byte per byte of the text but fills one per character; the rest stay NUL.
    """
    encoded = "".join([ALPHABET[ord(char) % 27] for char in text])
    return encoded.ljust(len(text.encode()), "\0")
