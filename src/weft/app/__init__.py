"""Service verbs, settings and wiring: the only place that picks drivers."""
