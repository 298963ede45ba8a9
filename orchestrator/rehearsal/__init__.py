"""Fake agents, in each CLI's own event format, that hang, flood, lie and die on request."""
