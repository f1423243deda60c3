"""The HTTP API: `weft.api.app.create_app`."""
