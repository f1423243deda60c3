"""A provider of NVIDIA's ai-cloud-validation for a cloud with weft: see README.md."""
