"""A picture of the run: held-out success over rollouts."""

from __future__ import annotations

from pathlib import Path

from lopd_gym.run.summary import Summary

_COLOURS = {"sampled": "#1f77b4", "greedy": "#d95f02"}


def draw_curve(summary: Summary, path: Path) -> None:
    """Draw held-out success over rollouts (those of the bank included) as a PNG."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for mode in summary.gain:
        points = [(x, y) for x, m, y in summary.curve if m == mode]
        xs, ys = zip(*points, strict=True)
        axes.plot(xs, ys, "o-", color=_COLOURS[mode], label=f"student, {mode}")
        final = next(r for r in summary.rows if r.policy == "student" and r.mode == mode)
        low, high = final.success.mean - final.success.low, final.success.high - final.success.mean
        axes.errorbar(xs[-1], ys[-1], [[low], [high]], color=_COLOURS[mode], capsize=4)
        axes.axhline(ys[0], color=_COLOURS[mode], linestyle=":", linewidth=1)
    if summary.rollouts["bank"]:
        axes.axvspan(0, summary.rollouts["bank"], color="0.92", label="rollouts for the bank")
    axes.set(xlabel="rollouts", ylabel="held-out success", ylim=(0, 1))
    axes.set_title(f"{summary.env}: {summary.learner}, {summary.split} split, seed {summary.seed}")
    axes.legend(loc="upper left")
    figure.savefig(path, dpi=120)
    plt.close(figure)
