"""The commands of the demo host: systemctl, systemd-run, journalctl, ss, nvidia-smi and a few more.

Each is a shell script of two lines under ROOT/bin that starts `__main__` here, isolated and with
nothing but the standard library, since a poll starts several of them.
"""
