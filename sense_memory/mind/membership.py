"""Who is a member of a scene, under which key; and how what two devices of its owner decided becomes one decision. Pure.

A scene has a key for each time that somebody was removed. Each key says who was removed with it (`removed`) and which keys
the remover knew (`after`). Under one key members only join, so two versions of it unite by union.

Guaranteed: devices that know the same keys agree on who is a member and which key is current, in whatever order they heard
of them; and who was removed by any device that did not know of a later invitation is no member under the current key.

Why it is safe: `united` is a union, so order and repetition do not matter, and `settled` looks only at the union. Of several
keys that nobody has followed on, it takes one that excludes everybody removed elsewhere, the same on every device; only if
there is none it asks for a new key. Two devices that draw one at the same time draw the same members, and the next look
takes one of the two.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, TypeGuard

import orjson

from sense_memory.nostr import address
from sense_memory.nostr.keys import parse_public
from sense_memory.nostr.signer import LocalSigner


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAX_MEMBERS: Final = 100
MAX_RECORD_BYTES: Final = 38_000  # of a scene in its record
MAX_INVITATION_BYTES: Final = 20_000  # of a scene in an invitation, which becomes text of 36,000 bytes
_PLAIN_BYTES: Final = (
    16_000  # up to which members are spelled out for each key, as earlier programs read them
)
_KEY_ID_CHARS: Final = 16


@dataclass(frozen=True)
class SceneKey:
    """One key of a scene, and who is a member under it.

    Attributes:
        secret: 64 hex digits.
        members: the name of each member by public key, the owner's included.
        removed: public keys of those who were removed with this key.
        after: ids of the keys that it directly follows on.
        depth: how many keys came before it, one after the other.
    """

    secret: str = field(repr=False)
    members: Mapping[str, str]
    removed: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    depth: int = 0

    @cached_property
    def id(self) -> str:
        """Names the key, and tells nothing of it."""
        return sha256(self.secret.encode()).hexdigest()[:_KEY_ID_CHARS]


@dataclass(frozen=True, slots=True)
class SceneState:
    """What a member knows of a scene, as its record holds it.

    Attributes:
        id: 16 hex digits; the same for all members.
        name: for people.
        owner: public key of who made the scene.
        keys: all keys, the current one last.
        relays: where the scene lies.
    """

    id: str
    name: str
    owner: str
    keys: tuple[SceneKey, ...]
    relays: tuple[str, ...]

    @property
    def members(self) -> Mapping[str, str]:
        """The name of each present member by public key."""
        return self.keys[-1].members

    def with_member(self, key: str, name: str) -> SceneState:
        """The scene with one more member under the current key."""
        current = self.keys[-1]
        return replace(self, keys=(*self.keys[:-1], replace(current, members={**current.members, key: name})))

    def with_key(self, secret: str, members: Mapping[str, str]) -> SceneState:
        """The scene with a new current key, under which only these are members."""
        ends = leaves(self.keys)
        gone = frozenset(one for key in ends for one in key.members if one not in members)
        depth = 1 + max(key.depth for key in ends)
        new = SceneKey(secret, members, gone, frozenset(key.id for key in ends), depth)
        return replace(self, keys=(*self.keys, new))


# ── Two devices ─────────────────────────────────────────────────────────────────────────


def leaves(keys: Iterable[SceneKey]) -> list[SceneKey]:
    """The keys that no other key follows on."""
    found = list(keys)
    followed = frozenset[str]().union(*(key.after for key in found))
    return [key for key in found if key.id not in followed]


def united(one: SceneState, other: SceneState) -> SceneState:
    """What two versions of a scene say together; `settled` says which key is current then."""
    keys = {key.id: key for key in one.keys}
    for key in other.keys:
        known = keys.get(key.id, key)
        keys[key.id] = replace(
            known,
            members=_joined(known.members, key.members),
            removed=known.removed | key.removed,
            after=known.after | key.after,
        )
    order = sorted(keys.values(), key=lambda key: (key.depth, key.id))
    relays = tuple(dict.fromkeys((*one.relays, *other.relays)))
    return replace(one, keys=tuple(order), relays=relays)


def settled(state: SceneState, *, decides: bool) -> tuple[SceneState, Mapping[str, str] | None]:
    """The scene with the key that every device takes; and the members of the new key that it needs, or None.

    Args:
        state: the scene.
        decides: whether this is a device of the owner, which knows all keys. Then whoever was invited under a key that is
            not current any more becomes a member under the current one; others take the owner's word.
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
    """Who is a member: whom nobody removed, and whom nobody removed that did not know of the key that has them."""
    gone = frozenset[str]().union(*(key.removed for key in keys.values()))
    members: dict[str, str] = {}
    for key in keys.values():
        members = _joined(members, {one: name for one, name in key.members.items() if one not in gone})
    for end in ends:
        known = _line(keys, end.id)
        out = frozenset[str]().union(*(key.removed for key in keys.values() if key.id not in known))
        members = _joined(members, {one: name for one, name in end.members.items() if one not in out})
    return members


def _line(keys: Mapping[str, SceneKey], key_id: str) -> set[str]:
    """The ids of a key and of all keys that it follows on."""
    found, left = set[str](), [key_id]
    while left:
        if (ident := left.pop()) not in found:
            found.add(ident)
            left += keys[ident].after if ident in keys else ()
    return found


def waiting(state: SceneState, key: SceneKey) -> set[str]:
    """Members of the present key who may know no later key than this one."""
    current = state.keys[-1]
    others = [other for other in state.keys if other.depth > key.depth and other.id != current.id]
    return {
        member
        for member in key.members.keys() & current.members.keys()
        if not any(member in other.members for other in others)
    }


def _joined(one: Mapping[str, str], other: Mapping[str, str]) -> dict[str, str]:
    """The members of both; of two that have one name, the second is told apart by its key."""
    names: dict[str, str] = {}
    for key in sorted(one.keys() | other.keys()):
        name = min(found for found in (one.get(key), other.get(key)) if found is not None)
        names[key] = name if folded(name) not in set(map(folded, names.values())) else f"{name} {key[:8]}"
    return names


def tidy(name: object) -> str:
    """A name as members have it: without blanks around it, and single ones within; empty if it is no text."""
    return " ".join(name.split()) if isinstance(name, str) else ""


def folded(name: str) -> str:
    """What two names that look the same have in common."""
    return tidy(name).casefold()


# ── As fields ───────────────────────────────────────────────────────────────────────────


def fields_of(state: SceneState, limit: int = MAX_RECORD_BYTES) -> dict[str, Any]:
    """A scene as fields, with as many of its newest keys as fit into `limit` bytes of JSON.

    A small scene spells out the members of each key; a large one has a table of them.
    """
    for start in range(len(state.keys)):
        for encoded in (_plain, _tabled):
            fields = encoded(replace(state, keys=state.keys[start:]))
            if len(orjson.dumps(fields)) <= (min(limit, _PLAIN_BYTES) if encoded is _plain else limit):
                return fields
    return _tabled(replace(state, keys=state.keys[-1:]))


def fits(state: SceneState) -> bool:
    """Whether a scene with all its keys fits into its record."""
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
    return {"secret": key.secret} | beside


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
        ValueError, TypeError, KeyError, AttributeError, IndexError, BadKey, InvalidAddress: they are no scene's.
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
        gone = (
            one for one in (keys[-1].members if keys else ()) if one not in members
        )  # as earlier programs say it
        after, removed = _texts(row.get("after"), known), _texts(row.get("removed"), gone)
        keys.append(
            SceneKey(row["secret"], members, removed, after, depth if type(depth) is int else len(keys))
        )
    ident, name, owner = fields["id"], fields["name"], fields["owner"]
    address.mind_path("scene", ident)
    if not keys or not all(isinstance(text, str) for text in (ident, name, owner)):
        raise ValueError
    return SceneState(ident, name, parse_public(owner), tuple(keys), tuple(map(str, fields["relays"])))


def _texts(found: object, otherwise: Iterable[str]) -> frozenset[str]:
    return frozenset(map(str, found)) if isinstance(found, list) else frozenset(otherwise)


def are_members(members: object) -> TypeGuard[Mapping[str, str]]:
    """Whether a value maps public keys to names, each of its own."""
    return (
        isinstance(members, dict)
        and 0 < len(members) <= MAX_MEMBERS
        and all(isinstance(key, str) and isinstance(name, str) for key, name in members.items())
        and len(set(members.values())) == len(members)
    )
