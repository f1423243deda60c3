"""The site's own resources, and tenants' networks."""
