"""The console in the browser, at `/ui` of `weft serve`: `weft.web.app.add_console`."""
