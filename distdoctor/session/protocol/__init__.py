"""Messages between the processes of a check, sealed and confirmed."""
