"""Which memories belong into every prompt: instructions, preferences about the work, and allergies. Pure.

"Answer in German", "Never force-push", "Noor prefers bullet points": such a memory is about every answer, so a question
does not name it, and a prompt takes it by its kind. The kind is told by its place (a domain, facet or theme such as
`preferences`), by a text that commands or forbids, or by somebody who wants or dislikes something of how the agent works
(answers, code, mails). A person's taste ("Lisa prefers oat milk") is a fact like others, and a procedure is an
instruction for one task only.

Superseded memories, and edits that lost, are none of them. Safe to be wrong in both directions: what is missed is still
found by a question, and what is taken wrongly costs a line. Sentences of a conversation have a rule of their own
(`mind.prompts.standing`), since "Write a mail" commands once there and is a rule here. Texts are understood in English,
and where they begin with a command in German, French or Spanish. `tests/palace/test_standing.py` says how many texts
are told apart that the patterns were not made with.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from sense_memory.palace.sources import is_found_by_tool


if TYPE_CHECKING:
    from sense_memory.models import PersonaMemory


_READ_CHARS: Final = 300  # of a text
_PLACES_TEXT: Final = """
preference preferences prefs instruction instructions rule rules style styleguide convention conventions standing policy
policies guideline guidelines constraint constraints allergy allergies
"""
_PLACES: Final = frozenset(_PLACES_TEXT.split())
_TASKS: Final = frozenset({"procedures", "procedure", "skills", "howto"})  # for one task only
_OPINIONS: Final = frozenset({"beliefs", "emotions"})

_WORK: Final = (
    r"(?:answers?|repl(?:y|ies)|responses?|respon(?:d|ses?)|messages?|summar(?:y|ies)|reports?|explanations?|code|commits?|diffs?|tests?"
    r"|comments?|spelling|language|tone|format|lists?|bullet points?|tables?|emojis?|jokes?|greetings?|units?|metric|celsius"
    r"|fahrenheit|clock|time zone|sources?|quotes?|slides?|prices|dates|names?|surnames?|calls?|meetings?|e-?mails?|mails?|reviews?"
    r"|documentation|docs|pull requests?|branch(?:es)?|dependenc(?:y|ies)|tabs|spaces|asked|reminded|called|addressed)"
)
_COMMAND: Final = re.compile(
    r"^(?:please |from now on,? |whenever |if .{3,60}?, |when .{3,60}?, (?:i |we )?|(?:\w+ )?rule: |in \w+, )?"
    r"(?:always|never|don'?t|do not|avoid|ask before|ask first|call me|address me|answer|reply|respond|skip|stick to|keep the"
    r"|keep (?:answers|replies|it)|write|use (?!(?:git|make|npm|the script))|give (?:all|me|prices)|show|say|start with|prefer|remind me"
    r"|remember (?:to|that)|include|make|no (?:emojis?|jokes?|meetings?|calls?|comments?|tables?|greetings?|apolog\w+|more))\b",
    re.IGNORECASE,
)
_ELSEWHERE: Final = re.compile(
    r"^(?:bitte|immer|nie|niemals|siempre|nunca|toujours|jamais|(?:antworte|schreibe?|responde|r[ée]ponds) (?:immer|nur|siempre"
    r"|toujours|en|auf))\b",
    re.IGNORECASE,
)
_ALLERGY: Final = re.compile(
    r"\b(?:allergic to|allerg(?:y|ies) to|allergisch|al[ée]rgic[oa]|allergique)\b", re.IGNORECASE
)
_HEALTH: Final = re.compile(
    r"\b(?:allerg(?:ic|y|ies|isch|ique)|al[ée]rgic[oa]|vegan\w*|végan\w*|vegetari\w+|végétarien\w*|coeliac|celiac|celíac[oa]|cœliaque|zöliakie"
    r"|diab[eé]t\w+|(?:lactose|laktose|gluten)[- ]?intoleran\w*|intoléran\w+|epilep\w+)\b",
    re.IGNORECASE,
)
_BOUND: Final = re.compile(
    r"\b(?:please(?! note)|from now on|whenever .{3,60} (?:remember|say|mention))\b|\b(?:i|we) (?:\w+ ){0,6}?(?:never|always) (?:\w+ )?"
    r"(?:send|say|repeat|ask|answer|name|tell|show|delete|write|call|quote|share|reply)\b",
    re.IGNORECASE,
)
_WANTS: Final = re.compile(
    r"\b(?:prefers?|wants?|likes?|hates?|dislikes?|insists? on|expects?|asks? for|(?:does not|doesn'?t|do not|don'?t) (?:want|like))\b"
    rf"(?P<what>[^.;]*\b{_WORK}\b)",
    re.IGNORECASE,
)
_MUST_NOT: Final = re.compile(r"^I (?:must|may) not\b")
_MUST: Final = re.compile(
    rf"^(?:\w+ ){{0,2}}?{_WORK}\b[^.;]{{0,40}}\b(?:must|should|always|never|have to|has to|in ISO)\b",
    re.IGNORECASE,
)

# Without one of these, the pattern cannot match, and to look for them costs a tenth of the pattern.
_BOUND_PARTS: Final = ("please", "from now on", "whenever", "never", "always")
_WANTS_PARTS: Final = ("prefer", "want", "like", "hate", "insist", "expect", "ask")


def has_standing_kind(memory: PersonaMemory) -> bool:
    """Whether the domain, the facet or a theme of a memory says so; without a look at its text."""
    return _is_place(memory.domain) or _is_place(memory.facet) or any(map(_is_place, memory.themes))


@lru_cache(4_096)  # a palace has far fewer domains, facets and themes than memories
def _is_place(name: str) -> bool:
    return name.lower() in _PLACES


def is_about_health(text: str) -> bool:
    """Whether a text names an allergy, a diet or an illness: where little fits, such a text goes before a wish.

    >>> is_about_health("Ines is allergic to walnuts."), is_about_health("Lisa wants short answers.")
    (True, False)
    """
    return bool(_HEALTH.search(text[:_READ_CHARS]))


def is_standing(memory: PersonaMemory) -> bool:
    """Whether a memory belongs into every prompt: by its place, or by its text; what a tool found does not."""
    holds = memory.superseded_by is None and memory.conflict_of is None
    if not holds or is_found_by_tool(memory.source):
        return False
    return has_standing_kind(memory) or says_so(memory)


def says_so(memory: PersonaMemory) -> bool:
    """Whether the text of a memory says that it holds for every answer, whatever its place."""
    text = memory.value[:_READ_CHARS].strip()
    if _ALLERGY.search(text):
        return True
    places = {memory.domain.lower(), memory.facet.lower(), *map(str.lower, memory.themes)}
    if not _OPINIONS.isdisjoint(places):
        return False
    folded = text.lower()
    if _ELSEWHERE.match(text) or (_has(folded, _BOUND_PARTS) and _BOUND.search(text)):
        return True
    if not _TASKS.isdisjoint(places):
        return False
    if _COMMAND.match(text) or _MUST.match(text) or _MUST_NOT.match(text):
        return True
    return _has(folded, _WANTS_PARTS) and _WANTS.search(text) is not None


def _has(folded: str, parts: tuple[str, ...]) -> bool:
    return any(part in folded for part in parts)
