"""The controller's gRPC services: the public user API, the catalog beside it, the admin API."""
