"""Quantities, int-or-percent, names, and Go's way to print values."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm_lite.api.golang import parse_int, quote, to_json
from kcm_lite.api.intstr import get_scaled_value_from_int_or_percent
from kcm_lite.api.names import ALPHABET, generate_name, safe_encode_string
from kcm_lite.api.quantity import Quantity, parse_quantity


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0"),
        ("1", "1"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("0.5", "500m"),
        (".5", "500m"),
        ("1000", "1k"),
        ("1024Ki", "1Mi"),
        ("0.5Gi", "512Mi"),
        ("1.5Gi", "1536Mi"),
        ("1Ki", "1Ki"),
        ("0.1Ki", "102400m"),
        ("12e6", "12e6"),
        ("1E", "1E"),
        ("1e3", "1e3"),
        ("100Ei", "9223372036854775807"),
        ("0.5n", "1n"),
        ("-0.5n", "-1n"),
        ("-2Gi", "-2Gi"),
        ("+3", "3"),
        ("Ki", "0"),
        (2, "2"),
        (0.25, "250m"),
    ],
)
def test_canonical_quantities(text: str | int | float, canonical: str) -> None:
    assert str(parse_quantity(text)) == canonical


@pytest.mark.parametrize(
    "text", ["", "abc", "1x", "1.2.3", "1 ", " 1", "１", True, "1ki", "1e", "1KiB"]
)
def test_bad_quantities(text: str) -> None:
    with pytest.raises(ValueError, match="quantit"):
        parse_quantity(text)


@given(
    st.fractions(min_value=-(10**6), max_value=10**6, max_denominator=1000),
    st.sampled_from(["", "m", "k", "M", "Ki", "Mi", "e3", "E-2"]),
)
def test_quantity_round_trip_and_order(number: Fraction, suffix: str) -> None:
    text = f"{float(number):.3f}{suffix}"
    quantity = parse_quantity(text)
    again = parse_quantity(str(quantity))
    assert again == quantity
    assert str(again) == str(quantity)
    assert (quantity < parse_quantity("1")) == (quantity.nanos < 10**9)
    assert quantity + Quantity(1) > quantity
    assert (quantity - quantity).nanos == 0
    assert quantity.value() - 1 < Fraction(quantity.nanos, 10**9) <= quantity.value()


@given(st.integers(0, 300), st.integers(0, 2000))
def test_percentages_round_either_way(percent: int, total: int) -> None:
    up = get_scaled_value_from_int_or_percent(f"{percent}%", total, True)
    down = get_scaled_value_from_int_or_percent(f"{percent}%", total, False)
    assert up - down in (0, 1)
    assert down <= percent * total / 100 <= up
    assert get_scaled_value_from_int_or_percent(percent, total, True) == percent


@pytest.mark.parametrize(
    "value", [None, "", "5", "%", "x%", "5%%", "1.5%", "99999999999999999999%"]
)
def test_what_is_no_percentage(value: str | None) -> None:
    with pytest.raises(ValueError, match="IntOrString"):
        get_scaled_value_from_int_or_percent(value, 10, True)


@given(st.text(max_size=80), st.integers())
def test_generated_names(base: str, seed: int) -> None:
    name = generate_name(base, random.Random(seed))
    assert name == generate_name(base, random.Random(seed))
    assert len(name) == min(len(base), 58) + 5
    assert name.startswith(base[:58])
    assert set(name[-5:]) <= set(ALPHABET)


@given(st.integers(0, 2**32 - 1))
def test_hashes_become_safe_letters(number: int) -> None:
    encoded = safe_encode_string(str(number))
    assert len(encoded) == len(str(number))
    assert set(encoded) <= set(ALPHABET)


def test_go_quoting() -> None:
    assert quote('a"b\\c\n\x00ü\u200b\U000e0001') == '"a\\"b\\\\c\\n\\x00ü\\u200b\\U000e0001"'
    assert to_json({"b": ["<&>"], "a": None}) == '{"b":["\\u003c\\u0026\\u003e"],"a":null}'


@pytest.mark.parametrize("text", ["", "1.0", " 1", "1_0", "0x1", "１", "+"])
def test_go_integers(text: str) -> None:
    assert parse_int("+5") == 5
    assert parse_int("-2147483648", 32) == -(2**31)
    with pytest.raises(ValueError, match="out of range"):
        parse_int("2147483648", 32)
    with pytest.raises(ValueError, match="invalid syntax"):
        parse_int(text)
