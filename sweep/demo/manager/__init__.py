"""A stand-in for systemd, for one unprivileged user: services, transient units, timers, a journal.

A daemon of its own (`python -m sweep.demo.manager ROOT`) keeps everything under a private
directory: unit files in ROOT/etc and ROOT/run, control groups as files in ROOT/sys/fs/cgroup, the
journal in ROOT/var/log/journal. It ends, with all it started, when its standard input closes: its
host is off. It does what the tool asks of systemd, the way systemd 252 to 257 do it, and no more.
Standard library only; POSIX, at its best on Linux.
"""
