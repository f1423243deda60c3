"""Tables of a site as CSV files, such as the links that were taken in from the fabric."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

from weft.model.site import Link


def links_csv(links: Iterable[Link]) -> str:
    """`links.csv`: a header and one line a cable, in the given order; rates only where a cable has one of its own."""
    links = tuple(links)
    rated = any(k.rate_gbps for k in links)
    columns = [c for c in Link.model_fields if rated or c != "rate_gbps"]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([getattr(k, c) for c in columns] for k in links)
    return out.getvalue()


def table_csv(columns: Sequence[str], rows: Sequence[Mapping[str, str]]) -> str:
    """A table's file: those of its columns that any row has, and one line a row, in the given order."""
    used = [c for c in columns if any(c in row for row in rows)]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(used)
    writer.writerows([row.get(c, "") for c in used] for row in rows)
    return out.getvalue()
