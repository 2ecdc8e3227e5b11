"""`rasf calibrate`: act with a library, and store the errors of its predictions in its file."""

from __future__ import annotations

from functools import partial

from rasf.cli.options import arguments_like, command, own_environment, silence_box_warnings
from rasf.cli.reports import print_calibration
from rasf.cli.terminal import check_plot, check_writable, counted, say
from rasf.files import Header
from rasf.library.arguments.declared import CALIBRATION
from rasf.library.arguments.readers import import_environment

_EPISODES = 4_000
_OPTIONS = ("episodes", "seed", "max_steps", "phi", "tasks")


@command(CALIBRATION)
def calibrate(values: Header) -> None:
    """Act with a library for several tasks and risks, and save the errors of its predictions in a file.

    Bounds of later predictions are computed from these errors.

    Example: `rasf calibrate rooms.rasf --episodes 9000 --risk neutral --risk mean-variance:-4 --plot reliability.png`
    """
    from rasf.envs.gymnasium.single import make
    from rasf.library.file import load

    if "file" not in values:
        raise ValueError("file must be given: a library made by `rasf train`")
    target = check_writable("out", values["out"] if "out" in values else values["file"])
    drawn = values.get("plot")
    if drawn is not None:
        check_plot(drawn)
    library = load(values["file"])
    where = import_environment(values["env"]) if "env" in values else own_environment(library)
    kwargs = values.get("env_kwargs", {})
    kwargs = arguments_like(library, where, kwargs) if kwargs else {}
    options = {name: values[name] for name in _OPTIONS if name in values}
    total = options.setdefault("episodes", _EPISODES)
    silence_box_warnings()
    with counted() as bar:
        task = bar.add_task("acting (episodes)", total=total)
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
