"""Commands as operations: each is an async function of an open store that returns what it found or did.

`operation` makes a command of such a function. Its parameters after the store are the arguments and options of the
command, its docstring is the help text. Everything else is the same for all of them and is here: `--json`, `--wait`,
opening the store, time for relays, and printing. How a result looks on a terminal or in a pipe stands beside the
function, `as_table`, `as_sentence`, `as_text`, or in a function of its own.
"""

from __future__ import annotations

import inspect
import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args, get_type_hints

import typer

from sense_memory.interfaces.cli import delivery, inputs
from sense_memory.interfaces.cli.help_pages import ends
from sense_memory.interfaces.cli.inputs import WAIT_SECONDS, AcksOption, JsonOption, WaitOption
from sense_memory.interfaces.cli.invocation import note, of, program
from sense_memory.interfaces.cli.output import show_rows
from sense_memory.interfaces.shapes import shape_of
from sense_memory.interfaces.text import as_json, one_line, safe


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from sense_memory.interfaces.cli.groups import Program
    from sense_memory.interfaces.cli.invocation import Invocation
    from sense_memory.store import MemoryStore

    Shows = Callable[[Any, Any], None]  # prints a result; the second argument has the command's options

_Function = TypeVar("_Function", bound="Callable[..., Awaitable[Any]]")


@dataclass(frozen=True, slots=True)
class FromStdin:
    """Beside the annotation of a text: where the text is missing or `-`, it is all of stdin, read before the store is open.

    Attributes:
        what: a word for the text, for errors.
        is_lines: whether the line break at the end of stdin is left out.
        unless: other parameters; where one of them was given, a missing text stays missing.
    """

    what: str
    is_lines: bool = True
    unless: Sequence[str] = ()

    def read(self, typed: str | None, given: Any) -> str | None:
        """The text, among the values of the other parameters."""
        if typed is None and any(getattr(given, name) is not None for name in self.unless):
            return None
        return inputs.text_or_stdin(typed, self.what, is_lines=self.is_lines)


@dataclass(frozen=True, slots=True)
class Write:
    """The result of an operation whose events are sent and followed to each relay.

    Attributes:
        ids: of the events that were written.
        done: what was done, in a few words.
        data: for JSON, without what relays answered.
        is_deletion: whether the events ask relays to delete something.
        tells: prints what else a person should know, after the outcome.
        notes: lines on stderr, for programs too.
    """

    ids: Sequence[str]
    done: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    is_deletion: bool = False
    tells: Callable[[], None] = lambda: None
    notes: Sequence[str] = ()

    def report(self, invocation: Invocation, written: delivery.Written, require_acks: int) -> None:
        """Print it with what relays answered; exit code 3 if fewer of them have it than were asked for."""
        try:
            self.outcome(invocation, written, require_acks)
        finally:
            if not invocation.as_json:
                self.tells()
            for line in self.notes:
                note(line)

    def outcome(self, invocation: Invocation, written: delivery.Written, require_acks: int) -> None:
        """Print what was done, and which relays have it."""
        report = delivery.report_deletion if self.is_deletion else delivery.report_write
        report(invocation, written, self.done, dict(self.data), require_acks)


def deletion(ident: str, done: str, **data: Any) -> Write:
    """The result of an operation that deleted something here.

    Args:
        ident: of the deletion request.
        done: what was deleted, in a few words.
        data: for JSON.
    """
    return Write([ident], done, data, is_deletion=True)


def operation(
    group: Program,
    name: str,
    *examples: str,
    codes: Mapping[int, str] | None = None,
    panel: str | None = None,
    hidden: bool = False,
    **how: Any,
) -> Callable[[_Function], _Function]:
    """Make a command of an async function of an open store.

    Args:
        group: the command's group.
        name: of the command; empty for what the group does without one.
        examples: for its help page.
        codes: exit codes with a meaning of their own, for its help page.
        panel: the heading under which the group's help page lists it.
        hidden: whether the help page leaves it out.
        how: how it is run and shown: the attributes of `_Run`.
    """

    def register(function: _Function) -> _Function:
        command = _command(function, _Run(function, **how))
        if name:
            epilog = ends(*examples, codes=codes) if examples else None  # hidden commands have none
            group.command(name, epilog=epilog, rich_help_panel=panel, hidden=hidden)(command)
        else:
            group.callback(invoke_without_command=True)(command)
        return function

    return register


@dataclass(frozen=True, slots=True)
class _Run:
    """How a command is run and shown.

    Attributes:
        function: what it does with an open store.
        shows: prints the result; of a `Write`, what comes before its outcome.
        json: the result for `--json`, where it is not the shape of the result; of a list, of each item.
        writes: whether relays get `--wait` seconds for what was written. A function that needs the seconds too declares
            `wait` itself.
        creates: whether a missing ledger is made; by default where the command writes. May depend on the options.
        with_acks: whether a `Write` has `--require-acks`.
        refuses: from the options, what is wrong with them together; empty if nothing. Called before the store is open.
        ends_with: from the result, what a person and a program are told on stderr after it, and the exit code.
    """

    function: Callable[..., Awaitable[Any]]
    shows: Shows | None = None
    json: Callable[[Any], Any] = shape_of
    writes: bool = False
    creates: bool | Callable[[Any], bool] | None = None
    with_acks: bool = False
    refuses: Callable[[Any], str] = lambda _: ""
    ends_with: Callable[[Any], int] = lambda _: 0

    def __call__(self, context: typer.Context, given: Any, values: Mapping[str, Any]) -> None:
        """Run it.

        Args:
            context: of the command.
            given: all options as they were typed, `wait` and `require_acks` too.
            values: the arguments of the function.
        """
        makes = self.writes if self.creates is None else self.creates
        invocation = of(context)
        found, written = invocation.run(
            lambda store: self._work(store, given, values), creates=makes(given) if callable(makes) else makes
        )
        if self.shows is not None and not invocation.as_json:
            self.shows(found, given)
        if written is not None:
            found.report(invocation, written, given.require_acks if self.with_acks else 0)
        elif invocation.as_json:
            each = [self.json(one) for one in found] if isinstance(found, list) else self.json(found)
            typer.echo(as_json(each))
        if code := self.ends_with(found):
            raise typer.Exit(code)

    async def _work(
        self, store: MemoryStore, given: Any, values: Mapping[str, Any]
    ) -> tuple[Any, delivery.Written | None]:
        found = await self.function(store, **values)
        if isinstance(found, Write):
            return found, await delivery.send(store, found.ids, given.wait)
        if self.writes:
            await delivery.deliver(store, given.wait)
        return found, None


def _command(function: Callable[..., Any], run: _Run) -> Any:
    """A function whose parameters typer reads: those of the operation, and the options that belong to all."""
    own = _parameters(function)
    texts = {one.name: text for one in own if (text := _from_stdin(one)) is not None}

    def command(context: typer.Context, **values: Any) -> None:
        if context.invoked_subcommand is not None:
            return
        given = SimpleNamespace(**values)
        if run.with_acks:
            delivery.refuse_contradiction(context, given.wait, given.require_acks)
        if problem := run.refuses(given):
            context.fail(problem)
        mine = {one.name: values[one.name] for one in own}
        run(context, given, mine | {name: text.read(mine[name], given) for name, text in texts.items()})

    wanted = ((_WAIT, run.writes), (_ACKS, run.with_acks), (_JSON, True))
    names = {one.name for one in own}
    shared = [one for one, is_wanted in wanted if is_wanted and one.name not in names]
    made: Any = command
    made.__name__, made.__doc__ = function.__name__, function.__doc__
    made.__signature__ = inspect.Signature([_CONTEXT, *own, *shared])
    made.__annotations__ = {one.name: one.annotation for one in (_CONTEXT, *own, *shared)}
    return made


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a function after the store, with their annotations as objects."""
    _, *own = inspect.signature(function).parameters.values()
    named = SimpleNamespace(__annotations__={one.name: one.annotation for one in own})
    hints = get_type_hints(named, function.__globals__, include_extras=True)
    return [one.replace(annotation=hints[one.name]) for one in own]


def _from_stdin(parameter: inspect.Parameter) -> FromStdin | None:
    return next((one for one in get_args(parameter.annotation) if isinstance(one, FromStdin)), None)


def _added(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, annotation=annotation, default=default)


_CONTEXT: Final = inspect.Parameter(
    "context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
)
_WAIT: Final = _added("wait", WaitOption, WAIT_SECONDS)
_ACKS: Final = _added("require_acks", AcksOption, 0)
_JSON: Final = _added("_json", JsonOption, default=False)


# ── How results are shown ───────────────────────────────────────────────────────────────


def as_table(
    headers: Sequence[str],
    row: Callable[[Any, float], Sequence[str]],
    *,
    none: str,
    numbers: Sequence[str] = (),
) -> Shows:
    """A list as a table on a terminal, or in a pipe as one line for each item, with tabs.

    Args:
        headers: of the table.
        row: the cells of an item, at a time in seconds since 1970.
        none: said on stderr if there are no items. `{program}` in it is how a command begins, and the name of an argument
            or option its value.
        numbers: the columns that a terminal aligns to the right.
    """

    def show(found: Sequence[Any], given: Any) -> None:
        now = time.time()
        said = "" if found else none.format(program=program(), **vars(given))
        show_rows(headers, [row(one, now) for one in found], none=said, numbers=numbers)

    return show


def as_sentence(say: Callable[[Any], str]) -> Shows:
    """One line that says what was found or done."""
    return lambda found, _: typer.echo(one_line(say(found)))


def as_text(read: Callable[[Any], str]) -> Shows:
    """A text of several lines, escaped for a terminal."""
    return lambda found, _: typer.echo(safe(read(found)))
