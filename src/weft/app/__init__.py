"""Service verbs, settings and wiring: the only place that selects drivers."""
