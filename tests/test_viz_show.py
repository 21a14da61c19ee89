"""The notebooks' small helpers."""

import plotly.graph_objects as go
import pytest

from kcm_lite.viz.show import captioned, expect_error, table

Capture = pytest.CaptureFixture[str]


def test_an_expected_error_prints_its_type_and_message(capsys: Capture) -> None:
    with expect_error(KeyError, ZeroDivisionError):
        1 / 0  # noqa: B018
    assert capsys.readouterr().out == "ZeroDivisionError: division by zero\n"


def test_a_subclass_is_expected_too_and_named_itself(capsys: Capture) -> None:
    with expect_error(LookupError):
        raise KeyError("web")
    assert capsys.readouterr().out == "KeyError: 'web'\n"


def test_no_error_fails() -> None:
    with (
        pytest.raises(AssertionError, match="expected KeyError or OSError, got no error"),
        expect_error(KeyError, OSError),
    ):
        pass


def test_another_error_passes_through(capsys: Capture) -> None:
    with pytest.raises(ZeroDivisionError), expect_error(KeyError):
        1 / 0  # noqa: B018
    assert capsys.readouterr().out == ""


def test_a_type_is_needed() -> None:
    with pytest.raises(TypeError), expect_error():
        pass


def test_long_messages_keep_to_eighty_columns(capsys: Capture) -> None:
    with expect_error(ValueError):
        raise ValueError("word " * 40 + "\nsecond line")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1].startswith("    word") and lines[-1] == "second line"


def test_a_table_is_aligned(capsys: Capture) -> None:
    table([{"pod": "web-1", "restarts": 3}, {"pod": "a", "restarts": 12, "node": "n1"}])
    assert capsys.readouterr().out == (
        "pod    restarts  node\nweb-1         3  -\na            12  n1\n"
    )


def test_a_table_shows_the_columns_asked_for(capsys: Capture) -> None:
    table([{"a": 1, "b": "x", "c": True}], ["c", "a"])
    assert capsys.readouterr().out == "   c  a\nTrue  1\n"


def test_an_empty_table(capsys: Capture) -> None:
    table([], ["a", "b"])
    table([])
    assert capsys.readouterr().out == "a  b\n\n"


def test_a_caption_goes_into_the_static_figure_and_below_the_live_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown: list[object] = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    figure = go.Figure()
    monkeypatch.setenv("KCM_STATIC_BOOK", "1")
    captioned(figure, "It grows.", alt="A line that rises")
    assert shown == [figure]
    assert figure.layout.meta == {"caption": "It grows.", "alt": "A line that rises"}
    monkeypatch.delenv("KCM_STATIC_BOOK")
    captioned(figure, "It grows.")
    assert figure.layout.meta["alt"] == "It grows."
    assert getattr(shown[2], "data", None) == "It grows."
