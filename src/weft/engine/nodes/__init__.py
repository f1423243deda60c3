"""What is known of nodes: checks, failures, drains, holds, histories."""
