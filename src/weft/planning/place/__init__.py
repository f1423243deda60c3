"""The implementation of `weft.planning.place.placement`: choosing leaves, the engine with its state, time windows."""
