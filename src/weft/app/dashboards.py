"""Grafana's documents of the dashboards, by Grafana's own builders (extra `grafana`)."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import (
    DataSourceRef,
    VariableOption,
    VariableRefresh,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from weft.model.site import Site
from weft.planning.export.prometheus.panels import BOARDS, Board, Panel

_SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
_ALL = VariableOption(selected=True, text="All", value="$__all")


def dashboard_files(site: Site) -> dict[str, str]:
    """Path -> text of each dashboard; equal sites give equal bytes."""
    return {f"dashboards/{one.uid}.json": _text(site, one) for one in BOARDS}


def _text(site: Site, one: Board) -> str:
    made = (
        dashboard.Dashboard(f"{one.title} ({site.name})")
        .uid(f"{one.uid}-{site.name}"[:40])
        .description(one.what)
        .tags(["weft", site.name])
        .refresh("1m")
        .with_variable(dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
    )
    for name, query in one.variables.items():
        made = made.with_variable(
            dashboard.QueryVariable(name)
            .label(name)
            .datasource(_SOURCE)
            .query(query)
            .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
            .include_all(True)
            .all_value(".*")
            .multi(True)
            .current(_ALL)
        )
    for panel in one.panels:
        made = made.with_panel(_panel(panel))
    return JSONEncoder(sort_keys=True, indent=2).encode(made.build()) + "\n"


def _panel(one: Panel) -> stat.Panel | table.Panel | timeseries.Panel:
    made = {"stat": stat.Panel, "table": table.Panel, "timeseries": timeseries.Panel}[one.kind]()
    made = made.title(one.title).unit(one.unit).datasource(_SOURCE)
    if one.what:
        made = made.description(one.what)
    for number, (expr, legend) in enumerate(one.lines.items()):
        query = prometheus.Dataquery().expr(expr).legend_format(legend).ref_id(chr(ord("A") + number))
        if one.kind == "table":
            query = query.instant().format(PromQueryFormat.TABLE)
        made = made.with_target(query)
    return made
