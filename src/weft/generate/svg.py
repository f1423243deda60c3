"""What all SVG pictures have in common. Presentation attributes only: the console's policy allows no styles in them."""

from __future__ import annotations

from collections.abc import Iterable
from xml.sax.saxutils import escape

LINE, TEXT = "#6b7480", "#1b1f24"
"""Colours of lines and of texts."""


def drawing(title: str, width: int, height: float, body: Iterable[str], attributes: str = "") -> str:
    """The SVG document, on white.

    Args:
        attributes: further attributes of the `svg` element, for a page of HTML, which gives it its size.
    """
    # Without a size of its own a tall picture that is opened alone would be shrunk to the window's height.
    own = attributes or f'width="{width}" height="{height}"'
    size = f'viewBox="0 0 {width} {height}" {own}'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif">'
    ground = f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
    return "\n".join([head, f"<title>{escape(title)}</title>", ground, *body, "</svg>", ""])


def written(x: int, y: int, text: str, size: int) -> str:
    """A line of text that begins at (x, y)."""
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{TEXT}">{escape(text)}</text>'


def shortened(text: str, longest: int) -> str:
    """A text of at most `longest` letters; one that is cut ends with an ellipsis."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
