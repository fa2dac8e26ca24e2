"""What a user holds: frozen, validated, with a JSON schema. Reprs show addresses, never texts."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class Memory(_Frozen):
    """A v1 flat memory: one value under one key; writing the key again replaces it.

    Attributes:
        key: 1 to 256 characters.
        value: any text; sealed together with the key it must fit 40,960 bytes.
        created_at: when this value was written, seconds since 1970.
        event_id: the event that holds it, 64 hex digits.
    """

    key: str
    value: str = Field(repr=False)
    created_at: float
    event_id: str


class JournalEntry(_Frozen):
    """One entry of the journal, a direct message to oneself; never replaced.

    Attributes:
        content: any non-empty text.
        created_at: when it was written, seconds since 1970.
        event_id: the event that holds it, 64 hex digits.
    """

    content: str = Field(repr=False)
    created_at: float
    event_id: str


class Draft(_Frozen):
    """A memory that could not be written because this clock was wrong: kept on this machine only, sealed.

    Attributes:
        number: names it to `publish_draft` and `discard_draft`.
        key: where it was to be written.
        value: its text.
        created_at: when, by the clock of then, seconds since 1970.
    """

    number: int
    key: str
    value: str = Field(repr=False)
    created_at: float
