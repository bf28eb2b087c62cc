"""What outlives a reboot: a copy of the lock, the record and restore.sh, and a unit that boots it.

/run is empty after a boot, and only enabled units come up. So the boot unit puts back what lay in
/run, and starts the restore unit. The copy's record.json is the last file to come and the first to
go: without it nothing is owed. There are no secrets in it.
"""

from __future__ import annotations

from sweep.systemd.paths import Paths
from sweep.systemd.site import Site, quote, text

# Flushing the disk may take a while where somebody copies a model.
_TIMEOUT_S = 120.0


def keep(site: Site) -> str | None:
    """Copy this run's record to where a reboot leaves it; None, or why that cannot be, for a note.

    Done when it returns: the disk has it, as a power cut would find it. A host that cannot be
    written to there (some are immutable) is swept all the same.
    """
    paths = site.paths
    answer = site.ask("keep the record for a reboot", _keep_script(paths), timeout_s=_TIMEOUT_S)
    trouble = text(answer.get("trouble"))
    if not trouble:
        return None
    kept = "record" in answer
    restore = site.commands.of_host("restore", site.host.name)
    way = f"`{restore}` does it then" if kept else "only this sweep, while it lives, does it then"
    return f"after a reboot the host will not restore production by itself ({trouble}); {way}"


def forget(site: Site) -> str:
    """Shell lines that remove the copy and the boot unit: nothing is owed any more."""
    paths = site.paths
    kept, root = quote(paths.kept), quote(paths.kept_root)
    unit, link = quote(paths.boot_unit_file), quote(paths.boot_link)
    # Directories of a user's that are empty now were made for us, or for nothing.
    parents = {paths.boot_link.rpartition("/")[0], paths.boot_unit_file.rpartition("/")[0]}
    tidy = f"; rmdir -- {quote(*sorted(parents, reverse=True))}" if paths.scope == "user" else ""
    return f"""if [ -e {kept} ] || [ -e {unit} ] || [ -L {link} ]; then
  rm -f {quote(paths.kept_record)}; sync {kept} 2>/dev/null
  rm -f {link} {unit}; rm -rf {kept}
  {{ rmdir {root}{tidy}; }} 2>/dev/null
  {site.systemctl} daemon-reload
fi
"""


def recall(paths: Paths) -> str:
    """Shell lines that put this run's copy back into /run, where a reboot has emptied that.

    Its own script does it: it knows where its things lay.
    """
    return _recall(quote(paths.kept))


def recall_all(paths: Paths) -> str:
    """`recall` of every run that left a copy."""
    return _recall(f"{quote(paths.kept_root)}/*")


def _recall(places: str) -> str:
    return f"""for kept in {places}; do
  if [ -e "$kept/record.json" ]; then sh "$kept/restore.sh" recall; fi
done
"""


def _keep_script(paths: Paths) -> str:
    """Whole files in the end, whatever happens in between; the record last."""
    kept, root, run = quote(paths.kept), quote(paths.kept_root), quote(paths.run)
    unit, link = quote(paths.boot_unit_file), quote(paths.boot_link)
    directory, wants = (path.rpartition("/")[0] for path in (paths.boot_unit_file, paths.boot_link))
    new = quote(f"{directory}/.{paths.boot_unit}")
    return f"""
umask 022
flush() {{ sync "$@" 2>/dev/null || sync; }}
copy() {{
  mkdir -p {kept} && cp -p {quote(paths.lock)} {kept}/.lock &&
  cp -p {run}/restore.sh {kept}/.restore.sh && cp -p {run}/record.json {kept}/.record.json || return
  flush {kept}/.lock {kept}/.restore.sh {kept}/.record.json
  for name in lock restore.sh record.json; do mv -f {kept}/.$name {kept}/$name || return; done
  flush {kept} {root} {root}/..
}}
boot() {{
  mkdir -p {quote(wants)} && printf '%s' {quote(_boot_unit(paths))} > {new} || return
  flush {new}
  mv -f {new} {unit} && ln -sf {unit} {link} || return
  flush {quote(directory, wants)}
}}
if ! said=$(copy 2>&1); then
  echo @@trouble; printf '%s\\n' "$said"
  {{ rm -f {kept}/.lock {kept}/.restore.sh {kept}/.record.json; rmdir {kept} {root}; }} 2>/dev/null
  exit 0
fi
echo @@record
said=$(boot 2>&1) || {{ echo @@trouble; printf '%s\\n' "$said"; }}
exit 0
"""


def _boot_unit(paths: Paths) -> str:
    """The restore itself is left to the restore unit: there is never more than one at a time."""
    script = f"{paths.kept}/restore.sh".replace("%", "%%")
    word = script.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f"""# Written by sweep for run {paths.run_id}, which is over when this file is gone.
[Unit]
Description=sweep: put production back if the host boots in the middle of run {paths.run_id}
ConditionPathExists={script}

[Service]
Type=oneshot
ExecStart=/bin/sh "{word}" boot

[Install]
WantedBy={paths.boot_target}
"""
