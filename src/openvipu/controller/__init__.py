"""The controller: state, lanes of work, the agents it drives, and the repair loop."""
