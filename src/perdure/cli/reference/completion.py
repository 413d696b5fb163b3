"""`perdure completion`: a script with which a shell completes commands, options and names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from .._output import print_lines

if TYPE_CHECKING:
    from cyclopts import App

__all__ = ["completion", "make_completion_script"]

Shell = Literal["bash", "zsh", "fish"]


def completion(shell: Shell) -> None:
    """Print a script with which a shell completes commands, options, names and paths.

    The script contains all names, so completing starts no program. Install it once, and again after
    an update:

    - bash: `perdure completion bash > ~/.local/share/bash-completion/completions/perdure`
    - zsh: `perdure completion zsh > "${fpath[1]}/_perdure"`
    - fish: `perdure completion fish > ~/.config/fish/completions/perdure.fish`

    Args:
        shell: Shell to complete in.
    """
    from .. import app

    print_lines(*make_completion_script(app, shell).rstrip("\n").split("\n"))


def make_completion_script(app: App, shell: Shell) -> str:
    """Return the script that completes the commands of `app` in a shell."""
    script = app.generate_completion(prog_name="perdure", shell=shell)
    # As file names, so that a folder ends in a slash and can be continued.
    return script.replace("complete -F ", "complete -o filenames -F ")
