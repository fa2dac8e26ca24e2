"""The members of a scene under each of its keys, and the signatures of members. No I/O but that of a signer.

A scene gets a new key whenever a member is removed. A key names the members who were removed with it (`removed`) and the
keys that it directly follows (`after`). Under one key members only join, so two versions of a key are united by union.

A removed member still holds the earlier keys, and can write under them with any time. So the owner names, by digest, the
entries of that member that it had seen when it removed the member (`counts`, see `announcements`). Under the keys before
the removal, no other entry of that member counts. Entries of the other members count whenever they arrive.

Guaranteed: devices that know the same keys agree on the members and on the current key, in whatever order they learned of
the keys; and a member whom any device removed is not a member under the current key, unless a device that knew of the
removal invited the member again.

Safe, because `united` is a union, so order and repetition do not matter, and `settled` depends only on the union. If there
are several keys that no key follows, `settled` chooses one that excludes every removed member, the same on every device;
if there is no such key, it asks for a new one. Two devices that make a new key at the same time give both keys the same
members, and then choose one of the two. The cost is one pass over the keys.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, TypeGuard

import orjson

from sense_memory.errors import BadKey, InvalidAddress, InvalidEvent, InvalidRelayUrl
from sense_memory.mind.log import LAST_SECOND
from sense_memory.nostr import address
from sense_memory.nostr.event import RawEvent, Unsigned, event_id, verify
from sense_memory.nostr.keys import parse_public
from sense_memory.nostr.relay_url import relay_url
from sense_memory.nostr.signer import LocalSigner


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sense_memory.nostr.signer import Signer

MAX_MEMBERS: Final = 100
MAX_RELAYS: Final = 20
MAX_RECORD_BYTES: Final = 38_000  # of a scene in its record
MAX_INVITATION_BYTES: Final = 20_000  # of a scene in an invitation, which becomes a text of 36,000 bytes
_PLAIN_BYTES: Final = 16_000  # a smaller scene lists the members for each key, as earlier versions read them
KIND_ENTRY: Final = 24_078  # ephemeral (NIP-01): a relay that is sent one does not store it
_KEY_ID_CHARS: Final = 16
_DIGEST_CHARS: Final = 40  # 160 bits: nobody makes two entries with one digest, of which one counts
UNREADABLE: Final = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    BadKey,
    InvalidAddress,
)  # see `state_of`


@dataclass(frozen=True)
class SceneKey:
    """One key of a scene, and the members under this key.

    Attributes:
        secret: 64 hex digits.
        members: the names of the members by public key, the owner included.
        removed: the public keys of the members who were removed with this key.
        after: the ids of the keys that this key directly follows.
        depth: the length of the longest chain of keys before this key.
        counts: whether the owner names which entries of the removed members count; an earlier version of this program
            does not, and then all their entries count until a device of the owner with this version names some.
    """

    secret: str = field(repr=False)
    members: Mapping[str, str]
    removed: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    depth: int = 0
    counts: bool = False

    @cached_property
    def id(self) -> str:
        """A hash that names the key without revealing it."""
        return sha256(self.secret.encode()).hexdigest()[:_KEY_ID_CHARS]


@dataclass(frozen=True, slots=True)
class SceneState:
    """A member's knowledge of a scene, as its record holds it.

    Attributes:
        id: 16 hex digits; the same for all members.
        name: the name for people.
        owner: the public key of the agent that made the scene.
        keys: all keys, the current key last.
        relays: the relays of the scene.
    """

    id: str
    name: str
    owner: str
    keys: tuple[SceneKey, ...]
    relays: tuple[str, ...]

    @property
    def members(self) -> Mapping[str, str]:
        """The names of the current members by public key."""
        return self.keys[-1].members

    def with_member(self, key: str, name: str) -> SceneState:
        """The scene with one more member under the current key."""
        current = self.keys[-1]
        return replace(self, keys=(*self.keys[:-1], replace(current, members={**current.members, key: name})))

    def with_key(self, secret: str, members: Mapping[str, str]) -> SceneState:
        """The scene with a new current key, under which only the given members remain."""
        ends = leaves(self.keys)
        gone = frozenset(one for key in ends for one in key.members if one not in members)
        depth = 1 + max(key.depth for key in ends)
        new = SceneKey(secret, members, gone, frozenset(key.id for key in ends), depth)
        return replace(self, keys=(*self.keys, new))


# ── Union and decision ──────────────────────────────────────────────────────────────────


def leaves(keys: Iterable[SceneKey]) -> list[SceneKey]:
    """The keys that no other key follows; all keys if they follow each other in a circle, as no honest device writes."""
    found = list(keys)
    followed = frozenset[str]().union(*(key.after for key in found))
    return [key for key in found if key.id not in followed] or found


def united(one: SceneState, other: SceneState) -> SceneState:
    """The union of two versions of a scene; `settled` chooses its current key."""
    keys = {key.id: key for key in one.keys}
    for key in other.keys:
        known = keys.get(key.id, key)
        keys[key.id] = replace(
            known,
            members=_joined(known.members, key.members),
            removed=known.removed | key.removed,
            after=known.after | key.after,
            counts=known.counts or key.counts,
        )
    order = sorted(keys.values(), key=lambda key: (key.depth, key.id))
    relays = tuple(dict.fromkeys((*one.relays, *other.relays)))
    return replace(one, keys=tuple(order), relays=relays)


def settled(state: SceneState, *, decides: bool) -> tuple[SceneState, Mapping[str, str] | None]:
    """The scene with the current key that every device chooses; and the members of a new key if one is needed, or None.

    Args:
        state: the scene.
        decides: whether this is a device of the owner, which knows all keys. Then members who were invited under an
            earlier key become members under the current key. Other devices wait for the owner's decision.
    """
    keys = {key.id: key for key in state.keys}
    ends = leaves(state.keys)
    members = _members(keys, ends) if decides else {}
    good = [end for end in ends if end.members.keys() <= members.keys()] if decides else ends
    if not good:
        return state, members
    chosen = min(good, key=lambda key: (-key.depth, key.id))
    current = replace(chosen, members=members) if decides else chosen
    return replace(state, keys=(*(key for key in state.keys if key.id != chosen.id), current)), None


def _members(keys: Mapping[str, SceneKey], ends: Iterable[SceneKey]) -> dict[str, str]:
    """The members: those whom no key removed, and those of a leaf whom only keys before that leaf removed."""
    gone = frozenset[str]().union(*(key.removed for key in keys.values()))
    members: dict[str, str] = {}
    for key in keys.values():
        members = _joined(members, {one: name for one, name in key.members.items() if one not in gone})
    for end in ends:
        known = _with_ancestors(keys, end.id)
        out = frozenset[str]().union(*(key.removed for key in keys.values() if key.id not in known))
        members = _joined(members, {one: name for one, name in end.members.items() if one not in out})
    return members


def _with_ancestors(keys: Mapping[str, SceneKey], key_id: str) -> set[str]:
    """The ids of a key and of all keys that it follows, directly or through others."""
    found, left = set[str](), [key_id]
    while left:
        if (ident := left.pop()) not in found:
            found.add(ident)
            left += keys[ident].after if ident in keys else ()
    return found


def waiting(state: SceneState, key: SceneKey) -> set[str]:
    """The current members who may know no later key than this one."""
    current = state.keys[-1]
    others = [other for other in state.keys if other.depth > key.depth and other.id != current.id]
    return {
        member
        for member in key.members.keys() & current.members.keys()
        if not any(member in other.members for other in others)
    }


def removed_and_unaware(state: SceneState, key: SceneKey) -> set[str]:
    """The members under a key who were removed, and may know no later key than this one."""
    later = [other for other in state.keys if other.depth > key.depth]
    gone = key.members.keys() - state.members.keys()
    return {member for member in gone if not any(member in other.members for other in later)}


def before(state: SceneState, key: SceneKey) -> set[str]:
    """The ids of the known keys before a key."""
    return _with_ancestors({one.id: one for one in state.keys}, key.id) & {
        one.id for one in state.keys if one.id != key.id
    }


def ended(
    state: SceneState, counted: Mapping[str, Mapping[str, frozenset[str]]]
) -> dict[str, dict[str, frozenset[str]]]:
    """By key, which entries still count of the members who were removed with a later key, as digests by author.

    Args:
        state: the scene.
        counted: by the id of the later key, what the owner named there, by author.
    """
    found = {key.id: dict[str, frozenset[str]]() for key in state.keys}
    for later in state.keys:
        named = counted.get(later.id, {})
        members = later.removed if later.counts else later.removed & named.keys()
        for key_id in before(state, later) if members else ():
            for member in members:
                known = found[key_id].get(member, frozenset())
                found[key_id][member] = known | named.get(member, frozenset())
    return found


def _joined(one: Mapping[str, str], other: Mapping[str, str]) -> dict[str, str]:
    """The union of two sets of members; if two members have one name, the second gets a part of its key."""
    names: dict[str, str] = {}
    for key in sorted(one.keys() | other.keys()):
        name = min(found for found in (one.get(key), other.get(key)) if found is not None)
        names[key] = name if folded(name) not in set(map(folded, names.values())) else f"{name} {key[:8]}"
    return names


def tidy(name: object) -> str:
    """A name without blanks around it, and with single blanks within; empty if the value is not a text."""
    return " ".join(name.split()) if isinstance(name, str) else ""


def folded(name: str) -> str:
    """A name for comparison: names that look the same give the same text."""
    return tidy(name).casefold()


# ── As fields ───────────────────────────────────────────────────────────────────────────


def fields_of(state: SceneState, limit: int = MAX_RECORD_BYTES) -> dict[str, Any]:
    """A scene as fields, with as many of its newest keys as fit into `limit` bytes of JSON.

    A small scene lists the members of each key; a large scene has a table of members to which its keys refer.
    """
    for start in range(len(state.keys)):
        for encoded in (_plain, _tabled):
            fields = encoded(replace(state, keys=state.keys[start:]))
            if len(orjson.dumps(fields)) <= (min(limit, _PLAIN_BYTES) if encoded is _plain else limit):
                return fields
    return _tabled(replace(state, keys=state.keys[-1:]))


def fits(state: SceneState) -> bool:
    """Whether a scene fits into its record with all its keys."""
    return len(fields_of(state)["keys"]) == len(state.keys)


def _plain(state: SceneState) -> dict[str, Any]:
    return _fields(state, [{"members": dict(key.members), **_beside(key)} for key in state.keys])


def _tabled(state: SceneState) -> dict[str, Any]:
    people = list(dict.fromkeys(item for key in state.keys for item in key.members.items()))
    places = {item: place for place, item in enumerate(people)}
    keys = [{"of": [places[item] for item in key.members.items()], **_beside(key)} for key in state.keys]
    return _fields(state, keys) | {"people": people}


def _beside(key: SceneKey) -> dict[str, Any]:
    beside = {"removed": sorted(key.removed), "after": sorted(key.after), "depth": key.depth}
    return {"secret": key.secret} | beside | ({"counts": True} if key.counts else {})


def _fields(state: SceneState, keys: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": state.id,
        "name": state.name,
        "owner": state.owner,
        "keys": keys,
        "relays": list(state.relays),
    }


def state_of(fields: Mapping[str, Any]) -> SceneState:
    """A scene from its fields.

    Raises:
        ValueError, TypeError, KeyError, AttributeError, IndexError, BadKey, InvalidAddress: the fields are not a scene.
    """
    keys: list[SceneKey] = []
    for row in fields["keys"]:
        LocalSigner.from_hex(row["secret"]).close()  # raises BadKey
        members = (
            row["members"]
            if "members" in row
            else dict(map(tuple, (fields["people"][place] for place in row["of"])))
        )
        if not are_members(members):
            raise ValueError
        known, depth = (key.id for key in keys[-1:]), row.get("depth")
        # Earlier versions of this program do not write `removed`: it is the difference to the key before.
        gone = (one for one in (keys[-1].members if keys else ()) if one not in members)
        after, removed = _texts(row.get("after"), known), _texts(row.get("removed"), gone)
        depth = depth if type(depth) is int else len(keys)
        keys.append(SceneKey(row["secret"], members, removed, after, depth, counts=row.get("counts") is True))
    ident, name, owner = fields["id"], fields["name"], fields["owner"]
    address.mind_path("scene", ident)
    if not keys or not all(isinstance(text, str) for text in (ident, name, owner)):
        raise ValueError
    return SceneState(ident, name, parse_public(owner), tuple(keys), _relays(fields["relays"]))


def _relays(found: object) -> tuple[str, ...]:
    """The relays of a scene. A text that is not the URL of a relay is left out, because it would stop every sync."""
    urls = dict[str, None]()
    for url in found if isinstance(found, list) else ():
        with suppress(InvalidRelayUrl):
            urls[relay_url(url, allow_plain=True)] = None
    return tuple(urls)[:MAX_RELAYS]


def _texts(found: object, otherwise: Iterable[str]) -> frozenset[str]:
    return frozenset(map(str, found)) if isinstance(found, list) else frozenset(otherwise)


def are_members(members: object) -> TypeGuard[Mapping[str, str]]:
    """Whether a value maps public keys to names that differ from each other."""
    return (
        isinstance(members, dict)
        and 0 < len(members) <= MAX_MEMBERS
        and all(isinstance(key, str) and isinstance(name, str) for key, name in members.items())
        and len(set(members.values())) == len(members)
    )


# ── Signatures ──────────────────────────────────────────────────────────────────────────


class EntrySigner:
    """Signs entries of a scene as one agent, and tells genuine entries from forged ones.

    Args:
        signer: the agent's signer.
        scene: the scene's id.
        owner: the public key of the scene's owner.
        members: the names of the members by public key.
        ended: of authors who were removed, the digests of the entries that count; see `membership.ended`.
    """

    def __init__(
        self,
        signer: Signer,
        scene: str,
        owner: str,
        members: Mapping[str, str],
        ended: Mapping[str, frozenset[str]],
    ) -> None:
        self._signer, self._scene, self._owner = signer, scene, owner
        self._members, self._ended = members, ended
        self._names = frozenset(map(folded, members.values()))

    def judges_as(self, other: EntrySigner) -> bool:
        """Whether another signer judges every entry alike."""
        return (self._members, self._ended) == (other._members, other._ended)

    async def signature(self, row: list[Any]) -> list[str]:
        """The author's public key and signature, to append to a row."""
        event = await self._signer.sign(self._unsigned(row))
        return [event.pubkey, event.sig]

    def is_genuine(self, row: list[Any]) -> bool:
        """Whether a member signed a row, and may speak under its name."""
        return self.is_signed(row) and self.may_speak(row)

    def is_signed(self, row: list[Any]) -> bool:
        """Whether a member signed a row, under any name; False for a row in another form than this program writes."""
        if len(row) != 9 or row[7] not in self._members or abs(row[1]) > LAST_SECOND:
            return False
        author, sig = row[7:]
        try:
            unsigned = self._unsigned(row[:7])
            ident = event_id(author, unsigned.created_at, unsigned.kind, unsigned.tags, unsigned.content)
            claim = {"id": ident, "pubkey": author, "sig": sig, "created_at": unsigned.created_at}
            claim |= {"kind": unsigned.kind, "tags": unsigned.tags, "content": unsigned.content}
            verify(RawEvent.parse(claim))
        except (InvalidEvent, orjson.JSONEncodeError):  # such as a payload that is nested too deeply
            return False
        return True

    def may_speak(self, row: Sequence[Any]) -> bool:
        """Whether the author of a row may speak under its name, and was not removed before the owner saw the row."""
        actor, author = row[3], row[7]
        if author in self._ended and digest_of(row) not in self._ended[author]:
            return False
        name = self._members.get(author)
        return name is not None and (
            name == actor or (author == self._owner and folded(actor) not in self._names)
        )

    def _unsigned(self, row: Sequence[Any]) -> Unsigned:
        digest = _digest(row)
        return Unsigned(max(0, int(row[1])), KIND_ENTRY, (("scene", self._scene),), digest)


def digest_of(row: Sequence[Any]) -> str:
    """The digest by which the owner names a signed row."""
    return _digest(row[:7])[:_DIGEST_CHARS]


def _digest(row: Sequence[Any]) -> str:
    return sha256(orjson.dumps(row)).hexdigest()
