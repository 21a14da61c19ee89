"""What becomes of a notebook's cells: the badge of exported code, figures and Explorers."""

from __future__ import annotations

import json
import re
from copy import copy
from html import escape
from typing import Any

from docutils import nodes
from nbformat import NotebookNode
from sphinx.transforms.post_transforms import SphinxPostTransform

EXPORT = re.compile(r"\A#\|[ \t]*export[ \t]+(?P<module>[\w.]+)[ \t]*\n+")
PLOTLY = "application/vnd.plotly.v1+json"
EXPLORER = "application/vnd.kcm-explorer.v1+json"

TEMPLATE = ("autotypenumbers", "colorway", "colorscale", "hovermode", "title", "xaxis", "yaxis")


class ExportBadge(SphinxPostTransform):
    """Replace a cell's ``#| export module`` line by a caption that names the file."""

    default_priority = 210  # after myst-nb hides inputs (199): it looks at a cell's first child
    formats = ("html",)

    def run(self, **kwargs: object) -> None:
        """Do so for every code cell of the document."""
        for cell in self.document.findall(nodes.container):
            if cell.get("nb_element") != "cell_code":
                continue
            block = next(cell.findall(nodes.literal_block), None)
            match = EXPORT.match(block.astext()) if block is not None else None
            if block is None or match is None:
                continue
            code = block.astext()[match.end() :]
            block.rawsource = code
            block[:] = [nodes.Text(code)]
            path = f"kcm_lite/{match['module'].replace('.', '/')}.py"
            name: nodes.Node = nodes.literal(path, path)
            if repository := self.config.kcm_repository:
                address = repository.source(path)
                name = nodes.reference("", "", name, refuri=address)
            badge = nodes.paragraph("", "exported to ", name, classes=["kcm-export"])
            cell["classes"].append("kcm-exported")
            cell.insert(0, badge)


def join_streams(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Join pieces of one stream that follow each other, as they were written.

    The kernel cuts a stream where it likes, within a line too; myst-nb's own way of joining ends
    the line at every cut.
    """
    joined: list[NotebookNode] = []
    for output in outputs:
        last = joined[-1] if joined else None
        if last and output["output_type"] == "stream" and last.get("name") == output["name"]:
            joined[-1] = copy(last)
            joined[-1]["text"] += output["text"]
        else:
            joined.append(output)
    return joined


class FigureMime:
    """A myst-nb plugin: the JSON of a figure or an Explorer becomes HTML for ``kcm_book.js``."""

    mime_priority_overrides = (("html", PLOTLY, 1), ("html", EXPLORER, 1))

    @staticmethod
    def handle_mime(renderer: Any, data: Any, inline: bool) -> list[nodes.Node] | None:
        """Render one output, if it is of these types."""
        if inline or data.mime_type not in (PLOTLY, EXPLORER):
            return None
        html = figure_html if data.mime_type == PLOTLY else explorer_html
        return [nodes.raw(text=html(data.content), format="html")]


def figure_html(figure: dict[str, Any]) -> str:
    """A plotly figure; its ``layout.meta`` may carry ``alt`` and ``caption``."""
    layout = figure["layout"]
    layout = {**layout, "template": slim(layout.get("template"))}
    meta = layout.get("meta", {})
    alt = meta.get("alt") or layout.get("title", {}).get("text")
    height = layout.get("height")
    return (
        f'<figure class="kcm-figure">{plot_html(alt or "Figure", height)}'
        f"{caption_html(meta.get('caption', ''))}{data_html({**figure, 'layout': layout})}</figure>"
    )


def explorer_html(spec: dict[str, Any]) -> str:
    """An Explorer: labelled controls, the plot, the readout and the caption."""
    controls = "".join(control_html(control) for control in spec["controls"])
    spec = {**spec, "template": slim(spec["template"])}
    index = 0
    for control in spec["controls"]:
        index = index * len(control["options"]) + control["start"]
    first = spec["points"][index]
    height = spec["layouts"][first["layout"]].get("height") if "layout" in first else None
    plot = plot_html(spec["alt"] or "Figure", height) if "layout" in first else ""
    readout = (
        f'<pre class="kcm-readout" role="status">{escape(first["readout"])}</pre>'
        if "readout" in first
        else ""
    )
    return (
        f'<figure class="kcm-explorer"><div class="kcm-controls">{controls}</div>{plot}{readout}'
        f"{caption_html(spec['caption'])}{data_html(spec)}</figure>"
    )


def slim(template: dict[str, Any] | None) -> dict[str, Any]:
    """What a page keeps of a figure's template, 7 kB if whole: the theme paints the rest."""
    layout = (template or {}).get("layout", {})
    return {"layout": {key: layout[key] for key in TEMPLATE if key in layout}}


def control_html(control: dict[str, Any]) -> str:
    """A range or select input; form fields, so that keyboard and screen reader just work."""
    options, start = control["options"], control["start"]
    if control["kind"] == "select":
        choices = "".join(
            f"<option{' selected' if i == start else ''}>{escape(option)}</option>"
            for i, option in enumerate(options)
        )
        field = f'<select autocomplete="off">{choices}</select>'
    else:
        value = escape(options[start])
        field = (
            f'<input type="range" min="0" max="{len(options) - 1}" step="1" value="{start}"'
            f' autocomplete="off" aria-valuetext="{value}">'
            f'<span class="kcm-value" aria-hidden="true">{value}</span>'
        )
    return f"<label><span>{escape(control['label'])}</span>{field}</label>"


def plot_html(alt: str, height: float | None) -> str:
    """The place of a plot; as high as the plot will be, so that nothing jumps."""
    return (
        f'<div class="kcm-plot" role="img" aria-label="{escape(alt)}"'
        f' style="height: {height or 380}px"></div>'
    )


def caption_html(caption: str) -> str:
    """The caption that states the finding, if there is one."""
    return f"<figcaption>{escape(caption)}</figcaption>" if caption else ""


def data_html(data: dict[str, Any]) -> str:
    """What the page script reads."""
    content = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json">{content}</script>'
