"""The embedded host: an SSH server, a stand-in for systemd and its journal, a simulated SGLang.

Nothing here is imported by a sweep of a real host. Three parts that know little of each other:

- `simulator` and what it imports (`model`, `arguments`, `startup`, `engine`, `http`, ...): a server
  process that looks like SGLang 0.5.23 from outside. Standard library, uvicorn and starlette only.
- `manager` and `standin`: enough of systemd, its journal, ss and nvidia-smi for one unprivileged
  user, under a private directory. Standard library only.
- `host`, `places`, `ssh`: a real SSH server on 127.0.0.1 that runs commands with those stand-ins
  first on PATH.
"""
