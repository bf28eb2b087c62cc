"""Where unit templates are found, and what a mistake in one looks like to its author."""

from __future__ import annotations

import hashlib
import traceback
from collections.abc import Mapping
from pathlib import Path

import jinja2

from sweep.errors import InventoryError

TEMPLATE = "sglang.service.j2"


class Templates:
    """Jinja2 templates: of `directory` (`--templates`), then `./templates`, then the packaged ones.

    A variable a template asks for and does not get is an error, never an empty string.
    """

    def __init__(self, directory: Path | None = None, *, cwd: Path | None = None) -> None:
        """Raises InventoryError when `directory` is given and holds no unit template."""
        if directory is not None and not (directory / TEMPLATE).is_file():
            raise InventoryError(f"--templates {directory}: there is no {TEMPLATE} in it")
        here = (cwd or Path.cwd()) / "templates"
        self._places = [*([directory] if directory else []), here, packaged_templates()]
        self._environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(self._places),
            undefined=jinja2.StrictUndefined,
            autoescape=False,  # noqa: S701 - units are not HTML; values come in quoted for systemd
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )

    def path(self, name: str = TEMPLATE) -> Path:
        """The file that `name` is read from."""
        for place in self._places:
            if (place / name).is_file():
                return place / name
        raise InventoryError(f"no template {name} in {', '.join(map(str, self._places))}")

    def sha256(self) -> str:
        """Of the template's own text: a run does not mix units of two templates."""
        return hashlib.sha256(self.path().read_bytes()).hexdigest()

    def fill(self, values: Mapping[str, object], name: str = TEMPLATE) -> str:
        """The template's text with `values`. Raises InventoryError with the template's line."""
        path = self.path(name)
        try:
            return self._environment.get_template(name).render(values)
        except jinja2.TemplateSyntaxError as error:
            where = f"{error.filename or path}:{error.lineno}"
            raise InventoryError(f"{where}: {error.message or 'cannot be parsed'}") from error
        except jinja2.TemplateNotFound as error:
            raise InventoryError(f"{path}: no template {error.name} to include") from error
        except UnicodeDecodeError as error:
            raise InventoryError(f"{path}: is not UTF-8 text") from error
        except Exception as error:
            # A template is a program: what it raises is its author's to see, with the line.
            raise InventoryError(f"{self._place(error, path)}: {error}") from error

    def _place(self, error: Exception, path: Path) -> str:
        """file:line of the innermost template frame; Jinja puts these into the traceback."""
        frames = traceback.extract_tb(error.__traceback__)
        places = tuple(str(place) for place in self._places)
        for frame in reversed(frames):
            if frame.filename.startswith(places) and not frame.filename.endswith(".py"):
                return f"{frame.filename}:{frame.lineno}"
        return str(path)


def own_templates(directory: Path | None = None) -> Path | None:
    """Where a user's own unit template is found; None where the packaged one is used."""
    place = Templates(directory).path().parent
    return None if place == packaged_templates() else place


def packaged_templates() -> Path:
    """`sweep/templates` of an installed wheel, `templates/` beside the package in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / "templates"
    return inside if inside.is_dir() else package.parent / "templates"
