"""When an attempt may start: queue, rate limits, pacing, logins."""
