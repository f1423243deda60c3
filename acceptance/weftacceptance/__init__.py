"""A provider for NVIDIA's ai-cloud-validation on a cloud with weft: see README.md."""
