"""What everything in the engine stands on: PostgreSQL, clocks, threads, the gate."""
