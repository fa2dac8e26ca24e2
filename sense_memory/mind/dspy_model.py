"""Tasks for DSPy: every task as a `dspy.Signature`, and a `LanguageModel` that answers with DSPy's modules.

A DSPy optimiser (such as GEPA) can improve the instructions of a task on examples, and the improved module can answer for
the mind. If an answer has the wrong form, DSPy asks once more for JSON. Needs the extra `dspy`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from sense_memory.errors import MissingExtra, ModelError
from sense_memory.plain_text import printed


try:
    import dspy
except ImportError:
    raise MissingExtra("dspy") from None

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sense_memory.mind.model import AnswerT, Task

_MARK = "[[ ##"  # the beginning of a field in DSPy's prompts


def signature_of(task_type: type[Task[Any]]) -> Any:
    """The `dspy.Signature` of a type of task: its instructions, its inputs, and the fields of its answer.

    If a field of the answer has the name of an input, it is called `answer_…`.
    """
    asked = {name: (info.annotation, dspy.InputField()) for name, info in task_type.model_fields.items()}
    answered = {
        field: (task_type.answer_type.model_fields[name].annotation, dspy.OutputField())
        for name, field in _answer_fields(task_type).items()
    }
    return dspy.make_signature(asked | answered, task_type.instructions, task_type.__name__)


def example_of(task: Task[AnswerT], answer: AnswerT) -> Any:
    """A task and its correct answer as a `dspy.Example`, for an optimiser."""
    known = {field: getattr(answer, name) for name, field in _answer_fields(type(task)).items()}
    return dspy.Example(**dict(task), **known).with_inputs(*type(task).model_fields)


class TaskModule(dspy.Module):  # type: ignore[misc]
    """A `dspy.Module` that answers one type of task, and that an optimiser can improve.

    Args:
        task_type: the type of task.
    """

    def __init__(self, task_type: type[Task[Any]]) -> None:
        super().__init__()
        self.predict = dspy.Predict(signature_of(task_type))

    def forward(self, **inputs: Any) -> Any:
        """The prediction for the inputs of a task."""
        return self.predict(**_data(inputs))

    async def aforward(self, **inputs: Any) -> Any:
        """As `forward`, without blocking."""
        return await self.predict.acall(**_data(inputs))


class DspyModel:
    """A `LanguageModel` over DSPy.

    Args:
        lm: a `dspy.LM`.
        modules: the modules that answer tasks, by type of task, such as an optimised `TaskModule`; a plain one by default.
    """

    def __init__(self, lm: Any, modules: Mapping[type[Task[Any]], Any] | None = None) -> None:
        self._lm, self._modules = lm, dict(modules or {})

    def __repr__(self) -> str:
        return f"<DspyModel {self.name}>"

    @property
    def name(self) -> str:
        """DSPy's name of the model."""
        return str(self._lm.model)

    async def answer(self, task: Task[AnswerT]) -> AnswerT:
        """The answer to a task.

        Raises:
            ModelError: see `LanguageModel.answer`.
        """
        kind = type(task)
        module = self._modules.setdefault(kind, TaskModule(kind))
        try:
            with dspy.context(lm=self._lm):
                found = await module.acall(**dict(task))
            answer = kind.answer_type(**{name: found[field] for name, field in _answer_fields(kind).items()})
            problem = task.problem(answer)
        except Exception:  # providers raise errors of any class, whose words may contain the prompt
            problem = "it gave no valid answer"
        if problem:
            raise ModelError(self.name, f"{problem}. Try again, or use a larger model")
        return cast("AnswerT", answer)


def _answer_fields(task_type: type[Task[Any]]) -> dict[str, str]:
    """The fields of an answer, with their names in the signature."""
    names = [name for name in task_type.answer_type.model_fields if name != "is_by_rule"]
    return {name: f"answer_{name}" if name in task_type.model_fields else name for name in names}


def _data(value: Any) -> Any:
    """Inputs whose texts cannot begin another field of the prompt."""
    if isinstance(value, str):
        return printed(value).replace(_MARK, "[ [##")
    if isinstance(value, dict):
        return {_data(name): _data(item) for name, item in value.items()}
    return tuple(map(_data, value)) if isinstance(value, tuple) else value
