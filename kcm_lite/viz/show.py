"""Small helpers of the notebooks: an error that is expected, a table, a figure with a caption."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import plotly.graph_objects as go

WIDTH = 80
"""Columns that an output may have; more does not fit on a phone."""


def is_static() -> bool:
    """Whether the code runs for the static book, where no kernel answers the reader."""
    return bool(os.environ.get("KCM_STATIC_BOOK"))


@contextmanager
def expect_error(*types: type[BaseException]) -> Iterator[None]:
    """Expect the block to raise one of ``types``; print it as ``Type: message``.

    Raises:
        AssertionError: The block raised nothing. An error of another type passes through.
    """
    if not types:
        raise TypeError("expect_error needs the type of error to expect")
    try:
        yield
    except types as error:
        for line in f"{type(error).__name__}: {error}".splitlines():
            print(textwrap.fill(line, WIDTH, subsequent_indent="    ", break_long_words=False))
    else:
        raise AssertionError(f"expected {' or '.join(t.__name__ for t in types)}, got no error")


def table(rows: Iterable[Mapping[str, object]], columns: Sequence[str] = ()) -> None:
    """Print rows as aligned text, numbers to the right.

    Args:
        rows: Each row's values by column; a missing value prints as ``-``.
        columns: Which columns, in this order; by default those of the rows as they first appear.
    """
    rows = list(rows)
    columns = columns or list(dict.fromkeys(name for row in rows for name in row))
    cells = [[str(row.get(name, "-")) for name in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    right = [
        any(isinstance(row.get(name), int | float) for row in rows)
        and all(isinstance(row.get(name, 0), int | float) for row in rows)
        for name in columns
    ]
    lines = []
    for line in [list(columns), *cells]:
        padded = (
            text.rjust(width) if numeric else text.ljust(width)
            for text, width, numeric in zip(line, widths, right, strict=True)
        )
        lines.append("  ".join(padded).rstrip())
    print("\n".join(lines))  # at once: a page shows two prints with a gap if time passes between


def captioned(figure: go.Figure, caption: str, alt: str = "") -> None:
    """Show a figure with the caption that states its finding.

    Args:
        figure: Any plotly figure.
        caption: What the figure shows to be true, in a sentence.
        alt: What a reader who cannot see it should know; the caption by default.
    """
    from IPython.display import Markdown, display

    figure.update_layout(meta={"caption": caption, "alt": alt or caption})
    display(figure)
    if not is_static():  # the static book puts the caption into the figure
        display(Markdown(caption))
