r"""A Markdown extension that turns LaTeX, `$$` on lines of its own or `$` in text, into MathML.

Browsers draw MathML without scripts or fonts from elsewhere, and screen readers read it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from markdown import Extension
from markdown.inlinepatterns import InlineProcessor
from markdown.preprocessors import Preprocessor

if TYPE_CHECKING:
    from markdown import Markdown

__all__ = ["MathExtension", "makeExtension", "to_mathml"]

BLOCK = re.compile(r"^( *)\$\$(.+?)\$\$ *$", re.DOTALL | re.MULTILINE)
INLINE = r"(?<![\\\w$])\$(?=[^\s$])([^$\n]*[^\s$\\])\$(?![\w$])"
# LaTeX of the registry that latex2mathml lacks, and its replacement.
REPLACEMENTS = ((r"\\[bB]ig\s*/", "/"), (r"\\,|\\;", r"\\ "), (r"\\arg\\min", r"\\mathrm{argmin}"))


def to_mathml(latex: str, display: str = "block") -> str:
    """Return a formula as MathML, to be displayed as a block or inline."""
    from latex2mathml.converter import convert  # only building needs it

    supported = latex.strip()
    for old, new in REPLACEMENTS:
        supported = re.sub(old, new, supported)
    text = re.sub(' xmlns="[^"]*"', "", convert(supported, display=display))  # HTML needs none
    tree = ET.fromstring(text)  # noqa: S314 - from our own formulas
    for element in tree.iter():
        if element.tag == "mo" and element.text == ",":
            element.attrib |= {"lspace": "0", "rspace": "0.1em"}
        if element.tag == "msub" and element[0].text in ("min", "max") and display == "block":
            element.tag = "munder"
    return ET.tostring(tree, encoding="unicode")


class MathPreprocessor(Preprocessor):
    """Replaces formulas before anything in them is taken for Markdown."""

    def run(self, lines: list[str]) -> list[str]:
        """Return the lines with a placeholder for each formula."""

        def store(match: re.Match[str]) -> str:
            html = f'<div class="formula" tabindex="0">{to_mathml(match[2])}</div>'
            return f"\n{match[1]}{self.md.htmlStash.store(html)}\n"

        return BLOCK.sub(store, "\n".join(lines)).split("\n")


class InlineMath(InlineProcessor):
    """Replaces formulas within a line of text."""

    def handleMatch(self, m: re.Match[str], data: str) -> tuple[str, int, int]:  # noqa: ARG002, N802
        """Return the formula and where it was."""
        return self.md.htmlStash.store(to_mathml(m[1], "inline")), m.start(0), m.end(0)


class MathExtension(Extension):
    """Registers the preprocessor after fenced code (25) and before raw HTML (20)."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 - the name that Markdown calls
        """Add the preprocessor."""
        md.preprocessors.register(MathPreprocessor(md), "mathml", 22)
        md.inlinePatterns.register(InlineMath(INLINE, md), "mathml", 185)  # after code (190)


def makeExtension(**options: object) -> MathExtension:  # noqa: N802 - the name that Markdown calls
    """Return the extension."""
    return MathExtension(**options)
