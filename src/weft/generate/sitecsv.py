"""Tables of a site as CSV files, such as the links that were taken in from the fabric."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

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
