"""Templates, settings and repository to a proven plan, or every reason why not."""
