"""One object, two lives: a figure with live controls in Jupyter, precomputed in the static book.

In a notebook with a kernel, moving a control runs Python. On a static page there is no kernel,
so the book's build computes the figure for every choice, and a script shows the chosen one::

    Explorer(
        lambda failures: plot_delays(failures),
        {"failures": range(20)},
        caption="Twenty failures in a row, and the key waits longer than a work day.",
    )
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from kcm_lite.viz.show import is_static

if TYPE_CHECKING:
    import ipywidgets
    import plotly.graph_objects as go

MAX_POINTS = 200
"""Points that a static page may carry: each is a figure in the page."""
MIME = "application/vnd.kcm-explorer.v1+json"


@dataclass(frozen=True)
class Control:
    """What the reader can choose for one parameter.

    Attributes:
        values: The choices, in order; a mapping gives each its label.
        label: The control's name; by default the parameter's.
        unit: Follows each value.
        kind: ``slider`` or ``select``; by default numbers slide and everything else is selected.
    """

    values: Sequence[Any] | Mapping[str, Any]
    label: str = ""
    unit: str = ""
    kind: Literal["slider", "select", ""] = ""

    @property
    def options(self) -> list[tuple[str, Any]]:
        """Each choice as the reader sees it, with its value."""
        if isinstance(self.values, Mapping):
            pairs = [(str(name), value) for name, value in self.values.items()]
        else:
            pairs = [(str(value), value) for value in self.values]
        return [(f"{name} {self.unit}".rstrip(), value) for name, value in pairs]

    @property
    def slides(self) -> bool:
        """Whether the control is a slider."""
        if self.kind:
            return self.kind == "slider"
        return all(
            isinstance(value, int | float) and not isinstance(value, bool)
            for _, value in self.options
        )


class Explorer:
    """Show ``build(**params)`` and let the reader change the parameters.

    Args:
        build: The figure for one choice of parameters, or ``None`` if the readout says it all.
        grid: For each parameter, the values to choose from, or a `Control`.
        start: The values to begin with; the first of each by default.
        caption: The finding, in a sentence.
        alt: What a reader who cannot see the figure should know; the caption by default.
        readout: Lines of plain text below the figure, for one choice of parameters.

    Raises:
        ValueError: No values, a start that is none of them, or more than `MAX_POINTS` points.
    """

    def __init__(
        self,
        build: Callable[..., go.Figure] | None,
        grid: Mapping[str, Sequence[Any] | Control],
        *,
        start: Mapping[str, Any] | None = None,
        caption: str = "",
        alt: str = "",
        readout: Callable[..., str] | None = None,
    ) -> None:
        if build is None and readout is None:
            raise ValueError("an Explorer needs a figure or a readout to show")
        self._build = build
        self._readout = readout
        self._caption = caption
        self._alt = alt or caption
        self._controls = {
            name: values if isinstance(values, Control) else Control(values)
            for name, values in grid.items()
        }
        if unknown := set(start or {}) - set(self._controls):
            raise ValueError(f"start: no parameter named {', '.join(sorted(unknown))}")
        self._start: dict[str, int] = {}
        for name, control in self._controls.items():
            values = [value for _, value in control.options]
            if not values:
                raise ValueError(f"{name}: no values to choose from")
            first = (start or {}).get(name, values[0])
            if first not in values:
                raise ValueError(f"{name}: the start {first!r} is none of its values")
            self._start[name] = values.index(first)
        count = math.prod(len(control.options) for control in self._controls.values())
        if count > MAX_POINTS:
            raise ValueError(f"{count} grid points; at most {MAX_POINTS} fit on a static page")
        # Now, not when it is shown: an error in a display hook would not fail the book's build.
        self._static = self.static_spec() if is_static() else None

    def _at(self, indexes: Sequence[int]) -> tuple[go.Figure | None, str]:
        """Figure and readout for one choice: the index of each parameter's value."""
        params = {
            name: control.options[index][1]
            for (name, control), index in zip(self._controls.items(), indexes, strict=True)
        }
        figure = self._build(**params) if self._build else None
        return figure, self._readout(**params) if self._readout else ""

    def _label(self, name: str) -> str:
        return self._controls[name].label or name.replace("_", " ")

    @cached_property
    def widget(self) -> ipywidgets.VBox:
        """Live controls over a figure that Python recomputes."""
        import ipywidgets
        import plotly.graph_objects as go

        figure, text = self._at(list(self._start.values()))
        shown = go.FigureWidget(figure) if figure else None
        readout = ipywidgets.HTML(_as_html(text))
        inputs = []
        for name, control in self._controls.items():
            kind = ipywidgets.SelectionSlider if control.slides else ipywidgets.Dropdown
            labels = [(label, index) for index, (label, _) in enumerate(control.options)]
            inputs.append(
                kind(
                    options=labels,
                    value=self._start[name],
                    description=self._label(name),
                    style={"description_width": "initial"},
                    layout={"width": "28rem", "max_width": "100%"},
                )
            )

        def redraw(_change: object) -> None:
            figure, text = self._at([control.value for control in inputs])
            if shown is not None:
                _replace(shown, figure)
            readout.value = _as_html(text)

        for control in inputs:
            control.observe(redraw, names="value")
        caption = ipywidgets.HTML(f"<em>{escape(self._caption)}</em>")
        return ipywidgets.VBox([*inputs, *([shown] if shown else []), readout, caption])

    def static_spec(self) -> dict[str, Any]:
        """The static form, as the book's page script reads it.

        ``points`` has one entry for each choice, the last parameter changing fastest. Traces and
        layouts that several points have in common are listed once, and the template once for all.
        """
        traces: dict[str, int] = {}
        layouts: dict[str, int] = {}
        template = None
        points = []
        sizes = (range(len(control.options)) for control in self._controls.values())
        for indexes in itertools.product(*sizes):
            figure, text = self._at(indexes)
            point: dict[str, Any] = {"readout": text} if self._readout else {}
            if figure is not None:
                content = json.loads(figure.to_json())
                template = content["layout"].pop("template", None)
                point["data"] = [_number(traces, trace) for trace in content["data"]]
                point["layout"] = _number(layouts, content["layout"])
            points.append(point)
        return {
            "caption": self._caption,
            "alt": self._alt,
            "controls": [
                {
                    "label": self._label(name),
                    "kind": "slider" if control.slides else "select",
                    "options": [label for label, _ in control.options],
                    "start": self._start[name],
                }
                for name, control in self._controls.items()
            ],
            "template": template,
            "traces": [json.loads(trace) for trace in traces],
            "layouts": [json.loads(layout) for layout in layouts],
            "points": points,
        }

    def __repr__(self) -> str:
        choices = ", ".join(
            f"{self._label(name)} ({len(control.options)} values)"
            for name, control in self._controls.items()
        )
        return f"Explorer of {choices}" + (f": {self._caption}" if self._caption else "")

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        if self._static is None:
            return self.widget._repr_mimebundle_(**kwargs)
        return {"text/plain": repr(self), MIME: self._static}


def _number(seen: dict[str, int], part: object) -> int:
    """The number of a figure's part among all different ones."""
    return seen.setdefault(json.dumps(part, separators=(",", ":")), len(seen))


def _as_html(text: str) -> str:
    return f"<pre style='margin: 0; line-height: 1.4'>{escape(text)}</pre>" if text else ""


def _replace(shown: go.FigureWidget, new: go.Figure) -> None:
    """Let a shown figure become the new one; with equal trace types it changes in place."""
    with shown.batch_update():
        if [trace.type for trace in shown.data] == [trace.type for trace in new.data]:
            for old, trace in zip(shown.data, new.data, strict=True):
                gone = {key: None for key in old.to_plotly_json() if key not in ("type", "uid")}
                old.update({**gone, **trace.to_plotly_json()}, overwrite=True)
        else:
            shown.data = ()
            shown.add_traces(new.data)
        shown.layout = new.layout
