"""Plan of a job, from flags, environment and scheduler."""
