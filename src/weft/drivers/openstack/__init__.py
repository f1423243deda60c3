"""OpenStack: resources, identity and facts of a cloud."""
