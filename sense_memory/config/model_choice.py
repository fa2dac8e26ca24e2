"""Which language model a setting names: none, or one behind a service that speaks OpenAI's chat API."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from sense_memory.errors import InvalidInput
from sense_memory.search.embedders.choice import Choice


KEY_VARIABLE: Final = "SENSE_MEMORY_MODEL_KEY"
_ADVICE: Final = (
    "name a language model as none, ollama:MODEL or openai:MODEL@https://HOST/v1; http:// is allowed for this machine "
    f"only, and a key belongs in {KEY_VARIABLE}"
)


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The language model that a setting names.

    Attributes:
        model: the name of the model at the service.
        url: the URL of the service, up to `/v1`.
        key: sent as a bearer token; None sends none.

    Raises:
        InvalidInput: the key is malformed; the error repeats no part of it.
    """

    model: str
    url: str
    key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        key = self.key
        if key is not None and (
            not key or not key.isascii() or not key.isprintable() or " " in key or "nsec1" in key.lower()
        ):
            raise InvalidInput(f"the value of {KEY_VARIABLE} is not a valid key; check it")

    @classmethod
    def parse(cls, text: str, key: str | None = None) -> ModelChoice | None:
        """Parse a setting; None for "none". Calls no service.

        Args:
            text: none, openai:MODEL@URL, ollama:MODEL or ollama:MODEL@URL.
            key: the key of the service.

        Raises:
            InvalidInput: none of these; the error repeats no part of the text, which may contain a key.
        """
        text = text.strip()
        kind = text.partition(":")[0].lower()
        if text.lower() == "none":
            return None
        if kind not in {"openai", "ollama"}:
            raise InvalidInput(_ADVICE)
        try:
            found = Choice.parse(text.removesuffix("/").removesuffix("/chat/completions"))
        except InvalidInput:
            raise InvalidInput(_ADVICE) from None
        has_path = "/" in found.url.partition("://")[2]
        return cls(found.model, found.url if has_path else f"{found.url}/v1", key)
