"""Pods of IPUs."""
