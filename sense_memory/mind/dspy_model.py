"""Tasks for DSPy: every task as a `dspy.Signature`, and a `LanguageModel` that answers with DSPy's modules.

With these, an optimiser of DSPy (such as GEPA) improves the instructions of a task on examples, and the improved module
answers for the mind. DSPy repairs an answer of the wrong form itself, by asking once more for JSON. Needs the extra `dspy`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from sense_memory.errors import MissingExtra, ModelError


try:
    import dspy
except ImportError:
    raise MissingExtra("dspy") from None

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sense_memory.mind.model import AnswerT, Task

_MARK = "[[ ##"  # begins a field in the prompts of DSPy


def signature_of(task_type: type[Task[Any]]) -> Any:
    """The `dspy.Signature` of a type of task: its instructions, its inputs, and the fields of its answer.

    A field of the answer that has the name of an input is called `answer_…`.
    """
    asked = {name: (info.annotation, dspy.InputField()) for name, info in task_type.model_fields.items()}
    answered = {
        field: (task_type.answer_type.model_fields[name].annotation, dspy.OutputField())
        for name, field in _answer_fields(task_type).items()
    }
    return dspy.make_signature(asked | answered, task_type.instructions, task_type.__name__)


def example_of(task: Task[AnswerT], answer: AnswerT) -> Any:
    """A task and its right answer as a `dspy.Example`, for an optimiser."""
    known = {field: getattr(answer, name) for name, field in _answer_fields(type(task)).items()}
    return dspy.Example(**dict(task), **known).with_inputs(*type(task).model_fields)


class TaskModule(dspy.Module):  # type: ignore[misc]
    """A `dspy.Module` that answers one type of task; what optimisers improve.

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
        modules: by type of task, what answers it, such as an optimised `TaskModule`; a plain one by default.
    """

    def __init__(self, lm: Any, modules: Mapping[type[Task[Any]], Any] | None = None) -> None:
        self._lm, self._modules = lm, dict(modules or {})

    def __repr__(self) -> str:
        return f"<DspyModel {self.name}>"

    @property
    def name(self) -> str:
        """The model, as DSPy calls it."""
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
        except Exception:  # whatever a provider raises; its words may hold the prompt
            problem = "no valid answer came"
        if problem:
            raise ModelError(self.name, f"{problem}. Try again, or use a larger model")
        return cast("AnswerT", answer)


def _answer_fields(task_type: type[Task[Any]]) -> dict[str, str]:
    """The fields of an answer with their names in the signature."""
    names = [name for name in task_type.answer_type.model_fields if name != "is_by_rule"]
    return {name: f"answer_{name}" if name in task_type.model_fields else name for name in names}


def _data(value: Any) -> Any:
    """Inputs in which no text can begin another field of the prompt."""
    if isinstance(value, str):
        return value.replace(_MARK, "[ [##")
    if isinstance(value, dict):
        return {_data(name): _data(item) for name, item in value.items()}
    return tuple(map(_data, value)) if isinstance(value, tuple) else value
