"""weftlab: a whole AI cloud on one machine."""
