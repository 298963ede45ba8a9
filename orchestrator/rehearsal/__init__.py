"""Fake agents that hang, flood, lie and die on request."""
