"""Formulas as MathML: no script, no fonts, read aloud by screen readers."""

from __future__ import annotations

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)


def render(node: nodes.Element, *, as_block: bool) -> str:
    """A formula as MathML, or as it was written, with a warning, if it cannot be converted."""
    try:
        markup: str = tex2mathml(node.astext(), as_block=as_block)
    except MathError as error:
        logger.warning("formula %r: %s", node.astext(), error, location=node)
        return f"<code>{nodes.unescape(node.astext())}</code>"
    return markup


def inline(translator: HTML5Translator, node: nodes.math) -> None:
    """Write ``$...$``."""
    translator.body.append(render(node, as_block=False))
    raise nodes.SkipNode


def block(translator: HTML5Translator, node: nodes.math_block) -> None:
    """Write ``$$...$$``."""
    translator.body.append(f'<div class="math">{render(node, as_block=True)}</div>')
    raise nodes.SkipNode
