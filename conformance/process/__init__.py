"""Child processes: supervisor, launcher, memory limits, fork server, daemons."""
