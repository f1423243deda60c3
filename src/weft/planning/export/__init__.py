"""A site's cloud as the files of a deployment tool: pure, from values to text."""
