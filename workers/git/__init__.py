"""Git by subprocess, independent of the environment: refs, metadata, snapshots of protected files."""
