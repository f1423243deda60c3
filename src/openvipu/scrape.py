"""A Prometheus page over HTTP."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import MetricsHandler
from prometheus_client.registry import Collector

from openvipu.model.errors import BadRequest
from openvipu.web import WebServer, serve_in_thread


def start_page(collector: Collector, what: str, host: str, port: int) -> Any:
    """Serve ``/metrics`` from ``collector``; returns the HTTP server, whose ``shutdown`` ends it."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    handler: type[BaseHTTPRequestHandler] = MetricsHandler.factory(registry)
    try:
        server = WebServer((host, port), handler)
    except OSError as error:
        raise BadRequest(f"{what} address {host}:{port} can't be listened on: {error.strerror}") from None
    serve_in_thread(server, what)
    return server
