"""One memory as a piece of the compressed format: the head of its line and the text after the colon.

How a head is found. A value about the beginning of its key (`vergel-prefers-vanilla-js`: "Vergel prefers vanilla JS")
is filed under that subject, here `vergel`, if the value says all that the rest of the key says; so the memories of one
subject share a line. The same holds for a value that begins with the end of its key ("Prefers vanilla JS"). Otherwise
the head is the whole key (`voxrelay-voice`).

How a value is shortened. After a subject, `is`, `is a` and `prefers` are dropped. `X over Y`, `X rather than Y`, `X
instead of Y` become `x>y` where they are choices; a reason goes into parentheses; filler and most articles are dropped.
Two or three plain words about a subject become one `hyphenated-word`. Everything else stays word for word: numbers,
names, negations, conditions, quotes, code, addresses. Text that is not plainly English, or is shorthand already, keeps
its words; only white space is squeezed.

No value can begin a line or a header of its own: line breaks become `; `, and `[domain:` becomes `(domain:`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final


if TYPE_CHECKING:
    from sense_memory.models import PersonaMemory


# ── English made shorter without losing a fact ──────────────────────────────────────────
# English made shorter without losing a fact: filler, articles, choices and reasons. Every rule is narrow and gives up
# where a sentence has another reading: a longer text is a small loss, a changed meaning is a wrong memory. No rule ever
# removes or moves a number, a name, a negation, a condition or a limit; quotes and code are hidden from the rules.

# Words that end a phrase of names and things. Quantities end a phrase too, and are never skipped.
BOUNDARIES: Final = frozenset(
    "a about above after against all also although am among an and any are as at be because been before behind "  # noqa: SIM905 - reads best as words
    "being below between both but by can could did do does down during each either else even ever every except "
    "few for from had has have he her here him his how i if in into is it its just least less may me might more "
    "most must my neither never no none nor not nothing now of off on once only onto or our out over per "
    "rather shall she should since so some such than that the their them then there these they this those "
    "though through till to toward towards under unless until up upon us was we were what when where whether "
    "which while who whom whose why will with within without would you your nobody instead".split()
)
NEGATIONS: Final = frozenset(
    "no not never nor neither none nothing nobody nowhere without cannot hardly".split()  # noqa: SIM905 - reads best as words
)

_CHOOSING: Final = (
    r"chose|choose|chooses|chosen|picked|pick|picks|prefer|prefers|preferred|selected|select|favou?red|favou?rs?"
    r"|went with|opted for|decided on|settled on"
)
_VERBS: Final = frozenset(
    "use uses used keep keeps kept take takes took run runs ran want wants wanted need needs store stores stored "  # noqa: SIM905 - reads best as words
    "write writes wrote read reads send sends sent host hosts hosted build builds built pay pays paid buy buys "
    "bought make makes made call calls called expect expects expected publish publishes published adopt adopts "
    "adopted install installs installed chose choose chooses chosen picked pick picks prefer prefers preferred "
    "selected select try tries tried get gets got bring eat eats ate drink drinks drank learn learns".split()
)
# Before these, `X over Y` is a way of speaking or a time, not a choice.
_CARRIERS: Final = frozenset(
    "zoom teams phone telephone email mail signal slack discord chat video skype coffee lunch dinner breakfast "  # noqa: SIM905 - reads best as words
    "tea tcp udp tls ssl ssh http https tor wifi wi-fi ethernet vpn quic websocket websockets usb bluetooth "
    "weekend weekends night christmas easter summer winter spring autumn time years months weeks days "
    "hours lan radio satellite land sea rest last next past".split()
)

_FILLER: Final = (
    (re.compile(r"(?:^|(?<=[.;!?] ))(?:[Pp]lease )?(?:[Nn]ote|[Kk]eep in mind|[Rr]emember) that "), ""),
    (re.compile(r"(?:^|(?<=[.;!?] ))[Ii]t is important to (?:note|know|remember) that "), ""),
    (re.compile(r"(?:^|(?<=[.;!?] ))[Ii]t turns out that "), ""),
    (
        re.compile(r"(?:^|(?<=[.;!?] ))(?:Basically|Essentially|Obviously|Of course|Please|As you know),? "),
        "",
    ),
    (re.compile(r"(?:^|(?<=[.;!?] ))There (?:is|are) (?=no |\d)"), ""),
    (re.compile(r"(?<= )(?:basically|essentially|obviously|of course|please) "), ""),
    (re.compile(r"\bIn order to\b"), "To"),
    (re.compile(r"\bin order to\b"), "to"),
    (re.compile(r"\b[Dd]ue to the fact that\b"), "because"),
    (re.compile(r"\bdespite the fact that\b"), "although"),
    (re.compile(r"\bin the event that\b"), "if"),
    (re.compile(r"\bat this point in time\b"), "now"),
)
_ANY_FILLER: Final = re.compile(
    r"\b(?:that|important|basically|essentially|obviously|course|please|know|there (?:is|are)|order|event|point)\b",
    re.IGNORECASE,
)
# The next words of articles that carry meaning: a few, twice a day, the only one, the more the better.
_ARTICLE: Final = re.compile(
    r"(?:^|(?<= )|(?<=[(]))(?:the (?!one\b|ones\b|others?\b|more\b|less\b|better\b|only\b|same\b|latter\b"
    r"|former\b|first\b|last\b|next\b|second\b|third\b|rest\b|[\w.-]+['\u2019]s\b)"
    r"|an? (?!few\b|little\b|lot\b|bit\b|couple\b|number\b|hundred\b|thousand\b|million\b|billion\b|dozen\b"
    r"|half\b|quarter\b|third\b|fifth\b|tenth\b|second\b|minute\b|hour\b|day\b|night\b|week\b|month\b"
    r"|year\b|time\b|while\b|person\b|head\b|piece\b))"
    r"(?!(?:and|or|is|are|was|were|has|to|in|on|at|of|for|with|by|as|over|than)\b)(?=[\w\"'`\x1a$€£#.])"
)
_COUNTED: Final = re.compile(r"(?:\d\S*(?: \w+)?|\b(?:once|twice|times|half|such|many|quite|EUR|USD|GBP)) $")
_FIRST_ARTICLE: Final = re.compile(r"(?:^|(?<=[.;!?] ))(?:The|An?) (?=[a-z0-9])")

_MARK: Final = re.compile(r" (rather than|instead of|over) ")
_VERB_BEFORE: Final = re.compile(
    rf"(?:^|[ (])(?:{_CHOOSING}) (?P<chosen>(?:[^,;:.!?()]|\.(?=\S))+)$", re.IGNORECASE
)
_WE_CHOSE: Final = re.compile(
    rf"(?:^|(?<=[.;!?] ))(?:(?:We|I) )?(?:{_CHOOSING}|decided to) (?=[^ ]*[^ >]>[^ >=])", re.IGNORECASE
)
_CLAUSE_END: Final = re.compile(r"[.;:!?] |\(")
_REACH_CHARS: Final = (
    400  # how far back a rule looks: a longer sentence is left alone, so hostile sentences cost little
)
_IS: Final = re.compile(
    r"(?<=[\w)\x1a])(?<!\bwhat)(?<!\bwho)(?<!\bwhich)(?<!\bthat)(?<!\bit)(?<!\bthere)(?<!\bthis)(?<!\b[hw]e)(?<!\bshe)"
    r"(?<!\bthey)(?<!\byou)(?<!\bwhere)(?<!\bhow)(?<!\bwhen)(?<!\bnot)(?<!\band)(?<!\bor)(?<!\bbut)(?<!\bthese)(?<!\bwhy)"
    r" (?:is|are) (?=\d|[~$€]|(?:at|in|on|under|from|between)\b)"
)
_PHRASE_WORD: Final = re.compile(r"[^\s,;:!?()]+")

_REASON: Final = re.compile(
    r"(?P<comma>,?) (?:because of|because|due to) (?P<reason>[^;!?]+?)"
    r"(?P<end>\.?(?=$|[;!?])|(?<!\bDr)(?<!\bMr)(?<!\bMs)(?<!\bMrs)(?<!\bSt)(?<!\bNo)\.(?= [A-Z]))"
)
_BEFORE_REASON: Final = re.compile(
    r"\b(?:not|n't|only|just|partly|mainly|mostly|simply|probably|perhaps|maybe|is|was|are|were|and|or|but|even)$",
    re.IGNORECASE,
)
_NOT_IN_REASON: Final = re.compile(
    r"\b(?:unless|until|except|but|although|though|while|whereas|because|so|if|when)\b|[()]", re.IGNORECASE
)
_PRONOUN: Final = re.compile(
    r"^(?:(?:it|they) (?:is|are) (?:an? |the )?|it's (?:an? |the )?|its |their |it |they |the |an? )"
)
_LAST_AND: Final = re.compile(r",? and (?=[^,]*$)")
_NEGATED: Final = re.compile(rf"\b(?:{'|'.join(sorted(NEGATIONS))})\b|n['\u2019]t\b", re.IGNORECASE)


def without_filler(text: str) -> str:
    """Drop phrases without content; shorten long phrases with little content."""
    for pattern, short in _FILLER if _ANY_FILLER.search(text) else ():
        text = pattern.sub(short, text)
    return text


def without_articles(text: str) -> str:
    """Drop `the`, `a`, `an`, except where they count (`twice a day`, `a few`, `the only`) or own (`the user's`)."""
    return _ARTICLE.sub(_article, _FIRST_ARTICLE.sub(lambda found: found[0].lower(), text))


def _article(found: re.Match[str]) -> str:
    """Nothing, or the article as it stood: `3 requests a minute`, `half a cup`."""
    before = found.string[max(0, found.start() - 40) : found.start()]
    return found[0] if found[0] != "the " and _COUNTED.search(before) else ""


def without_is(text: str) -> str:
    """Drop `is` and `are` between a thing and its number or place; not before participles (`is paid` is not `paid`)."""
    return _IS.sub(" ", text)


def negated(text: str) -> bool:
    """Whether any word of a text is a negation."""
    return _NEGATED.search(text) is not None


# ── Choices ─────────────────────────────────────────────────────────────────────────────


def with_choices(text: str, *, bare: bool) -> str:
    """`We chose Orpheus 3B over Kokoro` becomes `orpheus-3b>kokoro`: chosen over.

    `rather than` and `instead of` always compare; `over` does after a verb of choosing, or, where `bare`
    says that the text is a decision, at its very beginning. Both sides have to be plain: one to three words
    between a verb, a preposition or a sign; nothing denied, joined by and/or, or counted.
    """
    place = 0
    while found := _MARK.search(text, place):
        place = found.start() + 1
        before, after = text[: found.start()], text[found.end() :]
        chosen = _chosen(before, found[1], bare=bare)
        other = _other(after, found[1])
        if chosen and other:
            joined = f"{slug(_undetermined(chosen))}>{slug(_undetermined(other))}"
            text = before[: len(before) - len(chosen)] + joined + after[len(other) :]
            place = len(before) - len(chosen) + len(joined)
    return _WE_CHOSE.sub("", text)


def _chosen(before: str, mark: str, *, bare: bool) -> str:
    """The words before the mark that were chosen; empty if in doubt."""
    near = before[-_REACH_CHARS:]
    clause = near[max((match.end() for match in _CLAUSE_END.finditer(near)), default=0) :]
    if (
        len(clause) == _REACH_CHARS
        or negated(clause)
        or ">" in clause.split(" ")[-1]
        or "\x1a" in clause.split(" ")[-1]
    ):
        return ""
    own = re.search(r"^(?:.* to )?(?P<chosen>\w+ (?:our|my) own)$", clause)
    decided = own or re.search(r"\bdecided to (?P<chosen>[^,]+)$", clause)
    verb = _VERB_BEFORE.search(clause)
    if verb or (decided and mark != "over"):
        side = (verb or decided)["chosen"]  # type: ignore[index]  # one of the marks was found
        return side if _plain(_undetermined(side)) else ""
    if mark == "over":
        return clause if bare and clause == before and _plain(clause) else ""
    words: list[str] = []
    for word in reversed(clause.split(" ")):
        bareword = word.lower()
        if bareword in _VERBS or bareword in BOUNDARIES or word.endswith(","):
            last = bareword
            break
        words.insert(0, word)
    else:
        last = ""
    if last in {"and", "or", "of", "each", "every", "all", "any", "no", "some", "most", "few", "than", "own"}:
        return ""
    return " ".join(words) if last and _plain(" ".join(words)) else ""


def _other(after: str, mark: str) -> str:
    """The words after the mark that were not chosen; empty if in doubt."""
    words: list[str] = []
    end = 0
    for found in _PHRASE_WORD.finditer(after):
        word = found[0]
        if after[end : found.start()] not in {"", " "}:
            break
        stripped = word.rstrip(".")
        determiner = not words and stripped.lower() in {"a", "an", "the", "our", "its", "their", "my"}
        if stripped.lower() in BOUNDARIES and not determiner:
            if stripped.lower() in {"and", "or", "than", "nor"}:
                return ""
            break
        words.append(stripped)
        end = found.start() + len(stripped)
        if stripped != word:
            break
    side = after[:end]
    head = _undetermined(side)
    if not head or not _plain(head):
        return ""
    if mark == "over" and (head.split(" ")[0].lower() in _CARRIERS or head[0].isdigit()):
        return ""
    return side


def _plain(side: str) -> bool:
    words = side.split(" ")
    return 1 <= len(words) <= 3 and all(
        word and word.lower() not in BOUNDARIES and not set(word) & set('<>=",;:()[]{}\x1a') for word in words
    )


def _undetermined(side: str) -> str:
    return re.sub(
        r"^(?:an?|the|our|its|their|my) ", "", side.replace("our own", "own").replace("my own", "own")
    )


def slug(phrase: str) -> str:
    """`Orpheus 3B` as `orpheus-3b`: words joined by hyphens, in lower case where case has no meaning.

    What looks like code keeps its case (`useState`, `D1`), and so do units (`25 MB`), a lone `MIT`, and
    capitals that would read as another word (`US`).
    """
    words = phrase.split(" ")
    return "-".join(
        _lowered(word, alone=len(words) == 1, after_number=index > 0 and words[index - 1][-1:].isdigit())
        for index, word in enumerate(words)
    )


def _lowered(word: str, *, alone: bool, after_number: bool) -> str:
    lower = word.lower()
    if after_number or lower in BOUNDARIES:
        return word
    if re.fullmatch(r"[A-Z][a-z]+(?:-[A-Za-z]+)*|\d+(?:\.\d+)?B", word):
        return lower
    return lower if not alone and re.fullmatch(r"[A-Z]{2,}", word) else word


# ── Reasons ─────────────────────────────────────────────────────────────────────────────


def with_reasons(text: str) -> str:
    """`… because it is cheap` becomes `… (cheap)`, to the end of its sentence.

    The sentence stays where it has another reading: `not because`, `only because`, a negated sentence without a comma
    before the reason, a reason with a condition in it or with a sentence after its comma.
    """
    place = 0
    while found := _REASON.search(text, place):
        place = found.end()
        reason = _short_reason(found["reason"])
        before = text[: found.start()]
        near = before[-_REACH_CHARS:]
        sentence = near[max((match.end() for match in re.finditer(r"[.;!?] ", near)), default=0) :]
        if (
            not reason
            or not sentence
            or len(sentence) == _REACH_CHARS
            or _BEFORE_REASON.search(before)
            or (negated(sentence) and not found["comma"])
            or before.endswith(")")
        ):
            continue
        shorter = f" ({reason}){found['end']}"
        text = before + shorter + text[found.end() :]
        place = len(before) + len(shorter)
    return text


def _short_reason(reason: str) -> str:
    """The text in the parentheses; empty if the end of the reason is not clear."""
    if _NOT_IN_REASON.search(reason):
        return ""
    items = [item.strip() for item in _LAST_AND.sub(", ", reason).split(",")]
    if "," in reason:
        if any(len(item.split(" ")) > 4 for item in items[1:]):
            return ""
        reason = ", ".join(items)
    return _PRONOUN.sub("", reason)


@dataclass(frozen=True, slots=True)
class Piece:
    """A memory in shorthand.

    Attributes:
        head: the beginning of the line.
        text: the text after the colon; never empty.
    """

    head: str
    text: str


# ── Cleaning ────────────────────────────────────────────────────────────────────────────

_EMPTY: Final = "(empty)"
_BREAKS: Final = re.compile(r"\s*[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*")
_DROPPED: Final = re.compile(r"[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\u202a-\u202e\u2066-\u2069\ufeff]")
_SIGNS: Final = ".,;:!?\u2026\u3001\u3002\uff01\uff1a\uff1b\uff1f"  # after these a line break becomes a space
_SURROGATES: Final = re.compile(r"[\ud800-\udfff]")
_FORGED: Final = re.compile(r"[\[\uff3b]([\s\u200b-\u200f\u2060]*domain)", re.IGNORECASE)


def cleaned(text: str) -> str:
    """A text on one line, without anything that could be taken for a header or hide other text."""
    text = _DROPPED.sub("", text)
    text = _BREAKS.sub(_joint, text.strip())
    return _FORGED.sub(r"(\1", _SURROGATES.sub("\ufffd", " ".join(text.split())))


def _joint(found: re.Match[str]) -> str:
    """The replacement of a line break: a semicolon, unless a sign already ends the line before the break."""
    before = found.string[: found.start()][-1:]
    return " " if before in _SIGNS else "; "


def header(domain: str, facet: str) -> str:
    """`[domain:people/facet:facts]`; brackets in names become parentheses."""
    return f"[domain:{_name(domain)}/facet:{_name(facet)}]"


def _name(text: str) -> str:
    return cleaned(text).replace("[", "(").replace("]", ")")


# ── The languages ───────────────────────────────────────────────────────────────────────

_ENGLISH: Final = frozenset(
    "the of and with because from which should would must never without every they their his her has have does "  # noqa: SIM905 - reads best as words
    "not this that are were been is was prefers prefer likes uses use used chose choose we our you your unless "
    "until than instead rather about before after when there for to teaches works lives speaks drinks hates "
    "wants needs owns runs keeps plays reads writes knows drives eats studies manages builds over between only "
    "most more less no cannot don't doesn't isn't it its be by at as if what who how my".split()
)
_FOREIGN: Final = frozenset(
    "de la el los las una der das den dem ein eine nicht mit für ist le les des du que qui est et pour dans não "  # noqa: SIM905 - reads best as words
    "nao uma com para por il lo gli che di con non della och att det som ett het een van niet zijn og på ikke av "
    "ja ei nie się na ile bir bu için çok nem és az egy die und sie wir auf im zu você está mais sur avec en es "
    "un op om te ook naar voor ik je hij zij ze não más pero muy sin sono ma più já ao da dos das no na "
    "mi tu yo ni ou au ce ne pas il elle nous vous".split()
) - {"no"}
_LETTERS: Final = re.compile(r"[^\W\d_]+(?:['\u2019][a-z]+)?")


def is_english(text: str) -> bool:
    """Whether the rules of English may be applied; in doubt they may not."""
    words = [word.lower() for word in _LETTERS.findall(text)]
    letters = sum(len(word) for word in words)
    strange = sum(character > "\x7f" for word in words for character in word)
    english = sum(word in _ENGLISH for word in words)
    foreign = sum(word in _FOREIGN for word in words)
    return english > foreign * 1.5 and strange * 8 <= letters


# ── The piece ───────────────────────────────────────────────────────────────────────────

_LITERAL: Final = re.compile(
    r"`[^`]{0,500}`|\"[^\"]{0,500}\"|“[^”]{0,500}”|«[^»]{0,500}»|(?<![\w'])'[^']{0,500}'(?!\w)"
    r"|(?<!\S)(?:\S*(?:://|@|[\\{}<=_|~$]|\w\()|--?[A-Za-z])\S*(?<![.,;:!?])"
)
_HIDDEN: Final = re.compile(r"\x1a(\d+)\x1a")


def plain(memory: PersonaMemory) -> Piece:
    """A memory under its key, word for word: the format without shorthand."""
    return Piece(_name(memory.key) or "?", cleaned(memory.value) or _EMPTY)


def shorthand(memory: PersonaMemory) -> Piece:
    """A memory's piece of the compressed format."""
    piece = plain(memory)
    key, value = piece.head, piece.text
    if value == _EMPTY or not is_english(value):
        return piece
    literals: list[str] = []

    def hide(found: re.Match[str]) -> str:
        literals.append(found[0])
        return f"\x1a{len(literals) - 1}\x1a"

    hidden = without_filler(_LITERAL.sub(hide, value))
    head, said = _filed(key, hidden)
    said = _phrased(said, about_subject=head != key or said != hidden, decision=memory.facet == "decisions")
    said = _HIDDEN.sub(lambda found: literals[int(found[1])], said)
    return Piece(head, said or value)


def _phrased(said: str, *, about_subject: bool, decision: bool) -> str:
    said = with_reasons(said)
    if about_subject:
        said = re.sub(r"^[Pp]refers (?!to )", "prefers ", said)
    said = with_choices(said, bare=decision)
    if about_subject:
        said = _unframed(said)
    said = without_articles(without_is(_uncapitalised(said)))
    if said.endswith(".") and not _DOT_STAYS.search(said):
        said = said[:-1]
    return _hyphenated(said) if about_subject else said


_DOT_STAYS: Final = re.compile(r"\.\.$|(?:^|[\s(])(?:[A-Za-z]\.)+$|\b(?:etc|Jr|Sr|Inc|Ltd|Co|approx)\.$")
_FRAME: Final = re.compile(r"^(?:(?:is|are) (?:an? |the )?|[Pp]refers (?!to )|wants (?=no ))(?=\S)")
# About a person, `is asked` and `asked` are opposites, so the participle keeps its verb.
_PASSIVE: Final = re.compile(
    r"(?:is|are) (?:not )?(?:\w+ly |also |still |now |often )*(?:\w+ed|\w+en|\w*(?:paid|sent|told|held|kept|made|built|left"
    r"|lost|found|taught|brought|bought|hurt|cut|set|put|let|run|won|led|fed|met|read|said|sold|heard|hit|spent"
    r"|thought|caught|stood|drawn|known|shown|worn|born|done|seen|fought|bound|wound|struck|shut|spread))\b"
)
_DETERMINED: Final = re.compile(
    r"^[A-Z][a-z]+ (?=(?:the|an?|every|each|all|any|your|my|our|his|her|its|their|this|that|these|at|in|on|by) )"
)
_MODAL_NAMES: Final = frozenset({"i", "may", "will", "can", "mark", "us", "it"})


def _unframed(said: str) -> str:
    """Drop the verb that only joins a subject to its predicate: `is a`, `prefers`."""
    if _PASSIVE.match(said):
        return said
    shorter = _FRAME.sub("", said)
    if said.lower().startswith("prefers ") and " over " in shorter:
        return said
    if re.match(r"(?:few|little|lot|bit|couple|number|one|only|first|last|same)\b", shorter):
        return said
    return shorter


def _uncapitalised(said: str) -> str:
    """Lower the capital at the start of a sentence, if the word is surely not a name."""
    first = said.split(" ", 1)[0]
    plain = first.isalpha() and first[1:] == first[1:].lower() and first.lower() not in _MODAL_NAMES
    article = first in {"The", "A", "An"} and said[len(first) + 1 : len(first) + 2].isupper()  # The Hague
    if plain and not article and (first.lower() in BOUNDARIES or _DETERMINED.match(said)):
        return first.lower() + said[len(first) :]
    return said


def _hyphenated(said: str) -> str:
    """Join two or three plain words; a single word and longer texts stay."""
    words = said.split(" ")
    plain = all(re.fullmatch(r"[A-Za-z]+(?:-[A-Za-z]+)*", word) for word in words)
    function = (
        any(
            word.lower() in BOUNDARIES and not (word == "no" and index == 0)
            for index, word in enumerate(words)
        )
        or "longer" in words
    )
    return slug(said) if 2 <= len(words) <= 3 and plain and not function else said


# ── The head ────────────────────────────────────────────────────────────────────────────

_WORD: Final = re.compile(r"[^\W_]+")
_SUBJECT_VERBS: Final = frozenset(
    "is are was were has had does did will would can cannot could should must may might wants prefers doesn't "  # noqa: SIM905 - reads best as words
    "isn't can't won't hasn't wasn't accepts asks attends avoids becomes begins believes belongs bikes brings buys "
    "calls came chose comes cooks costs counts creates dislikes drinks drives eats enjoys expects feels finds "
    "gave gets gives goes got grows hates helps holds keeps knows learns leaves likes lives loves made maintains "
    "makes manages matters means meets moved moves needs never offers only opened opens owns paints pays picked plays prefers "
    "publishes puts reads receives refuses rejects remains renders rents requires returns runs said says sells "
    "sends serves shows signs sings sleeps speaks starts stays stores studies supports takes teaches thinks "
    "took tracks trains translates travels trusts uses visits walks wants watches wears weighs went works worked "
    "writes wrote".split()
)


_OPENING_ARTICLE: Final = re.compile(
    r"^(?:The|the|An?|an?) (?=[a-z]+(?:['\u2019]s)? )(?!few\b|little\b|lot\b|couple\b|only\b|one\b|more\b)"
)


def _filed(key: str, value: str) -> tuple[str, str]:
    """The head under which a value is filed, and the value without what the head already says."""
    keys = list(_WORD.finditer(key))
    names = [word[0].lower() for word in keys]
    label = re.match(r"([^:\x1a.,;]{1,60}): (?=\S)", value)
    if label and {word[0].lower() for word in _WORD.finditer(label[1])} <= set(names):
        return key, value[label.end() :]
    bare = _OPENING_ARTICLE.sub("", value)
    subject = _subject(names, bare)
    if subject:
        count, end = subject
        rest = bare[end:].lstrip(" ")
        head = key[: keys[count - 1].end()] if _covers(rest, names[count:]) else key
        return head, rest
    for start in range(1, len(names) - 1):
        if _begins_with(value, names[start:]):
            return key[: keys[start - 1].end()], value
    return key, value


def _subject(names: list[str], value: str) -> tuple[int, int] | None:
    """How many words of the key form the subject at the start of a value, and where the predicate begins."""
    words = list(_WORD.finditer(value))
    for count, (name, word) in enumerate(zip(names, words, strict=False), 1):
        gap = value[words[count - 2].end() if count > 1 else 0 : word.start()]
        if word[0].lower() != name or gap not in {"", " ", "-", "_"}:
            break
        following = re.match(r"(?:['\u2019]s)?(?= (\S+))", value[word.end() :])
        if following is None:
            continue
        if following[0] or following[1].lower().rstrip(",") in _SUBJECT_VERBS:
            return count, word.end() + following.end()
    return None


def _covers(text: str, names: list[str]) -> bool:
    """Whether a text contains all these words of a key in some form: `no` as `not`, `coauthor` as `co-author`."""
    lower = text.lower()
    words = {word[0] for word in _WORD.finditer(lower)}
    joined = "".join(word[0] for word in _WORD.finditer(lower))
    denied = re.search(r"\b(?:no|not|never|without|cannot)\b|n['\u2019]t\b", lower)
    return all(
        name in words or (len(name) > 3 and name in joined) or (name in {"no", "not", "never"} and denied)
        for name in names
    )


def _begins_with(value: str, names: list[str]) -> bool:
    words = [word[0].lower() for word in _WORD.finditer(value[:200])]
    return len(names) > 1 and words[: len(names)] == names
