"""What a search of the palace gives: memories that say why they were found."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from sense_memory.models import PersonaMemory


class Match(BaseModel):
    """One word, phrase or beginning that was found in one field; or the meaning of all of it.

    Attributes:
        field: "key", "themes" or "value"; "meaning" for what an embedder finds close.
        term: as the query has it, in lower case and without accents; "photo*" for a beginning; "meaning" there.
        contribution: what it adds to the score; all contributions of a hit add up to it.
    """

    model_config = ConfigDict(frozen=True)

    field: str
    term: str = Field(repr=False)
    contribution: Annotated[float, Field(ge=0)]

    def __str__(self) -> str:
        return "close in meaning" if self.field == "meaning" else f"{self.term} in {self.field}"


class Why(BaseModel):
    """Why a memory was found.

    Attributes:
        matches: the largest contribution first.
        relevance: how relevant the memory was at the time of the search.
        text: the same in a sentence.
    """

    model_config = ConfigDict(frozen=True)

    matches: tuple[Match, ...]
    relevance: float
    text: str = Field(repr=False)


class PersonaHit(PersonaMemory):
    """A persona memory that was found by a search.

    Attributes:
        score: higher is better; comparable within one search only.
        why: what the score is made of.
    """

    score: float
    why: Why

    @classmethod
    def of(cls, memory: PersonaMemory, score: float, why: Why) -> PersonaHit:
        """A memory with its score and reasons; nothing is validated again."""
        fields = {name: getattr(memory, name) for name in type(memory).model_fields}
        fields["current_relevance"] = why.relevance
        return cls.model_construct(**fields, score=score, why=why)
