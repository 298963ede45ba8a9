"""Changes of unfenced workers outside their own tree."""
