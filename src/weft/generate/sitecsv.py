"""Tables of a site as CSV files, such as the links that were taken in from the fabric."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from weft.model.site import Link


def links_csv(links: Iterable[Link]) -> str:
    """`links.csv`: a header and one line a cable, in the given order."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(Link.model_fields)
    writer.writerows((k.a, k.a_port, k.b, k.b_port) for k in links)
    return out.getvalue()
