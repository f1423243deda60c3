"""Storage of the lab: a real Cinder with its fake driver, and a real Manila whose shares NFS-Ganesha exports."""
