"""Tables of a site as CSV files, such as the links that were adopted from the fabric."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

from weft.model.csvcells import cell_text
from weft.model.site import Link


def links_csv(links: Iterable[Link]) -> str:
    """`links.csv`: a header and one line for each cable, in the given order; rates only if a cable has one."""
    links = tuple(links)
    rated = any(k.rate_gbps for k in links)
    columns = [c for c in Link.model_fields if rated or c != "rate_gbps"]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([getattr(k, c) for c in columns] for k in links)
    return out.getvalue()


def table_csv(columns: Sequence[str], rows: Sequence[Mapping[str, str]]) -> str:
    """A table's file: those of the columns that occur in a row, and one line for each row, in the given order."""
    used = [c for c in columns if any(c in row for row in rows)]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(used)
    writer.writerows([cell_text(row.get(c, "")) for c in used] for row in rows)
    return out.getvalue()
