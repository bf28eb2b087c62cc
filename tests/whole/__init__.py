"""The whole sweep on real Debian hosts: the command line, over SSH, a simulated SGLang."""
