"""Settings of weft's processes: one file, `weft.toml`, with the environment and the command line above it.

`weft.config.table` is the ONE table of settings: options, file, check, example and documentation follow from it. The
sections of the agents follow from their own models (`weft.config.agents`).
"""
