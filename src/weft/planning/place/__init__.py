"""Behind `weft.planning.place.placement`: choosing leaves, the engine with state, time."""
