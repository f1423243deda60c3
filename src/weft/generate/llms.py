"""`docs/llms.txt`: the documentation's pages for programs that read it as Markdown (https://llmstxt.org)."""

from __future__ import annotations

import re
from pathlib import Path

_LEAD = """# weft

> weft is the orchestrator between an OpenStack cloud and its accelerator fabric: it chooses machines for an order of
> GPUs or IPUs, isolates their RDMA network (InfiniBand P_Keys, or VLANs), boots and verifies them, and takes everything
> back with a receipt.

Every page is Markdown. [OpenAPI](schemas/openapi.json) describes the API, JSON Schemas in `schemas/` the documents.
"""
_TABLES = (
    ("Pages", "."),
    ("Problems: every code, what it means and what to do", "problems"),
    ("Optional", "decisions"),
)
_PROSE = re.compile(r"(?!```)[A-Za-z0-9`*]")
_LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")


def llms_text(docs: Path) -> str:
    """Contents of the file, from the title and the first sentence of each page under `docs`."""
    parts = [_LEAD]
    for heading, folder in _TABLES:
        pages = sorted((docs / folder).glob("*.md"))
        parts += [f"## {heading}", *(_line(page, docs) for page in pages), ""]
    return "\n".join(parts)


def _line(page: Path, docs: Path) -> str:
    """A link, and the sentence below the title if the page begins with one."""
    title, _, rest = page.read_text().partition("\n")
    lead = " ".join(_LINK.sub(r"\1", rest.strip().partition("\n\n")[0]).split())
    link = f"- [{title.removeprefix('# ')}]({page.relative_to(docs)})"
    return f"{link}: {lead.split('. ')[0].rstrip('.')}" if _PROSE.match(lead) else link
