"""Server config and host become the text of a systemd unit. Jinja2 is imported here alone."""

from __future__ import annotations

from sweep.unit.rendering import RenderedUnit, render
from sweep.unit.secrets import SecretFiles, secret_files, secret_value, secret_values
from sweep.unit.templates import Templates, own_templates, packaged_templates
from sweep.unit.text import unit_diff

__all__ = [
    "RenderedUnit",
    "SecretFiles",
    "Templates",
    "own_templates",
    "packaged_templates",
    "render",
    "secret_files",
    "secret_value",
    "secret_values",
    "unit_diff",
]
