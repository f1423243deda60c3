"""The agent: one for each IPU-Machine, on its gateway. gRPC on 8080, exporter on 2112, beacons for discovery."""
