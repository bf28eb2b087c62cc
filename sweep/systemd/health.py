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
        curl = f"curl -fsSk --noproxy '*' -m {_TIMEOUT_S} -o /dev/null {quote(url)}"
        python = f"-c {quote(_PYTHON)} {quote(url)}"
        script = f"""
if command -v curl >/dev/null 2>&1; then {curl}
elif command -v {quote(self._site.spec.python)} >/dev/null 2>&1; then
  {quote(self._site.spec.python)} {python}
else python3 {python}
fi
"""
        result = self._site.run(script, timeout_s=4 * _TIMEOUT_S)
        return None if result.ok else f"{url}: {result.tail(1) or 'no answer'}"
