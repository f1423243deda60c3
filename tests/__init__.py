"""Tests: a folder for each room of the code. Helpers are imported by their full names (`tests.engine.house`)."""
