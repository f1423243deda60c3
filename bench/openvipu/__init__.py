"""Benchmarks of openvipu: a real controller and a simulated POD256 (64 agents), each a process."""

from bench.openvipu.report import rows

__all__ = ["rows"]
