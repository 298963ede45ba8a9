"""What workers that no fence holds changed beside their own tree."""
