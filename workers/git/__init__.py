"""Git by subprocess, blind to the environment: refs, metadata, snapshots of what must not change."""
