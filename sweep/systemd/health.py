"""Does production answer? Asked on the host itself, so any address it serves on will do."""

from __future__ import annotations

from sweep.systemd.site import Site, quote

_TIMEOUT_S = 5

# No proxy, and no doubt about a certificate that is not made for 127.0.0.1: only life is asked for.
_PYTHON = f"""
import ssl, sys, urllib.request
open_url = urllib.request.build_opener(
    urllib.request.ProxyHandler({{}}),
    urllib.request.HTTPSHandler(context=ssl._create_unverified_context()),
).open
try:
    open_url(sys.argv[1], timeout={_TIMEOUT_S}).close()
except Exception as error:
    sys.exit(str(error))
"""


class Health:
    """production_health of one host."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def trouble(self) -> str | None:
        """None: it answers with success. Else why not, in one line; also when none is known."""
        url = self._site.spec.production_health
        if url is None:
            return "no production_health in the inventory"
        result = self._site.run(health_script(self._site), timeout_s=4 * _TIMEOUT_S)
        return None if result.ok else f"{url}: {result.tail(1) or 'no answer'}"


def health_script(site: Site) -> str:
    """Shell lines that succeed when production_health does, with whatever the host has for it."""
    url = quote(site.spec.production_health or "")
    python = f'"$(command -v {quote(site.spec.python)} || echo python3)"'
    return f"""if command -v curl >/dev/null 2>&1; then
  curl -fsSk --noproxy '*' -m {_TIMEOUT_S} -o /dev/null {url}
else {python} -c {quote(_PYTHON)} {url}
fi
"""
