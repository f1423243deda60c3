"""The loop: store, leases, reconciler, verifier, audit."""
