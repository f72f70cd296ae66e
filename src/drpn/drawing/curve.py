"""A picture of the learning curve."""

from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from drpn.drawing.pictures import save
from drpn.escape import terminal


def draw_curve(curve: list[dict[str, Any]], file: Path, *, title: str) -> None:
    """Draw training loss and validation AUC by epoch."""
    figure = Figure(figsize=(7, 3.2), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    epochs = [point["epoch"] for point in curve]
    for place, (name, label, colour) in enumerate(
        [("loss", "training loss", "#cf4a45"), ("validation_auc", "validation AUC", "#2da44e")], start=1
    ):
        axes = figure.add_subplot(1, 2, place)
        axes.plot(epochs, [point[name] for point in curve], marker="o", color=colour)
        axes.set_xlabel("epoch")
        axes.set_title(label, fontsize=10)
        axes.set_xticks(epochs)
        axes.grid(alpha=0.3)
    figure.suptitle(terminal(title), fontsize=11, parse_math=False)
    save(figure, file)
