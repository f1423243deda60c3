"""Threads that look after everything: workers, keepers, retention, streams of events, webhooks."""
