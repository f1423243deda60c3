"""Pods of whole GPU nodes."""
