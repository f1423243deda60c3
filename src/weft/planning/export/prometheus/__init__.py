"""`weft site export --format prometheus`: Prometheus, Alertmanager and Grafana of a site."""

from weft.planning.export.prometheus.files import prometheus_files

__all__ = ["prometheus_files"]
