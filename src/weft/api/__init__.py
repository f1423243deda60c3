"""The HTTP door: `weft.api.app.create_app`."""
