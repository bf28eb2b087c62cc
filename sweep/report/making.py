"""From inputs to the files of a report: everything loaded, analysed, drawn and written once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sweep.report import html, markdown, page
from sweep.report.analysis import analyse
from sweep.report.data import Results, load_results
from sweep.report.document import Document, Figure, Text
from sweep.report.offers import Offer, offer
from sweep.report.page import Extras
from sweep.report.plots import Missing, Plot, drawn, group_plots, source_plots
from sweep.report.positions import gpus, positions
from sweep.report.summary import Analysis
from sweep.results.files import translated, write_atomic

# More settings than this are told in tables alone: a page has an end, and so has patience.
MOST_DRAWN = 6


@dataclass(frozen=True)
class Report:
    """A report in memory. `files`: name -> bytes, the page among them."""

    results: Results
    analysis: Analysis
    document: Document
    files: Mapping[str, bytes]

    def write(self, directory: Path) -> list[Path]:
        """Every file into a directory, each whole; their paths, the page first.

        Raises:
            RunDirectoryError, OutOfRoom: they cannot be written there.
        """
        with translated(directory, "make"):
            directory.mkdir(parents=True, exist_ok=True)
        paths = []
        for name, data in self.files.items():
            path = directory / name
            write_atomic(path, data)
            paths.append(path)
        return paths


def make_report(inputs: Sequence[Path]) -> Report:
    """The report of run directories and CSV files; touches nothing.

    Raises:
        UsageError, RunDirectoryError: what `load_results` raises.
    """
    results = load_results(inputs)
    analysis = analyse(results)
    figures = _Figures()
    offers = dict(_offers(results, analysis))
    extras = Extras(
        pastes={group: one.blocks for group, one in offers.items()},
        group_figures=dict(_group_figures(results, analysis, figures)),
        source_figures={
            source.id: figures.all(source_plots(results, source), number, len(results.sources))
            for number, source in enumerate(results.sources, 1)
        },
    )
    document = page.document(results, analysis, extras)
    made = {
        "report.html": html.page(document).encode(),
        "report.md": markdown.page(document).encode(),
        **figures.files,
    }
    for one in offers.values():
        made |= {name: text.encode() for name, text in one.files.items()}
    return Report(results, analysis, document, made)


def _offers(results: Results, analysis: Analysis) -> Iterator[tuple[str, Offer]]:
    several = len(analysis.groups) > 1
    for group in analysis.groups[:MOST_DRAWN]:
        mark = f"-{group.id}" if several else ""
        yield group.id, offer(results.source(group.source), group, mark=mark)


def _group_figures(
    results: Results, analysis: Analysis, figures: _Figures
) -> Iterator[tuple[str, list[Figure | Text]]]:
    for number, group in enumerate(analysis.groups, 1):
        if number > MOST_DRAWN:
            text = f"Plots are drawn of the first {MOST_DRAWN} settings alone."
            yield group.id, [Text(text, "note")]
            continue
        plots = group_plots(
            group, gpus(results.source(group.source).document), positions(results, group)
        )
        yield group.id, figures.all(plots, number, len(analysis.groups))


class _Figures:
    """Draws plots and keeps their files."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def all(self, plots: Sequence[Plot | Missing], number: int, of: int) -> list[Figure | Text]:
        """Figures for the page, and a sentence for each plot that there is nothing for."""
        found: list[Figure | Text] = []
        for plot in plots:
            if isinstance(plot, Missing):
                found.append(Text(f"{plot.title} is left out: {plot.why}.", "note"))
                continue
            made = drawn(plot if of == 1 else plot.named(f"{plot.name}-{number}"))
            self.files |= made.files
            found.append(made.figure)
        return found
