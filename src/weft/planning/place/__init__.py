"""Behind `weft.planning.placement`: choosing leaves, the engine with state, time."""
