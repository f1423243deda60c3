"""The lowest layer: frozen values and errors. No I/O, no clock, no gRPC."""
