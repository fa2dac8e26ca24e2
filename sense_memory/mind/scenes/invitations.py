"""Invitations to a scene: signed by the owner, and encrypted to one member."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Final

import orjson

from sense_memory.errors import BadPayload, InvalidEvent, InvalidInput
from sense_memory.mind.scenes.membership import MAX_INVITATION_BYTES, UNREADABLE, fields_of, state_of
from sense_memory.nostr.event import RawEvent, Unsigned, verify


if TYPE_CHECKING:
    from sense_memory.mind.scenes.membership import SceneState
    from sense_memory.nostr.signer import Signer

KIND_INVITATION: Final = 24_079
_INVITATION: Final = "sense-scene:"


async def sealed_invitation(signer: Signer, to: str, state: SceneState) -> str:
    """An invitation as text: signed by the inviter, and encrypted to the member."""
    content = await signer.encrypt(orjson.dumps(fields_of(state, MAX_INVITATION_BYTES)), to)
    event = await signer.sign(Unsigned(0, KIND_INVITATION, (("p", to),), content))
    return _INVITATION + urlsafe_b64encode(event.body()).decode()


async def opened_invitation(signer: Signer, text: str) -> SceneState:
    """The scene in an invitation.

    Raises:
        InvalidInput: the text is not an invitation, was altered, or is for another key.
    """
    problem = "this is not an invitation to a scene for this key"
    if not isinstance(text, str) or not text.strip().startswith(_INVITATION):
        raise InvalidInput(problem)
    try:
        body = urlsafe_b64decode(text.strip().removeprefix(_INVITATION))
        event = verify(RawEvent.loads(body))
        fields = orjson.loads(await signer.decrypt(event.content, event.pubkey))
        state = state_of(fields)
    except (*UNREADABLE, InvalidEvent, BadPayload):
        raise InvalidInput(problem) from None
    is_for_me = signer.public_key in state.members
    if event.kind != KIND_INVITATION or event.pubkey != state.owner or not is_for_me:
        raise InvalidInput(problem)
    return state
