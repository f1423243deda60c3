"""Threads that run all the time: workers, keepers, retention, streams of events, webhooks."""
