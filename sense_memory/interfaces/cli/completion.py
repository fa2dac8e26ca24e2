"""`completion`: the words that a shell offers for Tab: commands, options, agents, relays, files.

The shell passes the command line so far, and gets words back, one per line. Completion reads only names of files and
settings: no key is opened, no password asked for, no ledger opened, no relay contacted, nothing written. Memory keys
are not completed, because finding them needs the key and the ledger.
"""

from __future__ import annotations

import shlex
import warnings
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sense_memory.errors import SenseMemoryError
from sense_memory.interfaces.cli.help_pages import EARLIER_NAMES, ends, first_sentence
from sense_memory.interfaces.cli.inputs import JsonOption
from sense_memory.interfaces.cli.invocation import of
from sense_memory.interfaces.cli.palace.shapes import StateChoice
from sense_memory.interfaces.cli.program import SETUP, SHARED, app
from sense_memory.interfaces.text import as_json


if TYPE_CHECKING:
    from collections.abc import Iterable

    from sense_memory.config.settings import Settings

FILES: Final = "\t"  # the line that asks the shell to complete names of files
_PATHS: Final = ("FILE", "FOLDER")

Word = tuple[str, str]  # a word to offer, and what it means


class Shell(StrEnum):
    """The shells that scripts exist for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


_CHOICES: Final = {"SHELL": Shell, "STATE": StateChoice}  # by the name of the value on a help page
_SCRIPTS: Final = {
    Shell.BASH: r"""
_sense_memory_complete() {
    local line word before IFS=$'\n'
    COMPREPLY=()
    word=${COMP_LINE:0:COMP_POINT}; word=${word##*[[:space:]]}
    before=${word%"${word##*[:=]}"}  # bash begins a new word behind these, as in wss://
    for line in $(_SENSE_MEMORY_COMPLETE="${COMP_LINE:0:COMP_POINT}" "$1" 2>/dev/null); do
        if [ "$line" = $'\t' ]; then
            compopt -o filenames 2>/dev/null
            COMPREPLY=($(compgen -f -- "${word##*[:=]}"))
            return
        fi
        line=${line%%$'\t'*}
        COMPREPLY+=("${line#"$before"}")
    done
}
complete -F _sense_memory_complete sense-memory
""",
    Shell.ZSH: r"""
#compdef sense-memory
_sense_memory_complete() {
    local line
    local -a found
    for line in "${(@f)$(_SENSE_MEMORY_COMPLETE="${(j: :)words[1,CURRENT]}" "${words[1]}" 2>/dev/null)}"; do
        if [[ $line == $'\t' ]]; then
            _files
            return
        fi
        [[ -n $line ]] && found+=("${${line//:/\\:}/$'\t'/:}")
    done
    _describe 'sense-memory' found
}
if [[ $funcstack[1] == _sense_memory_complete || $funcstack[1] == _sense-memory ]]; then
    _sense_memory_complete "$@"
else
    compdef _sense_memory_complete sense-memory
fi
""",
    Shell.FISH: r"""
function __sense_memory_complete
    set -l found (_SENSE_MEMORY_COMPLETE=(commandline -cp | string collect) sense-memory 2>/dev/null)
    if test "$found" = \t
        __fish_complete_path (commandline -ct)
    else
        string join \n -- $found
    end
end
complete --command sense-memory --no-files --arguments "(__sense_memory_complete)"
""",
}


@app.command(
    rich_help_panel=SETUP,
    epilog=ends(
        "# bash, for this terminal; for all terminals, put the line into ~/.bashrc:",
        'eval "$(sense-memory completion bash)"',
        "# zsh, the same; the line goes into ~/.zshrc, after compinit:",
        'eval "$(sense-memory completion zsh)"',
        "# fish, for all terminals:",
        "sense-memory completion fish > ~/.config/fish/completions/sense-memory.fish",
    ),
)
def completion(
    context: typer.Context,
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", show_default=False, help="bash, zsh or fish.")],
    _json: JsonOption = False,
) -> None:
    """Print a script that lets a shell complete sense-memory commands.

    Tab completes commands, options, names of agents, URLs of relays, and files. It opens no key and no ledger, asks no
    question and contacts no relay.
    """
    script = _SCRIPTS[shell].strip()
    typer.echo(as_json({"shell": shell, "script": script}) if of(context).as_json else script)


def answer(line: str) -> str:
    """The words to offer for a command line so far, one per line with a tab and the meaning; or `FILES`."""
    words = _split(line)
    if len(words) < 2:
        return ""
    offered = _Offer(words[1:]).words()
    found = [f"{word}\t{meaning}".rstrip("\t") for word, meaning in offered]
    return FILES if found == [FILES] or any(word == FILES for word, _ in offered) else "\n".join(found)


def _split(line: str) -> list[str]:
    """The words of a command line; the last word is being typed, and may be empty."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.commenters = True, ""
    words: list[str] = []
    try:
        words.extend(lexer)
    except ValueError:  # an open quote: the quoted text is being typed
        return [*line.split(), ""] if line.endswith(" ") else line.split()
    return [*words, ""] if line[-1:].isspace() else words


class _Offer:
    """The words that fit at the end of a command line.

    Args:
        words: all words after the program's name; the last is being typed.
    """

    def __init__(self, words: list[str]) -> None:
        *self._before, self._typed = words
        self._command: Any = typer.main.get_command(app)
        self._root = self._command
        self._path: list[str] = []
        self._given: dict[str, list[str]] = {}  # values of options, by name
        self._arguments = 0
        self._wants: Any = None  # an option that still has no value
        self._only_arguments = False
        for word in self._before:
            self._read(word)

    def _read(self, word: str) -> None:
        if self._wants is not None:
            self._given.setdefault(self._wants.name, []).append(word)
            self._wants = None
        elif word == "--" and not self._only_arguments:
            self._only_arguments = True
        elif word.startswith("-") and not self._only_arguments:
            name, has_value, value = word.partition("=")
            option = self._option(name)
            if option is not None and has_value:
                self._given.setdefault(option.name, []).append(value)
            elif option is not None and not option.is_flag:
                self._wants = option
        elif word in getattr(self._command, "commands", {}):
            self._command = self._command.commands[word]
            self._path.append(word)
        else:
            self._arguments += 1

    def words(self) -> list[Word]:
        """The values that fit and begin with what was typed."""
        return [
            (word, meaning) for word, meaning in self._all() if word == FILES or word.startswith(self._typed)
        ]

    def _all(self) -> Iterable[Word]:
        name, has_value, _ = self._typed.partition("=")
        if self._wants is not None:
            return self._values(self._wants)
        if self._typed.startswith("-") and not self._only_arguments:
            option = self._option(name)
            if has_value and option is not None:
                return [
                    (value if value == FILES else f"{name}={value}", "") for value, _ in self._values(option)
                ]
            return [
                (opt, option.help or "")
                for option in self._options()
                for opt in (*option.opts, *option.secondary_opts)
                if opt[:2] == "--" and opt not in EARLIER_NAMES
            ]
        commands = getattr(self._command, "commands", None)
        if commands is not None and self._arguments:
            return []  # no such command
        if commands is not None:
            return [
                (name, first_sentence(command.help or ""))
                for name in self._command.list_commands(None)
                if not (command := commands[name]).hidden
            ]
        arguments = [param for param in self._command.params if param.param_type_name == "argument"]
        if arguments and arguments[-1].nargs < 0:  # the last argument may be repeated
            return self._values(arguments[min(self._arguments, len(arguments) - 1)])
        return self._values(arguments[self._arguments]) if self._arguments < len(arguments) else []

    def _options(self) -> list[Any]:
        """The options of the typed command, and the options of every command."""
        shared = [] if self._command is self._root else [p for p in self._root.params if p.name in SHARED]
        own = [param for param in self._command.params if param.param_type_name == "option"]
        return [param for param in (*own, *shared) if not param.hidden]

    def _option(self, name: str) -> Any:
        """The option with that name, or None."""
        return next(
            (option for option in self._options() if name in (*option.opts, *option.secondary_opts)), None
        )

    def _values(self, param: Any) -> list[Word]:
        """The values of an option or an argument, where these are cheap to find."""
        if (param.metavar or "").removesuffix("...") in _PATHS:
            return [(FILES, "")]
        if param.metavar in _CHOICES:
            return [(choice.value, "") for choice in _CHOICES[param.metavar]]
        if param.name == "agent":
            from sense_memory.config.agent_key import agent_names

            settings = self._settings()
            names = [] if settings is None else agent_names(settings.home)
            return [(name, "an agent on this machine") for name in names]
        if param.name == "relay" or self._path == ["relays", "remove"]:
            settings = self._settings(self._given.get("agent", [None])[-1])
            return [(url, "") for url in settings.relays] if settings is not None else []
        if param.name == "preset":
            from sense_memory.config.relays import presets

            return [(preset.name, preset.about) for preset in presets()]
        return []

    def _settings(self, agent: str | None = None) -> Settings | None:
        """The settings of an agent with this command line's `--env-file`; None where they are broken."""
        from sense_memory.config.settings import Settings

        env_file = self._given.get("env_file", [None])[-1]
        with suppress(SenseMemoryError, OSError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Settings.load(agent=agent, env_file=env_file)
        return None
