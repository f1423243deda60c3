"""Shapes of pods: how an order becomes a plan."""
