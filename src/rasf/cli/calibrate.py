"""`rasf calibrate`: act with a library, and write into its file how far predictions and outcomes are apart."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from rasf.checks import whole
from rasf.cli import options as read
from rasf.cli.reports import print_calibration
from rasf.cli.terminal import check_writable, counted, say
from rasf.sweep import arguments

_EPISODES = 4_000
_READERS: dict[str, arguments.Reader] = {
    "file": read.path,
    "out": read.path,
    "env": arguments.text,
    "env-arg": read.assignments,
    "w": arguments.weights,
    "tasks": partial(whole, least=2),
    "risk": arguments.risks,
    "phi": arguments.function,
    "episodes": partial(whole, least=2),
    "max-steps": whole,
    "seed": arguments.seed,
    "plot": read.path,
}
_OPTIONS = ("episodes", "seed", "max-steps", "phi", "tasks")


def calibrate(
    ctx: typer.Context,
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="A library made by `rasf train`.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Where to write it. Default: FILE itself.")] = None,
    env: Annotated[str | None, typer.Option(help="Where to act. Default: where the library was trained.")] = None,
    env_arg: Annotated[
        list[str] | None, typer.Option(metavar="name=value", help="An argument of the environment; may be repeated.")
    ] = None,
    episodes: Annotated[int | None, typer.Option(help=f"In all. Default: {_EPISODES}.")] = None,
    tasks: Annotated[int | None, typer.Option(help="How many weightings to draw. Default: 10 to 60.")] = None,
    w: Annotated[
        list[str] | None, typer.Option(metavar="1,0,.1", help="A weighting, in place of drawn ones; may be repeated.")
    ] = None,
    risk: Annotated[
        list[str] | None,
        typer.Option(
            metavar="cvar:0.1",
            help="What to promise for; may be repeated. Default: neutral, and what the policies were trained for.",
        ),
    ] = None,
    phi: Annotated[
        str | None, typer.Option(metavar="MODULE:NAME", help="The features of a library that was trained with some.")
    ] = None,
    max_steps: Annotated[int | None, typer.Option(help="Cut episodes that go on for longer.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the tasks and the start states. Default: 0.")] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE.png", help="Draw predictions against outcomes.")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file with these names; flags win over it.")] = None,
) -> None:
    """Act with a library on tasks and risks, and keep how far predictions were off, for bounds such as "at most 4 %".

    Example: `rasf calibrate rooms.rasf --episodes 9000 --risk neutral --risk mean-variance:-4 --plot reliability.png`
    """
    from rasf.envs.gymnasium.single import make
    from rasf.library.file import load

    values = read.gather(ctx, _READERS, ("tasks", "w"))
    if "file" not in values:
        raise ValueError("file must be given, a library made by `rasf train`")
    target, drawn = check_writable("out", values.get("out", values["file"])), values.get("plot")
    if drawn is not None:
        if drawn.suffix != ".png":
            raise ValueError(f"plot must end in .png, got {drawn}")
        check_writable("plot", drawn)
    library = load(values["file"])
    where = arguments.import_environment(values["env"]) if "env" in values else read.own_environment(library)
    kwargs = values.get("env-arg", {})
    kwargs = read.arguments_like(library, where, kwargs) if kwargs else {}
    options = {name.replace("-", "_"): values[name] for name in _OPTIONS if name in values}
    if "w" in values:
        options["tasks"] = values["w"]
    total = options.setdefault("episodes", _EPISODES)
    read.silence_box_warnings()
    with counted() as bar:
        task = bar.add_task("acting, episodes", total=total)
        found = library.calibrate(
            partial(make, where, kwargs) if kwargs else where,
            risks=values.get("risk") or library.risks(),
            callback=lambda over: bar.update(task, completed=over),
            **options,
        )
        bar.update(task, completed=total)
    library.save(target)
    say(f"{values['file'].name} on {where}, {found.episodes} episodes, seed {found.seed}")
    print_calibration(found)
    say(f"wrote {target}")
    if drawn is not None:
        from rasf import drawing

        drawing.save(drawing.reliability(found, f"{values['file'].name} on {where}, seed {found.seed}"), drawn)
        say(f"wrote {drawn}")
