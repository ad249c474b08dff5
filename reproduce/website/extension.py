"""What the site adds to Sphinx: formulas as MathML, and the anchors that links of the workbook use."""

from __future__ import annotations

import re
from html import escape
from typing import Any

import math_core
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.transforms import SphinxTransform

_CONVERTER = math_core.LatexToMathML()


def mathml(latex: str, *, display: bool) -> str:
    r"""A formula as MathML, which browsers draw without scripts and fonts of ours.

    Args:
        latex: the formula, without dollar signs.
        display: whether it stands on a line of its own; only then may it have a number (`\tag`).

    Raises:
        ExtensionError: the formula has a command that is not known, or is ill-formed.
    """
    numbered = display and r"\tag" in latex and r"\begin{" not in latex
    source = rf"\begin{{equation}}{latex}\end{{equation}}" if numbered else latex
    try:
        return _CONVERTER.convert_with_local_state(source, displaystyle=display)
    except math_core.LatexError as problem:
        plain = re.sub(r"\x1b\[[\d;]*m", "", str(problem))
        raise ExtensionError(f"the formula {latex!r} is not understood: {plain}") from None


def _inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(mathml(node.astext(), display=False))
    raise nodes.SkipNode


def _block(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="math">{mathml(node.astext(), display=True)}</div>')
    raise nodes.SkipNode


class Anchors(SphinxTransform):
    """Give every heading the anchor that JupyterLab gives it, which the ledger's links end with.

    MyST knows the anchors of other dialects only, and leaves formulas out of them.
    """

    default_priority = 690  # after all other ids are given, before MyST resolves links

    def apply(self, **_: Any) -> None:
        """Add the anchors to the ids of the sections, and tell MyST of them."""
        known: dict[str, tuple[int | None, str, str]] = {}
        for section in self.document.findall(nodes.section):
            title = section.next_node(nodes.title)
            if title is None:
                continue
            name = anchor(title)
            if name not in known:
                known[name] = (section.line, section["ids"][0], title.astext())
                written = escape(name)  # the writer puts ids between quotes as they are
                if written not in self.document.ids:
                    section["ids"].append(written)
                    self.document.ids[written] = section
        self.document.myst_slugs = known
        self.env.metadata[self.env.docname]["myst_slugs"] = known


def anchor(title: nodes.title) -> str:
    """The anchor of a heading: its text with hyphens for spaces, formulas as they are written."""
    parts = [
        f"${node.astext()}$" if isinstance(node.parent, nodes.math) else node.astext()
        for node in title.findall(nodes.Text)
    ]
    return "".join(parts).replace(" ", "-")


def plain(_app: Sphinx, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    """Show a docstring as it is written: backticks are code, and no other sign has a meaning.

    An indented block after an empty line is code, a box of a paper or a formula, and stays as it is. What stands
    below "Args:" and the like is no such block, since no empty line comes before it.
    """
    blocks: list[tuple[bool, list[str]]] = [(False, [])]
    for line in lines:
        inside, block = blocks[-1]
        if inside and line and not line.startswith(" "):
            blocks.append((False, [line]))
        elif not inside and line.startswith("    ") and _ends_paragraph(block):
            blocks.append((True, [line]))
        else:
            block.append(line)
    shown: list[str] = []
    for inside, block in blocks:
        shown += ["::", "", *block] if inside else _escaped("\n".join(block)).split("\n")
    lines[:] = shown


def _ends_paragraph(block: list[str]) -> bool:
    """Whether a block ends with an empty line after one that is not indented."""
    return len(block) > 1 and not block[-1].strip() and bool(block[-2]) and block[-2][0] != " "


def _escaped(text: str) -> str:
    """A text in which reStructuredText finds nothing but paragraphs, lists and code in backticks."""
    parts = re.split(r"(``.*?``|`[^`]*`)", text, flags=re.DOTALL)
    for k in range(0, len(parts), 2):
        bars = re.sub(r"([|\\]|_(?!\w))", r"\\\1", parts[k])
        parts[k] = re.sub(r"\*(?! )|(?<=\S)\*|(?<=\S )\*", r"\\*", bars)
    return "".join(parts)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer of formulas and the anchors."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.add_transform(Anchors)
    app.connect("autodoc-process-docstring", plain, priority=400)  # before napoleon
    return {"parallel_read_safe": True, "parallel_write_safe": True}
