"""The client as one file, for a host where this package is not installed."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

NAME = "client.pyz"
MAIN = b"import sys\nfrom sweep_client.trial import main\nsys.exit(main(sys.argv))\n"


def client_archive() -> bytes:
    """`python3 client.pyz job.json result.json` (zipapp); the same bytes every time."""
    folder = Path(__file__).parent / "client"
    files = {"__main__.py": MAIN}
    for path in sorted(folder.glob("*.py")):
        if path.name != "__main__.py":
            files[f"sweep_client/{path.name}"] = path.read_bytes()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)  # no date of its own: 1980
    return buffer.getvalue()
