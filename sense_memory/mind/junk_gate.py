"""The junk gate: what of a user's message may be proposed as a memory of the palace. Pure: no clock, no I/O.

Everything that is said is kept in the log. Of that, few sentences are worth a memory: standing instructions, preferences,
facts about people and projects, decisions, and what the user asks to have remembered. The gate lets only these pass, each
from one sentence of the user's own words, and closes in doubt: requests for now, questions, small talk, pasted text, code
and output of programs, what may be a secret, and sentences that mean nothing without the conversation ("use that one") give no proposal. Rules
read English; of other languages, only standing instructions pass.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sense_memory.mind.private_identifiers import ACCESS_KEY
from sense_memory.mind.prompts.standing import holds_for_all
from sense_memory.mind.sentence_kinds import SentenceKind, kind_of, split_sentences
from sense_memory.mind.sentence_values import MONTH
from sense_memory.palace.extraction import KIN, Proposal, proposals, slug, takes_back, topic


if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_SENTENCE_CHARS: Final = 240
MAX_OWN_CHARS: Final = 2_000  # of one's own words in a message; a longer one was pasted
MAX_PARAGRAPHS: Final = 8
_MAX_LINE_CHARS: Final = 600
_CLOSE: Final = rf"{KIN}|manager|colleague|co-worker|flatmate|roommate|doctor|landlord|neighbou?r"
# Reasons of `palace.extraction` whose facts last; plans, purchases and what was just done pass.
_LASTING: Final = frozenset(
    {
        *("home", "origin", "work", "family", "birthday", "health", "diet", "favourite", "dislikes", "likes"),
        *("prefers", "pursuit", "plays", "decision", "volunteers", "interest"),
    }
)
_fence = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL).sub
_is_foreign = re.compile(  # a line that somebody else or a program wrote
    r"\s*(?:[>|$#%{}\[<+/\\@*=]|-{2,}|- |\d+[.)\]] |\d{4}-\d\d-\d\d|\w+(?:\.\w+)*(?:Error|Exception|Warning)\b|Traceback"
    r"|(?:error|warning|info|debug|fatal|note|at|from|diff|commit|Author|Date|File)\b[ :\"(]\S*[/\\:\"(.]"
    r"|\w[\w.-]*:\s*$)",
    re.IGNORECASE,
).match
_signs = re.compile(r"[{}<>=;|\\^~$]|=>|\(\)|::").findall
_stands_for_all = re.compile(
    r"^(?:please,? |and |also,? |but |so |ok(?:ay)?,? |hey,? )*(?:always\b|never\b(?! mind\b)|don't ever\b|from now on\b|going forward\b"
    r"|in (?:the )?future\b|whenever\b|every time\b|each time\b|by default\b|unless I\b|call me\b|address me\b"
    r"|(?:answer|respond|reply|write|speak|talk)\b|no (?:calls?|meetings?|emails?|messages?)\b)"
    r"|\b(?:from now on|going forward|in (?:the )?future)\W*$"
    r"|\b(?:immer|nie|niemals|ab jetzt|ab sofort|von nun an|künftig|in zukunft|antworte|nenn|toujours|jamais|désormais|réponds?"
    r"|siempre|nunca|a partir de ahora|responde|llámame)\b",
    re.IGNORECASE,
).search
_is_exclaimed = re.compile(r"!\W*$|\blet me know\b|\bI mean\b|\blike I (?:prefer|said|mentioned)\b").search
_orders_always = re.compile(
    r"^(?:please,? )?(?:always|never) (?!(?:mind|up|staying|a|an|the|so|good|great|nice|happy|fun|there|been|had|was|seen|heard)\b)\w+(?: [^\s]+){3,}",
    re.IGNORECASE,
).match
_from_now_on = re.compile(
    r"^(?:please,? )?(?:from now on|going forward|in (?:the )?future)\b,? \w", re.IGNORECASE
).match
_about_self = re.compile(r"\b(?:I|I'm|I'd|my|me|ich|je|soy)\b", re.IGNORECASE).search
# Words that mean nothing outside of the conversation.
_points = re.compile(
    r"\b(?:this|that|these|those|it|its|they|them|their|he|she|him|her|here|there|above|below|previous|earlier|again|instead(?! of)"
    r"|(?:the )?(?:first|second|third|last|next|other|same|following|new|old) (?:one|option|version|approach|way|idea|step|part)s?"
    r"|option [a-z\d]|your|yours|you)\b",
    re.IGNORECASE,
).search
_not_pointing = re.compile(  # "you" and "that" which say nothing of the conversation
    r"\b(?:when(?:ever)?|if|before|after|unless|while|as|once|until|every time|each time) you\b|\bso that\b|\bthat(?='s| is| are)?\b(?= I\b)",
    re.IGNORECASE,
).sub
_passes = re.compile(
    r"\b(?:today|tonight|tomorrow|yesterday|now|currently|right now|for now|just now|at the moment|soon|later|temporar\w+"
    r"|this (?:morning|afternoon|evening|week|weekend|month|time|once|session|branch|pr|commit|file|function|test)"
    r"|next (?:week|month|time)|on (?:mon|tues|wednes|thurs|fri|satur|sun)day(?!s)"
    rf"|(?:{MONTH}) \d{{1,2}})\b(?! on\b)",
    re.IGNORECASE,
).search
_ours = re.compile(  # how a project is run, said as a habit
    r"^(?:(?:in|for|on) (?:this|the|our) (?:project|repo(?:sitory)?|codebase|team|company),? |(?:also|and|by the way|btw|fyi|note that),? )*"
    r"(?:we (?:(?:always|never|only|usually|generally|don't|do not|both|all) )*"
    r"(?:use|deploy|host|write|name|keep|store|release|ship|format|merge|target|support|prefer|follow|meet|sell|develop)\b"
    r"|we (?:always|never|only) (?!\w+ed\b)\w[\w-]+ \w|our [\w/ -]{2,40}? (?:(?:is|are)(?! so\b)|runs?|lives?|lies|uses?|stands?|deploys?|(?:has|have)(?= an?\b| \w+s\b)|must|happens?) \S"
    r"|the (?:production|staging|main|test|live|default|company|team|project|release)(?:'s)? [\w/ -]{2,30}? (?:is|are|runs?|lives?|lies|uses?|must|has to) \S)",
    re.IGNORECASE,
).search
_of_kin = re.compile(
    rf"^(?:(?:and|also|by the way|btw),? )*my (?:\w+ )?(?:{_CLOSE})(?:,? [A-Z][\w'-]+,?)? "
    r"(?:lives|works|is (?:called|named|an? |from |allergic |vegan|vegetarian)|has (?:an? |two |three )|studies|teaches|plays|speaks|was born)",
    re.IGNORECASE,
).search
_of_project = re.compile(  # which project is meant is known, so these words point at nothing else
    r"(?:^|,? )\b(?:in|for|on|across|throughout) this (?:whole )?(?:project|repo(?:sitory)?|codebase)(?:,? |(?=\W))",
    re.IGNORECASE,
).sub
_states_condition = re.compile(
    r"\b(?:fail(?:s|ed|ing)?|broken|crash\w*|wrong|slow|missing|not working|doesn't work|empty|stuck|down|weird|too \w+|error|bug"
    r"|red|green|merged|closed|failing|passing|ready|done|finished|running|flaky|confus\w+)\b",
    re.IGNORECASE,
).search
_asks_one = re.compile(
    r"\b(?:option|approach|idea|suggestion|plan|version|answer|solution|draft|change|look|sound|feel)s?\b",
    re.IGNORECASE,
).search
_may_be_secret = re.compile(
    r"\b(?:passwords?|passphrase|passcode|pin|tokens?|secret|api[ -]?key|private key|access key|credentials?)\b.{0,30}?(?:\bis\b|\bare\b|[=:])"
    rf"|://[^/\s:@]+:[^@\s]+@|{ACCESS_KEY}|[A-Za-z0-9+/_=-]{{32,}}",
    re.IGNORECASE,
).search
_remember = re.compile(
    r"^(?:please,? |and |also,? )*(?:remember|don't forget|do not forget|keep in mind|merk dir)(?: that|:|,)? (?P<said>.{8,})",
    re.IGNORECASE,
).match
_request = re.compile(  # that follows a statement in the same sentence
    r"(?:,| -|;) ?(?:(?:and|but|so|because) )*(?:(?:can|could|would|will) you\b|(?:and )?I(?:'m| am| was) (?:not sure|unsure|wondering|hoping)\b"
    r"|how (?:can|do|should|would|will)\b|what (?:are|is|do|should|would|if)\b|should I\b|do you\b|is (?:it|that)\b|please\b).*",
    re.IGNORECASE | re.DOTALL,
).sub
_lead_up = re.compile(  # to a preference, in the same sentence
    r"^I(?:'m| am) (?:trying|kinda|considering|thinking|struggling|working|looking)\b.*?, (?:and|so|but) (?=I (?:always |usually |really )?prefer\b)",
    re.IGNORECASE,
).sub
_ends_well = re.compile(
    r"\W{0,2}$|,? ?(?:-|\u2013|\u2014)? ?(?:and|but|so|because|since|which|though|although|when|while|if|as|can|could|how|what|would|will|do|is|I|it|we|you|he|she|they)\b",
    re.IGNORECASE,
).match


def worth_proposing(message: str, project: str = "") -> list[Proposal]:
    """The memories that one message of a user is worth, in the order of the text; usually none.

    Args:
        message: as the user wrote it.
        project: the name of the project that the conversation is about; empty for none. Facts about "us" are its facts,
            and without a project they give no proposal.

    >>> [found.value for found in worth_proposing("From now on always answer in German. Fix the test.")]
    ['From now on always answer in German.']
    >>> worth_proposing("I like option B. Always use this helper here!")
    []
    """
    found = dict[tuple[str, str], Proposal]()
    said = [sentence for line in own_lines(message) for sentence in split_sentences(line)]
    for place, sentence in enumerate(said):
        after = said[place + 1] if place + 1 < len(said) else ""
        if not sentence.endswith((":", "…", ",")) and not takes_back(after):
            for proposal in _of_sentence(sentence.replace("\u2019", "'"), project):
                found[proposal.domain, proposal.key] = replace(proposal, start=0, end=0)
    return list(found.values())


def own_lines(message: str) -> list[str]:
    """The lines of a message that seem to be the user's own words; none of a message that was mostly pasted."""
    text = _fence("", message)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    own = [line for line in lines if not _is_foreign(line) and not _looks_technical(line)]
    is_pasted = sum(map(len, own)) > MAX_OWN_CHARS or len(own) > MAX_PARAGRAPHS or len(own) * 2 < len(lines)
    return [] if is_pasted else own


def _looks_technical(line: str) -> bool:
    return len(line) > _MAX_LINE_CHARS or len(_signs(line)) > 2 + len(line) // 60


def _of_sentence(sentence: str, project: str) -> Iterator[Proposal]:
    sentence = _lead_up("", _request(".", sentence.strip('"\u201c\u201d ')))
    asked = _remember(sentence)
    told = asked["said"] if asked else sentence
    if len(sentence) > MAX_SENTENCE_CHARS or sentence.endswith("?") or _may_be_secret(sentence):
        return
    if asked is not None:
        if not _points(_not_pointing("", told)) and not _passes(told) and not told.lower().startswith("to "):
            yield _proposal("people", "facts", f"user-noted-{topic(told)}", told, "asked")
        return
    general = _of_project(" ", sentence).strip() if project else sentence
    if _points(_not_pointing("", general)) or _passes(general):
        return
    if _is_standing(general):
        yield _standing(sentence) if general == sentence else _project_rule(sentence, general, project)
    elif _of_kin(sentence):
        yield _proposal("people", "facts", f"user-{topic(sentence)}", f"The user: {sentence}", "family")
    elif (
        project
        and _ours(sentence)
        and not _states_condition(sentence)
        and kind_of(sentence) is not SentenceKind.QUESTION
    ):
        key = f"{slug(project)}-{topic(sentence)}"
        yield _proposal("projects", "facts", key, f"{project}: {sentence}", "project", project)
    elif general == sentence:
        yield from (found for found in proposals(sentence) if _is_lasting(found, sentence))


def _is_standing(sentence: str) -> bool:
    """Whether a sentence is an instruction or a preference for every answer; an exclamation is neither."""
    if _is_exclaimed(sentence) or kind_of(sentence) in {SentenceKind.QUESTION, SentenceKind.SMALL_TALK}:
        return False
    if _orders_always(sentence) or (_from_now_on(sentence) and kind_of(sentence) is SentenceKind.CORRECTION):
        return True
    return holds_for_all(sentence) and bool(_stands_for_all(sentence) or _about_self(sentence))


def _standing(sentence: str) -> Proposal:
    if _stands_for_all(sentence):
        return _proposal("skills", "procedures", f"rule-{topic(sentence)}", sentence, "instruction", "rule")
    return _proposal(
        "people",
        "preferences",
        f"user-{topic(sentence)}",
        f"The user: {sentence}",
        "preference",
        "preference",
    )


def _project_rule(sentence: str, general: str, project: str) -> Proposal:
    """An instruction that holds in one project. `general` is the sentence without the words that say so."""
    key = f"{slug(project)}-{topic(general)}"
    return _proposal("projects", "procedures", key, f"{project}: {sentence}", "instruction", "rule", project)


def _is_lasting(found: Proposal, sentence: str) -> bool:
    """Whether a fact lasts, is whole, and is about more than the conversation."""
    if found.reason not in _LASTING or _asks_one(found.value):
        return False
    last = found.value.split()[-1]
    place = sentence.rfind(last)
    return place < 0 or _ends_well(sentence[place + len(last) :]) is not None


def _proposal(domain: str, facet: str, key: str, value: str, reason: str, *themes: str) -> Proposal:
    return Proposal(domain, facet, key.strip("-"), value, tuple(filter(None, themes)), reason, 0, 0)
