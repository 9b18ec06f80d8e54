"""The command `tacit`: its commands, and what becomes of errors.

To add a command: a module with a function `command`, typed for typer and documented for people, and `EXAMPLES` (see
`shared.examples`); and a line at the end of this one.

Exit codes: 0; 2 and one line on stderr if the caller asked for what cannot be; 1 and a traceback if something of ours
is wrong; 130 after Ctrl-C.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tacit.cli import calibrate, check, convert, datasets, evaluate, inspect, plot, reproduce, simulate, sweep, train
from tacit.cli.shared import INTERRUPTED, examples, tell

__all__ = ["app", "main"]


class _Commands(TyperGroup):
    """All commands; the one place where errors become exit codes."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        def run() -> Any:
            return super(_Commands, self).main(
                args, prog_name, complete_var, standalone_mode=False, windows_expand_args=windows_expand_args, **extra
            )

        if not standalone_mode:
            return run()
        try:
            code = run() or 0  # typer's own exits are returned, Ctrl-C as 130
        except (KeyboardInterrupt, typer.Abort):
            tell("stopped")
            code = INTERRUPTED
        except typer.TyperException as error:  # an unknown option, a number that is none, …
            context = getattr(error, "ctx", None)
            command = context.command_path if context else "tacit"
            tell(f"{error.format_message().rstrip('.')}; see {command} --help")
            code = error.exit_code
        except Exception as error:
            if said := _mistake(error):
                tell(said)
                code = 2
            else:
                traceback.print_exc()
                code = 1
        sys.exit(code)


def _mistake(error: Exception) -> str:
    """What is said of a mistake of the caller's; nothing if the error may well be our own.

    The house raises errors of its own for mistakes, and the system's name the file. A plain ValueError is neither.
    """
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    ours = type(error).__module__.partition(".")[0] == "tacit"
    return str(error) if ours and isinstance(error, ValueError | RuntimeError) else ""


def _print_version(wanted: bool) -> None:
    if wanted:
        from tacit import __version__

        typer.echo(f"tacit {__version__}")
        raise typer.Exit()


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


@app.callback(
    invoke_without_command=True,
    epilog=examples(
        ("What noise does ε = 1 cost, by each mechanism?", "tacit calibrate --epsilon 1"),
        ("How well can be learnt with it?", "tacit simulate --epsilon 1 --episodes 5000"),
        ("How is a command used?", "tacit calibrate --help"),
    ),
)
def _tacit(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Decision policies from people's trajectories, under a differential-privacy guarantee that holds."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """What `tacit` and `python -m tacit` run."""
    app(prog_name="tacit")


app.command("calibrate", epilog=calibrate.EXAMPLES)(calibrate.command)
app.command("simulate", epilog=simulate.EXAMPLES)(simulate.command)
app.command("sweep", epilog=sweep.EXAMPLES)(sweep.command)
app.command("plot", epilog=plot.EXAMPLES)(plot.command)
app.command("reproduce", epilog=reproduce.EXAMPLES)(reproduce.command)
app.command("train", epilog=train.EXAMPLES)(train.command)
app.command("evaluate", epilog=evaluate.EXAMPLES)(evaluate.command)
app.command("inspect", epilog=inspect.EXAMPLES)(inspect.command)
app.command("convert", epilog=convert.EXAMPLES)(convert.command)
app.command("check", epilog=check.EXAMPLES)(check.command)
_datasets = typer.Typer(add_completion=False, help="Sample data.", epilog=datasets.EXAMPLES)
_datasets.command("make", epilog=datasets.EXAMPLES)(datasets.make)
app.add_typer(_datasets, name="datasets")
