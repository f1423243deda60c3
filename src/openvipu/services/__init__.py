"""The controller's gRPC services: the public user API with its catalog, and the admin API."""
