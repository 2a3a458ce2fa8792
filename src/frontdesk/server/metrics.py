"""Figures for Prometheus: requests by route and status, how long they take, and open event streams."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.responses import Response

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)


class Metrics:
    """The figures of one app. Labels are templates of routes, never ids."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "frontdesk_http_requests", "Requests", ("method", "route", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "frontdesk_http_request_seconds",
            "How long requests take until their answer begins",
            ("method", "route"),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.in_progress = Gauge("frontdesk_http_requests_in_progress", "Requests in progress", registry=self._registry)
        self.streams = Gauge("frontdesk_event_streams", "Open event streams", registry=self._registry)

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)

    def expose(self) -> Response:
        return Response(generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})
