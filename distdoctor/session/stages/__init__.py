"""The stages that a process runs by itself."""
