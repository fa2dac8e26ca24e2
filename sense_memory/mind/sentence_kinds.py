"""What kind of sentence a sentence is, so that rules conclude only from sentences that say something. Pure.

Everything that rules conclude (thoughts, topics, beliefs, an identity, the facts of a summary) is a quotation of a sentence of
a kind in `SAYING`. A question, a command, small talk, a passing remark and a fragment are no evidence of anything.

Doubt ends in silence: what no rule knows is a `REMARK` or a `FRAGMENT`. The rules read English best, and the commonest forms
of German, French and Spanish. The cost is some 30 µs for each sentence that is read for the first time.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from typing import Final

from sense_memory.search.tokens import PAST_FORMS


class SentenceKind(StrEnum):
    """What a sentence does."""

    STATEMENT = "statement"  # says something of a subject that a later question may ask for
    PREFERENCE = "preference"  # what somebody likes, loves, hates or prefers
    DECISION = "decision"
    DATE = "date"  # when something happens
    CORRECTION = "correction"  # says that something said before is wrong or has changed
    INSTRUCTION = "instruction"  # holds from now on: "always …", "never …"
    OPEN_QUESTION = "open question"  # says what is not known or decided yet
    REMARK = "remark"  # of the moment: "It took a while."
    SMALL_TALK = "small talk"
    QUESTION = "question"
    COMMAND = "command"  # asks for one action: "Open the window."
    FRAGMENT = "fragment"  # no sentence: "90 cm"


SAYING: Final = frozenset(
    {
        SentenceKind.STATEMENT,
        SentenceKind.PREFERENCE,
        SentenceKind.DECISION,
        SentenceKind.DATE,
        SentenceKind.CORRECTION,
        SentenceKind.INSTRUCTION,
        SentenceKind.OPEN_QUESTION,
    }
)
_MAX_CHARS: Final = 1_000  # of a sentence that is read; a longer one is a table, a log or code
_PARTS: Final = re.compile(r"[^.!?\n]+(?:[.!?](?!\s|$)[^.!?\n]*)*[.!?]*").findall
# A point behind one of these ends no sentence.
_SHORT: Final = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|Prof|St|Nr|No|ca|approx|etc|vs|e\.g|i\.e|z\.B|bzw|Mme|Mlle|Sr|Sra)|(?:\b(?:am|der|den|the|le|el) \d{1,2}))\.$"
)


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, without blanks around them.

    >>> split_sentences("Ms. Haller speaks. It costs 2.50 euros!")
    ['Ms. Haller speaks.', 'It costs 2.50 euros!']
    """
    found: list[str] = []
    for line in text.split("\n"):
        waiting = ""
        for part in _PARTS(line):
            waiting = f"{waiting} {part.strip()}".strip()
            if not _SHORT.search(waiting):
                found.append(waiting)
                waiting = ""
        found += [waiting] if waiting else []
    return [sentence for sentence in found if sentence]


def says_something(text: str) -> bool:
    """Whether a text has a sentence from which something can be concluded."""
    return any(kind_of(sentence) in SAYING for sentence in split_sentences(text))


def saying(text: str) -> list[str]:
    """The sentences of a text from which something can be concluded."""
    return [sentence for sentence in split_sentences(text) if kind_of(sentence) in SAYING]


@lru_cache(8_192)
def kind_of(sentence: str) -> SentenceKind:
    """The kind of one sentence.

    >>> [str(kind_of(text)) for text in ("I know", "My sister lives in Graz.", "No, it's the 14th.")]
    ['small talk', 'statement', 'correction']
    """
    text = " ".join(sentence.replace("\u2019", "'").split())
    if len(text) > _MAX_CHARS or not _WORDS(text):
        return SentenceKind.FRAGMENT
    told = _LEAD.sub("", text) or text
    for kind, applies in _RULES:
        if applies(text, told):
            return kind
    return _declared(told)


def is_correction(text: str) -> bool:
    """Whether a sentence says that something is wrong or has changed; a question never does."""
    return kind_of(text) is SentenceKind.CORRECTION


def subject_of(sentence: str) -> tuple[str, ...]:
    """The words of the subject of a sentence in lower case, without articles and pronouns; empty if it has none.

    >>> subject_of("By the way, my sister Anna lives in Graz."), subject_of("It is late.")
    (('sister', 'anna'), ())
    """
    told = _LEAD.sub("", " ".join(sentence.replace("\u2019", "'").split()))
    words = _WORDS(told.lower())
    place = _verb_place(words)
    found = (word.removesuffix("'s") for word in words[: place or 0])
    return tuple(word for word in found if word not in _NO_SUBJECT and not word.isdigit())


# ── Private identifiers ─────────────────────────────────────────────────────────────────

_IDENTIFIER: Final = re.compile(
    r"(?:\+|\b00|\b0)\d[\d /().-]{5,}\d"  # a number to call
    r"|\b(?:\d[ -]?){9,}\d\b"  # a card, an account, an identity number
    r"|\b\d{3}-\d{2}-\d{4}\b|\b[A-Z]{2}\d{2}(?: ?[A-Z\d]{4}){3,}"
    r"|[\w.+-]+@[\w-]+\.\w+|\bnsec1\w+|\b(?:sk|pk|ghp|xox\w)[-_]\w{12,}",
    re.IGNORECASE,
)
_OF_A_PERSON: Final = re.compile(
    r"\b(?:phone|telephone|mobile|cell|passport|account|social security|insurance|id|card|licen[cs]e|tax|customer|booking|alarm|door|gate"
    r"|safe|access|pin|telefon|handy|konto|ausweis|téléphone|teléfono|móvil)[ -]?(?:number|no|nr|code|id|nummer)\b"
    r"|\b(?:password|passphrase|passcode|pin|iban|ssn|secret key|private key|api key|passwort|kennwort|mot de passe|contraseña)\b.*\d"
    r"|\b(?:password|passphrase|passcode|pin|passwort|kennwort|mot de passe|contraseña)\b[^.]{0,40}\b(?:is|ist|est|es)\b"
    r"|\b(?:birthday|born on|date of birth|geburtstag|geboren am)\b"
    r"|\b\d{1,5}[a-z]?,? (?:\w+ ){0,2}(?:street|road|lane|avenue|drive|square)\b|\b\w*(?:straße|strasse|gasse|weg|platz) \d+",
    re.IGNORECASE,
)


def has_identifier(text: str) -> bool:
    """Whether a text has a phone number, a mail address, a long number as of an account or a document, or a key."""
    return bool(_IDENTIFIER.search(text))


def is_private(text: str) -> bool:
    """Whether a text has such an identifier, or speaks of a password, a code, a birthday or a street address.

    >>> is_private("Call 0664 5550143."), is_private("The gate code is 4711."), is_private("The port is 7777.")
    (True, True, False)
    """
    return has_identifier(text) or bool(_OF_A_PERSON.search(text))


# ── Words ───────────────────────────────────────────────────────────────────────────────

_WORDS: Final = re.compile(r"[^\W_]+(?:['’.,:-][^\W_]+)*").findall


def _any(*words: str, flags: int = re.IGNORECASE) -> re.Pattern[str]:
    return re.compile("|".join(words), flags)


_LEAD: Final = re.compile(
    r"^(?:[-*•>] |\d+[.:)] )?(?:(?:oh|ah|hm+|well|ok(?:ay)?|yes|yeah|yep|haha|lol|btw|fyi|also|and|so|but|right|great|hi|hello|hey|quick note|good news"
    r"|by the way|for your information|just so you know|(?:please )?(?:remember|note|keep in mind)(?: that|:)|that said|honestly"
    r"|before i forget|one more thing|as i said|to be (?:honest|clear)|as you know|übrigens|also|naja|ach|au fait|bon|por cierto"
    r"|bueno|what was i going to say)"
    r"(?:[,.:!…]+|(?=\s))\s*)*",
    re.IGNORECASE,
)
_BE: Final = "is are was were am be been isn't aren't wasn't weren't"
_AUXILIARIES: Final = frozenset(
    f"""{_BE} has have had hasn't haven't hadn't does do did doesn't don't didn't can can't cannot could couldn't will won't
would wouldn't shall should shouldn't may might must mustn't needs need""".split()
)
_THIRD: Final = frozenset(
    ["lives", "works", "runs", "owns", "costs", "reaches", "covers", "reads", "writes", "contains", "limits", "takes", "speaks", "plays", "studies", "teaches", "coaches", "knows", "loves", "hates", "likes", "prefers", "enjoys", "dislikes", "wants", "means", "says", "keeps", "makes", "gives", "goes", "comes", "opens", "closes", "begins", "starts", "ends", "leaves", "arrives", "lasts", "carries", "belongs", "depends", "expires", "matters", "stores", "handles", "manages", "leads", "drives", "rides", "sings", "paints", "cooks", "bakes", "sells", "buys", "pays", "uses", "eats", "drinks", "smokes", "wears", "weighs", "measures", "holds", "serves", "supports", "requires", "allows", "changes", "rotates", "happens", "turns", "stays", "stands", "lies", "sits", "hangs", "sleeps", "wakes", "calls", "hosts", "repairs", "fits", "grows", "needs", "lets", "includes", "consists", "follows", "returns", "fades", "persists", "gets"]
)
_STATES: Final = (
    r"live|lived|have lived|work|worked|have worked|teach|taught|study|studied|speak|own|run|drive|ride|play|sing|paint|coach|manage"
    r"|lead|use|wear|grew up|was born|were born|used to|come from|can't (?:eat|drink|swim|drive|hear|see|stand)|cannot (?:eat|drink|swim"
    r"|drive|hear|see)|don't (?:eat|drink|smoke|drive|own|have|use|speak)|never (?:eat|drink|smoke|fly)|only (?:eat|drink|use|work|have)"
    r"|eat|drink|collect|volunteer|rent|sell|make (?:a living|pots|prints)|suffer from|need (?:a wheelchair|glasses|insulin)"
)
_BEING: Final = (
    r"an? (?!bit|little|lot|few|big fan|huge|mess|idiot|fool|step|moment|minute|fan)[\w-]+|the (?!one\b|same\b|only\b)[\w-]+|[\w-]*(?:allergic|intolerant)|vegan|vegetarian"
    r"|diabetic|celiac|coeliac|pregnant|from (?!there|here)\w+|born|married|divorced|widowed|engaged|single|retired|based|left-handed"
    r"|right-handed|colou?r-?blind|deaf|blind|dyslexic|self-employed|unemployed|\d+ years old|\d+\b|afraid of|responsible for|called"
    r"|named|on call|in charge|[A-Z]\w+(?:,|\.|$| and )"
)
_MINE: Final = r"(?:i|we|you|my \w+|our \w+)"
_JUDGED: Final = (
    r"(?:always |never |just |still |really |so |very |quite |pretty |rather |too |a bit |all |also |more |most |not |that |a |an |such a |the |"
    r"quite )*(?:long (?:day|week|night|time)|lot|pleasure|start|choice|boss|nice|good|great|fine|lovely|wonderful|bad|ok(?:ay)?|fun|funny|awesome|amazing|beautiful|terrible|awful|kind"
    r"|better|best|worse|delicious|perfect|cool|sweet|tasty|interesting|exciting|weird|strange|sad|boring|important to me|healthy"
    r"|fair|hard|easy|tricky|fantastic|gorgeous|annoying|impressive|true|right|wrong|sure|possible|complicated|the best kind|it"
    r"|on it|here|there|back|done|ready|on (?:my|the|his|her|their) way|gone|over|fun)\b"
)
_PRONOUNS: Final = frozenset(["it", "its", "this", "that", "these", "those", "there", "one", "he", "she", "they", "you", "everything", "something", "nothing"])
_NO_SUBJECT: Final = _PRONOUNS | frozenset(
    ["i", "we", "me", "my", "our", "your", "his", "her", "their", "the", "a", "an", "and", "or", "of", "in", "on", "at", "to", "for", "from", "with", "by", "as", "both", "all", "some", "many", "most", "each", "every", "another", "no", "not", "only", "still", "also", "already", "who", "which", "what", "whose", "is", "are", "was", "were", "be", "i'm", "we're", "i've", "we've", "he's", "she's", "it's", "that's", "there's", "they're", "you're", "just", "still", "now", "then", "here", "newest", "old", "new", "next", "last", "first", "final", "finally", "will", "would", "should", "longer", "again", "today", "ein", "eine", "der", "die", "das", "mein", "meine", "unser", "unsere", "ich", "wir", "mon", "ma", "mes", "notre", "le", "la", "les", "je", "nous", "on", "el", "mi", "mis", "nuestro", "nuestra", "yo"]
)
_NOT_VERBS: Final = frozenset(
    ["as", "this", "his", "its", "yes", "always", "perhaps", "less", "plus", "versus", "minus", "was", "news", "thanks", "besides", "red", "bed", "shed", "seed", "speed", "hundred", "indeed", "feed", "breed", "united", "used", "weed", "kids", "tickets", "cats", "dogs", "pieces", "notes", "hours", "days", "weeks", "months", "years", "euros", "metres", "meters"]
)
_DETERMINERS: Final = frozenset(
    ["the", "a", "an", "my", "our", "your", "his", "her", "their", "its", "this", "that", "these", "those", "some", "any", "no", "all", "both", "many", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "of", "in", "on", "at", "for", "from", "with", "by", "to", "and", "or", "between", "per", "about", "than"]
)
_PAST: Final = frozenset(PAST_FORMS) - {"left", "found", "felt", "ground", "saw", "wound", "lay", "bore", "rose"}


def _verb_place(words: list[str]) -> int | None:
    """The place of the finite verb among the first words of a sentence; None if no rule sees one."""
    for place, word in enumerate(words[:9]):
        before = words[place - 1] if place else ""
        is_known = word in _AUXILIARIES or word in _THIRD or word in _OTHER_VERBS
        is_past = word in _PAST or (word.endswith("ed") and len(word) > 4)
        is_third = word.endswith("s") and not word.endswith(("ss", "us", "is", "'s")) and len(word) > 3
        if place and word not in _NOT_VERBS and before not in _DETERMINERS and not before.isdigit():
            is_followed = place + 1 < len(words)
            if is_known or ((is_past or is_third) and is_followed and place <= 4):
                return place
        if word.endswith(("'s", "'re", "'m", "'ve")) and word.partition("'")[0] in _CONTRACTED:
            return place + 1
    return None


_CONTRACTED: Final = frozenset(["i", "we", "you", "they", "he", "she", "it", "that", "this", "there", "here", "who", "what"])

# ── Dates and figures ───────────────────────────────────────────────────────────────────

_WEEKDAY: Final = (
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?|montags?|dienstags?|mittwochs?|donnerstags?|freitags?|samstags?|sonntags?|lundi"
    r"|mardi|mercredi|jeudi|vendredi|samedi|dimanche|lunes|martes|miércoles|jueves|viernes|sábado|domingo"
)
_MONTH: Final = (
    r"january|february|march|april|may|june|july|august|september|october|november|december|jänner|januar|februar|märz|mai|juni|juli"
    r"|oktober|dezember|janvier|février|mars|avril|juin|juillet|août|septembre|octobre|novembre|décembre|enero|febrero|marzo|abril"
    r"|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre"
)
_WHEN: Final = _any(
    rf"\b(?:{_WEEKDAY})\b",
    rf"\b\d{{1,2}}(?:st|nd|rd|th|er|\.)?(?: of| de)? (?:{_MONTH})\b|\b(?:{_MONTH}) \d{{1,2}}(?:st|nd|rd|th)?\b",
    rf"\b(?:in|until|till|by|since|from|before|after|im|seit|bis|en|depuis) (?:early |late |mid-?)?(?:{_MONTH})\b",
    r"\b(?:the|am|den|der|le|el) \d{1,2}(?:st|nd|rd|th|\.)(?!\d)",
    r"\b\d{1,2}[:.]\d{2}(?: ?(?:am|pm|uhr|h))?\b|\b\d{1,2} ?(?:am|pm|uhr|o'clock)\b|\b\d{4}-\d{2}-\d{2}\b",
    r"\b(?:tomorrow|next (?:week|month|year)|the first of (?:each|every|the) month|morgen (?:früh|um)|nächste\w* (?:woche|monat)|demain"
    r"|la semaine prochaine|mañana a|la próxima semana)\b",
)
_FIGURE: Final = re.compile(r"\d")
_NAMED: Final = re.compile(r"(?<=[^.!?:\s] )(?!I\b|I')[A-ZÄÖÜÉ][\w-]+")

# ── The rules, in their order ───────────────────────────────────────────────────────────

_SMALL_TALK: Final = frozenset(
    ["hi", "hello", "hey", "ha", "haha", "hahaha", "lol", "yes", "yeah", "yep", "no", "nope", "ok", "okay", "oh", "ah", "hm", "hmm", "hmmm", "sure", "see", "thanks", "thank", "thx", "nice", "great", "good", "cool", "fine", "right", "well", "wow", "bye", "please", "glad", "hear", "welcome", "sound", "sounds", "got", "understand", "understood", "interesting", "indeed", "perfect", "alright", "sorry", "know", "noted", "lovely", "yum", "morning", "evening", "afternoon", "night", "luck", "tomorrow", "later", "soon", "weekend", "day", "worries", "problem", "pleasure", "agree", "fair", "enough", "exactly", "awesome", "exciting", "sweet", "phew", "ugh", "brb", "congrats", "congratulations", "totally", "absolutely", "definitely", "course", "happy", "help", "helps", "sleep", "enjoy", "cheers", "take", "care", "same", "there", "again", "done", "true", "wonderful", "excellent", "amazing", "works", "for", "me", "you", "too", "i", "that's", "it's", "you're", "it", "is", "a", "lot", "so", "much", "very", "my", "of", "the", "at", "all", "to", "and", "have", "an", "your", "that", "this", "be", "will", "do", "i'll", "we", "back", "oh", "then", "been", "kind", "mean", "course", "deal", "how's", "going", "everything", "bit", "guess", "hope", "guten", "tag", "morgen", "abend", "nacht", "danke", "dir", "ihnen", "bis", "später", "klar", "alles", "gut", "ja", "nein", "genau", "super", "toll", "na", "tschüss", "schönes", "wochenende", "schön", "merci", "beaucoup", "bonjour", "bonsoir", "bonne", "soirée", "journée", "rien", "oui", "non", "d'accord", "gracias", "hasta", "luego", "hola", "muchas", "adiós", "buenas", "noches", "buenos", "días", "vale", "claro", "sí"]
)
_GREETING: Final = re.compile(
    r"^(?:thanks|thank you|see you|good (?:morning|night|evening|luck)|bye|hi|hello|hey|have a|talk to you|welcome|congrat\w*|sounds|you're"
    r" welcome|no (?:worries|problem|hurry)|of course|take (?:care|your time)|sorry to|nice to|glad|happy to|got it|never mind|don't"
    r" (?:worry|mention)|enjoy|stay|will do|good to|okay?,? \w+ (?:it is|then)|danke|merci|gracias|how (?:nice|exciting|lovely)|what a"
    r"|i(?:'ll| will) (?:remember|keep|do|let you|be|think|look|ask|see)|i (?:know|see|agree|understand|hope|guess|wish|can't believe))\b"
    r"(?!.*\d)[^,;:]{0,50}$|^(?:thank\w*|sorry|welcome|hi|hello|hey)\b(?!.*\d)[^.]{0,30}$",
    re.IGNORECASE,
)
_REPLY: Final = re.compile(r"^\W*(?:i know|i see|i agree|i think so(?: too)?|me too|fair enough|that's \w+|oh no)\W*$", re.IGNORECASE)
_ASKS: Final = re.compile(
    r"^(?:(?:and|but|so|or|ok|okay|well|hey|hi)[, ]+)*"
    r"(?:(?:what|where|who|whose|which|why|how)\b(?!ever| a\b| an\b| nice| exciting| lovely)(?:'s|'re| (?:\w+ ){0,3}?(?:is|are|was|were|do|does|did|can|could|will"
    r"|would|should|shall|have|has|had|may|might)\b)|how about\b|what about\b"
    r"|when(?:'s| is| are| was| were| do| does| did| will| can| could| should| would) "
    r"|(?:do|does|did|is|are|was|were|can|could|will|would|should|shall|have|has|had|may|isn't|aren't|doesn't|won't|can't)"
    r" (?:you|i|we|they|he|she|it|there|the|my|your|our|this|that|these|those|anyone|anybody|somebody|someone|any) |^don't (?:you|they|we) "
    r"|(?:wer|was|wann|wo|wie|warum|wieso|welche[rsnm]?|wohin|woher|wem|wen|wieviel) \w+|(?:ist|sind|hast|habt|haben|kannst|könntest|weißt|gibt)"
    r" (?:du|ihr|sie|es|der|die|das|dein)\b|(?:où|quand|comment|pourquoi|combien|quel(?:le)?s?|qui|est-ce que?|qu'est-ce)\b"
    r"|(?:dónde|cuándo|cómo|qué|quién|quiénes|cuánto|cuánta|cuántos|cuál|por qué)\b)",
    re.IGNORECASE,
)
_CORRECTS: Final = _any(
    r"^\W*(?:(?:quick|small) )?correction\b|^(?:oh,? )?(?:no|nope|wait|sorry|oops|hm+|ach|nein|non)\b(?:[, .…-]+(?:no|wait|sorry|not so fast|actually|about \w[\w ]{0,30}:))*[,:. -]+"
    r"(?:it'?s|it is|it was|that'?s|that was|the\b|my\b|our\b|i meant|i mean\b|make (?:that|it)|not\b|there (?:are|is)\b|only\b|on (?:the )?\w*(?:day|\d)"
    r"|es (?:ist|war|sind)|am (?!ende)|nicht\b|der\b|die\b|das\b|c'est|c'était|le\b|la\b|pas\b|es\b|era\b|son\b|el\b|[\w']+(?: \w+){0,2} \d|\d"
    rf"|(?:{_WEEKDAY})\b|[A-Z]\w+[,.])",
    r"^\W*(?:actually|in fact|eigentlich|tatsächlich|en fait|en realidad|mejor dicho|bzw)\b[, ]",
    r"\bi (?:meant|misspoke|mixed (?:that|it|them|this) up|got (?:that|it) wrong|was wrong|looked at the wrong)\b|\bi mean (?:the )?(?:\d|[A-Z])",
    r"\b(?:scratch|forget|ignore|strike) (?:that|what i said)\b|\bmake (?:that|it) (?:\d|the\b|an?\b|one\b|two\b|three\b|four\b|five\b|six\b|[A-Z])",
    r"\b(?:my mistake|my bad|was a typo|i stand corrected|was mistaken|that was wrong|let me correct)\b",
    r"\b(?:no longer|not \w+(?: \w+){0,5} any ?more|doesn't \w+(?: \w+){0,5} any ?more|don't \w+(?: \w+){0,5} any ?more|isn't \w+(?: \w+){0,5} any ?more)\b",
    r"\b(?:was|is|were|been|being|has|have|had) (?:now |just )?(?:moved|changed|rescheduled|postponed|extended|replaced|switched|pushed back"
    r"|brought forward|cancel+ed)\b",
    r"\b(?:moved|changed|switched|rescheduled|postponed|extended|renamed|migrated|upgraded) (?:\w+ ){0,6}(?:to|from|by)\b(?! (?:me|you|us)\b)",
    r"\btook over\b(?= (?:from|for|now|instead)|[.!]*$)",
    r"^not (?:on )?(?:the )?\w+(?: \w+)?,? but (?:on )?(?:the )?\w+|\bnot (?:on |at |in |the )*\w+,? but (?:on |at |in |the )*\w+",
    r"\b(?:now|today)\b[^.;]{0,40},? (?:and )?not (?:at |in |on |the )*[\w:]+\W*$|, not (?:at |in |on |the |my )*[\w:]+\W*$",
    r"\binstead of\b[^.]*\bnow\b|\bnow\b[^.]*\binstead of\b",
    r"\bnicht (?:\w+,? ){1,4}?sondern\b|\b\w+, nicht (?:am |um |im )?\w+\W*$|\bich (?:meinte|meine natürlich)\b|\bnicht mehr\b|\bdoch (?:erst|nicht|am|um)\b"
    r"|\bstattdessen\b|^korrektur\b|\bwurde (?:auf|verschoben|verlegt|geändert)\b|\bverschoben\b",
    r"\bje voulais dire\b|\bpas \w+(?: \w+)?,? mais\b|\bn[e'] ?\w+ plus\b|\ba été (?:déplacé|reporté|changé)|^plutôt\b|^correction\b",
    r"\bquise decir\b|\bno \w+(?: \w+)?,? sino\b|\bya no\b|\bse (?:cambió|aplazó|movió)|^corrección\b|\bme equivoqué\b",
)
_CLOSED: Final = re.compile(r"\b(?:matter|worry|problem|doubt|idea|longer than)\b", re.IGNORECASE)
_OPEN: Final = _any(
    r"\b(?:i|we|they|nobody|no one)(?:'ve| have|'re| are)? (?:still )?(?:don't|do not|doesn't|didn't|not|haven't|hasn't) (?:yet |quite )?(?:know|decided?|settled|agreed|chosen|sure)"
    r"(?: yet)?,? (?:on |about )?(?:a |the |who|what(?! to (?:say|think))|which|when|where|whether|if|how)",
    r"\b(?:still|is|are|remains?) (?:still )?(?:open|unclear|undecided|unknown|not clear)\b(?: yet)?,? (?:who|what|which|when|where|whether|if|how)",
    r"^(?:still )?(?:to be (?:decided|clarified|discussed|determined)|tbd|open (?:question|point|issue)|undecided)\b.*\w{3}",
    r"\b(?:need|have) to (?:find out|decide|clarify|figure out|settle) (?:who|what|which|when|where|whether|if|how|on)\b",
    r"\bnoch (?:offen|unklar|nicht (?:klar|entschieden))\b|\bwissen noch nicht\b|\bmüssen noch (?:klären|entscheiden)\b",
    r"\bne (?:sait|savons) pas encore\b|\breste à (?:décider|savoir)\b|\bn'(?:a|avons) pas encore (?:décidé|choisi)",
    r"\b(?:todavía|aún) no (?:sabemos|sé|hemos decidido|se sabe)\b|\bpor decidir\b|\bfalta (?:decidir|saber)\b",
)
_VERB_OF_RULE: Final = (
    r"use|keep|avoid|stick to|call me|address me|answer|reply|respond|write (?:to me|all|the|your|in|short)|speak|ask me|treat|make sure|let me know before"
    r"|include|deploy|format|respect|name|put|sign|cite|spell|send|book|share|publish|mention|tell|touch|give|check|remind|round|start|end"
)
_INSTRUCTS: Final = _any(
    rf"^(?:please,? )?(?:always|never|only ever|only)\b,? (?!mind|again|been|had|a\b|the\b|one\b|one\b|say never)(?:ever )?(?:{_VERB_OF_RULE}|\w+ (?:me|us|my|our|the|any|a|an|your|in|with|before|from|to|flights|metric|more|for)\b)",
    r"^(?:please,? )?from now on\b",
    r"^(?:please,? )?(?:don't|do not|dont) (?!worry|bother|be |forget|mention|get me|know|think|care|like|love|want|have|need|eat|drink|tell me|i |you )\w+ \w+",
    r"^(?:please,? )?(?:use|keep|avoid|stick to|call me(?= [A-Z])|address me|ask me before|make sure|let me know before|treat) (?!it up\b|in touch\b|going\b|it\b(?! (?:short|brief))|that in mind|this in mind|me (?:posted|updated))\w+",
    r"^(?:please,? )?(?:when|whenever|if|before|after|every time|each time|in case) (?:you|we|i ask you)\b[^,]*,? (?:always |never |please )*(?!i\b|we\b|you\b|it\b|that\b|they\b|he\b|she\b|would|can|there)\w+",
    r"\byou (?:must|may|should|have to|are to) (?:always |never |not |only )?(?!be\b|know|see|come|try|hear|have\b|rest|really)\w+(?: \w+)+",
    r"^(?:bitte )?(?:\w+e|schreib|sprich|nenn|frag|gib|ruf) (?:mir |mich |uns |dich )?(?:bitte )?(?:immer|nie|niemals|nur|ab jetzt)\b|^(?:ab jetzt|von nun an|bitte (?:immer|nie))\b",
    r"^(?:\w+s|\w+e|ne \w+|n'\w+)(?:-moi)? (?:toujours|jamais|désormais)\b|^(?:à partir de maintenant|désormais|toujours \w+er)\b",
    r"^(?:nunca|siempre|a partir de ahora|de ahora en adelante) \w+|^\w+[ea](?:me|nos)? (?:siempre|nunca)\b",
)
_COMMANDS: Final = _any(
    r"^(?:please|pls|kindly)\b,? (?!note|remember)\w+|^(?:can|could|would|will) you (?:please )?\w+|^i(?:'d| would) like you to\b|^i (?:want|need) you to\b",
    r"^(?:send|open|show|book|give|tell|call|add|check|write|look|turn|run|find|remind|translate|put|bring|buy|get|go|take|try|read|start|stop"
    r"|close|delete|remove|create|set|order|search|list|explain|help|summari[sz]e|plan|draft|fix|update|move|copy|print|wait|let me|come|ask"
    r"|make|do|deploy|migrate|install|rename|compare|calculate|count|sort|save|upload|download|cancel|confirm|schedule|invite|pick|play|repeat"
    r"|reply|answer|forward|describe|suggest|recommend|prepare|pay|paint|clean|think|remember|note|build|test|merge|push|pull|commit|have a"
    r"|use|keep|say|imagine|guess|listen|watch|follow|hold|leave|then|say|don't forget|ship|edit|review|don't)\b"
    r"(?! (?:is|are|was|were|has|starts|begins|ends|of|to the|day|price|runs|will)\b)(?! I\b)",
    r"^(?:bitte|schick|ruf|zeig|gib|mach|such|öffne|buch|schreib|sag|finde?|erinnere|erinner|lies|hol|kauf|bring|nimm|komm|lass|stell)\b",
    r"^\w+e[zs]?-(?:moi|nous|le|la)\b|^(?:envoie|appelle|montre|donne|ouvre|cherche|réserve|fais|mets|dis|écris|ajoute|rappelle|vérifie|achète|prends)\b",
    r"^(?:\w+[áéí]\w*me|manda|envía|llama|muestra|dame|abre|busca|reserva|haz|pon|dime|escribe|añade|recuérdame|compra|traduce)\b",
)
_DECIDES: Final = _any(
    r"\b(?:i|we|they|team|board|she|he|[A-Z]\w+)(?:'ve| have| has|'s)?(?: just| finally| now| also)? (?:decided|agreed|settled|chose|chosen|picked|opted|went) (?!for a\b|to the\b|home|out\b|well|up\b|back|on a\b|shopping)"
    r"(?:to|on|that|against|for|with|not|the|an?|our|my|\w+ing|[A-Z]\w+|\d)",
    r"\b(?:i|we) have (?:finally )?(?:decided|agreed|settled|chosen|picked)\b",
    r"^let'?s (?:go (?:with|for)|use|take|keep|stick (?:with|to)|do|say|make it|choose|pick|move to|switch to|drop|ship|meet)\b (?!it\b|this\b|that\b|a break)\w+",
    r"\b(?:i'm|i am|we're|we are) going (?:to (?:take|rent|buy|sell|move|use|keep|hire|build|switch|study|marry|adopt|open|close|start|quit|replace|drop|name|call|stay with)\b|with\b)",
    r"\bthe decision is\b|\bit(?:'s| is| was) decided\b|\b(?:was|were|has been) (?:decided|agreed)\b",
    r"\b(?:entschieden|beschlossen|geeinigt)\b|^wir (?:nehmen|machen|bleiben bei|wählen)\b(?! (?:das|es|eine pause)\b)",
    r"\b(?:avons|a|ai|ont|j'ai) (?:décidé|choisi|convenu|opté)\b|^on (?:prend|garde|choisit) (?!ça)",
    r"\b(?:hemos|he|han) (?:decidido|elegido|acordado)\b|^(?:decidimos|elegimos|acordamos|quedamos en)\b",
)
_WISHED: Final = re.compile(
    r"\b(?:would love|'d love|would like|'d like|love to (?:hear|see|know)|hate to|like to (?:know|see|hear|ask|think)|if you (?:like|prefer)|might|maybe|perhaps|wish|"
    r"as (?:i|you|we) like|whatever you|do(?:es)? (?:you|he|she) (?:like|prefer)|want to try)\b",
    re.IGNORECASE,
)
_NO_OBJECT: Final = r"(?!it\b|that\b|this\b|them\b|those\b|these\b|you\b|your\b|how\b|what\b|when\b|where\b|the (?:sound|way|look|idea|vibe|new)|so\b|too\b|hearing|seeing|a lot\b|[.!]|$)"
_PREFERS: Final = _any(
    rf"\b(?:i|we|he|she|they|(?!sounds|looks|feels|seems|tastes|something|just|is|was|are|be|been|more|much|people|would|that|what|not|it)\w+)(?:'d| would)?(?: really| absolutely| always| usually| still| never| much| just| both| only)* (?:prefers?|loves?|adores?|enjoys?|hates?|dislikes?|likes?|can't stand|cannot stand"
    rf"|(?:don't|do not|doesn't) (?:like|enjoy|want any)|despises?) {_NO_OBJECT}",
    r"\b(?:my|our|his|her|\w+'s) (?:all-time )?favou?rite [\w ]{2,30}?(?:is|are|was)\b|\b(?:is|are) (?:my|our|his|her|\w+'s) favou?rite\b|\blike best\b",
    r"\b(?:i|we) (?:value|care about|stand for|believe in) (?!it\b|that\b|this\b|you\b|your\b)\w",
    r"\b(?:i'd|i would|we'd|he'd|she'd) rather \w+.* than\b|\b(?:fond of|keen on|a big fan of|not a fan of|passionate about)\b (?!you|that|this|it\b)",
    r"\b(?:ich|wir|er|sie|[A-ZÄÖÜ]\w+) (?:\w+ )?(?:mag|mögen|liebe|liebt|hasse|hasst|bevorzuge|bevorzugt)\b (?!es\b|das\b|dich|sie\b|ihn)|\b\w+e lieber\b|\b\w+t lieber\b",
    r"\b(?:je|j'|il|elle|nous|on) ?(?:n')?(?:préfère|préférons|adore|aime(?! ça)|déteste)|\bj'(?:adore|aime(?! ça)|aime pas|ai horreur)",
    r"\b(?:me|nos|le) (?:gusta|gustan|encanta|encantan)\b(?!\W*$)|^(?:prefiero|odio|detesto|adoro)\b",
)
_PASSING: Final = re.compile(
    r"^(?:i|we)(?:'m| am|'re| are|'ve been| was| were)(?: just| still| all| both| also| always| never| not)? (?:a bit|a little|so\b|very|really|too\b|quite|pretty|kind of|"
    r"happy|sad|tired|sorry|glad|back|here|on (?:my|our|the|it)|sure|afraid (?:i|we|not)|curious|about to|done|ready|busy|nervous|excited|fine|good|ok|"
    r"looking|thinking|trying|going to (?:bed|sleep|have|be|go|the)|just|wondering|hoping|late|hungry|sick|stuck|lost|in (?:a hurry|the|bed)|proud|thrilled|"
    r"not sure|feeling|having|sitting|getting|setting|working on it|at home|out\b|off\b|with you|impressed|confused)"
    r"|^(?:i|we) (?:think|guess|hope|wonder|know|see|agree|believe|mean|suppose|feel|wish|bet|doubt|assume|remember|forgot|want|need(?! (?:\d|two|three|four|five))|could|should|would|might|may|can(?!')|cannot|"
    r"can't (?!eat|drink|swim|drive|stand\b)|don't (?:know|think|mind|care|remember|understand|see|get|want)|didn't|couldn't|wouldn't|shouldn't|just|really (?!love|hate|like|enjoy)|had (?:an?|lunch|such|dinner|breakfast|soup|so|to|the|some|no)|"
    r"got (?:up|home|back|it|the|a)|thought|tried|was just|do\b|did\b|love it|like it|have (?:to|no idea|some time|time|an idea|it|a question|the feeling|what))\b"
    r"|^(?:i|we)(?:'ll| will|'d(?! rather))\b|^(?:i|we) finally have some\b|^(?:je|j'|nous) ?(?:ne )?(?:sais|pense|crois|peux|vais|veux|viens|suis (?:fatigué|content|désolé|en route|prêt|là))"
    r"|^(?:ich|wir) (?:glaube|denke|hoffe|weiß|will|kann|muss|komme|bin (?:müde|froh|gleich|da|so|gerade|nicht sicher|unterwegs))|^(?:creo|pienso|espero|sé|quiero|voy|estoy|no sé|puedo|tengo que)\b"
    r"|^(?:das|es|dies) (?:ist|war|klingt|wird|wäre|hat|geht|sieht|macht|tut|passt)\b|^(?:c'est|c'était|ça|cela|il y a|il fait|il faut)\b|^(?:fue|eso|esto|es (?:muy|un|una|que)|está|hace|hay|parece)\b",
    re.IGNORECASE,
)
_OTHER_FIRST: Final = _any(
    r"^(?:ich|wir) (?:wohne\w*|lebe\w*|arbeite\w*|heiße\w*|habe|haben|bin|sind|spreche\w*|esse\w*|trinke\w*|vertrage\w*|studiere\w*|fahre\w*|besitze\w*|spiele\w*|komme\w* aus|benutze\w*|nutze\w*)\b \w+",
    r"^(?:je|j'|nous|on) ?(?:n[e'] ?)?(?:suis|habite|habitons|vis|travaille|travaillons|ai|avons|parle|mange|bois|étudie|m'appelle|joue|possède|utilise|sommes)\b \w+",
    r"^(?:yo )?(?:no )?(?:soy|somos|vivo|vivimos|trabajo|trabajamos|tengo|tenemos|hablo|como|bebo|estudio|me llamo|uso|juego|conduzco)\b \w+",
)
_GERMAN: Final = (
    "ist|sind|hat|haben|wohnt|lebt|arbeitet|heißt|kostet|liegt|steht|spricht|läuft|braucht|spielt|studiert|gehört|fährt|beginnt|endet"
    "|öffnet|schließt|kommt|findet|kann|muss|darf|isst|trinkt|hängt"
)
_FRENCH: Final = (
    "est|sont|a (?:un|une|des|le|la|du)|ont|habite|travaille|vit|coûte|s'appelle|parle|joue|étudie|contient|commence|finit|ouvre|ferme"
    "|arrive|part|appartient|doit|peut"
)
_SPANISH: Final = (
    "es|son|tiene|tienen|vive|viven|trabaja|trabajan|cuesta|cuestan|está|están|se llama|habla|juega|estudia|contiene|empieza|termina"
    "|abre|cierra|llega|sale|pertenece|debe|puede"
)
_OTHER_VERBS: Final = frozenset(
    word for word in f"{_GERMAN}|{_FRENCH}|{_SPANISH}".split("|") if word.isalpha()
) - {"es", "son", "part", "hat", "une", "des", "le", "la"}
_OTHER_NOUN: Final = _any(
    rf"^(?:(?i:mein|meine|unser|unsere|der|die|das|sein|seine|ihr|ihre|herr|frau|ein|eine)|[A-ZÄÖÜ][\wäöüß-]+)(?: [\wäöüß-]+){{0,4}}? (?:{_GERMAN})\b \S",
    rf"^(?:(?i:mon|ma|mes|notre|nos|le|la|les|l'|son|sa|un|une)|[A-ZÉ]\w+)(?: ?[\wéèêçàœ'-]+){{0,4}}? (?:{_FRENCH})\b \S",
    rf"^(?:(?i:mi|mis|nuestro|nuestra|el|la|los|las|su|un|una)|[A-ZÁÉ]\w+)(?: [\wáéíóúñ-]+){{0,4}}? (?:{_SPANISH})\b \S",
    flags=re.NOFLAG,
)


def _is_small_talk(text: str, told: str) -> bool:
    words = {word.lower() for word in _WORDS(text)}
    return words <= _SMALL_TALK or bool(_REPLY.match(text) or _GREETING.match(text) or _GREETING.match(told))


def _is_question(text: str, told: str) -> bool:
    return text.rstrip(" .…)\"'*_:;-").endswith(("?", "？")) or text.startswith("¿") or bool(_ASKS.match(told))


def _is_fragment(text: str, told: str) -> bool:
    return told.rstrip().endswith(":") or bool(re.match(r"^\S+://\S+$", text))


def _is_corrective(text: str, told: str) -> bool:
    is_said = bool(_CORRECTS.search(text) or _CORRECTS.match(told)) and len(_WORDS(text)) > 1
    return is_said and not _CLOSED.search(text) and not _JUDGES.search(told)


def _is_open(text: str, told: str) -> bool:
    del text
    return bool(_OPEN.search(told))


def _is_instruction(text: str, told: str) -> bool:
    del text
    return bool(_INSTRUCTS.search(told))


def _is_decision(text: str, told: str) -> bool:
    return bool(_DECIDES.search(told)) and not re.search(r"\b(?:can't|cannot|if|should|might|not yet)\b", text, re.IGNORECASE)


def _is_command(text: str, told: str) -> bool:
    del text
    return bool(_COMMANDS.match(told))


_RULES: Final = (
    (SentenceKind.QUESTION, _is_question),
    (SentenceKind.SMALL_TALK, _is_small_talk),
    (SentenceKind.FRAGMENT, _is_fragment),
    (SentenceKind.OPEN_QUESTION, _is_open),
    (SentenceKind.CORRECTION, _is_corrective),
    (SentenceKind.INSTRUCTION, _is_instruction),
    (SentenceKind.DECISION, _is_decision),
    (SentenceKind.COMMAND, _is_command),
)


def _declared(told: str) -> SentenceKind:
    """The kind of a sentence that only declares something."""
    words = _WORDS(told.lower())
    if _PASSING.match(told):
        return SentenceKind.REMARK
    if _PREFERS.search(told):
        return SentenceKind.REMARK if _WISHED.search(told) else SentenceKind.PREFERENCE
    place = _verb_place(words)
    is_other = bool(_OTHER_FIRST.match(told) or _OTHER_NOUN.match(told))
    is_mine = words[0] in {"i", "we", "i'm", "we're", "i've", "we've"}
    if place is None and not is_other and not is_mine:
        return SentenceKind.FRAGMENT
    if not (is_other or _is_lasting(told, words, place or 1, is_mine=is_mine)):
        return SentenceKind.REMARK
    return SentenceKind.DATE if _WHEN.search(told) else SentenceKind.STATEMENT


_FIRST: Final = re.compile(rf"^(?:i|we)(?:'m| am|'re| are)(?: also| now| originally)? (?:{_BEING})|^(?:i|we)(?:'ve)?(?: also| now| both)? (?:{_STATES})\b", re.IGNORECASE)
_HAVE: Final = re.compile(r"^(?:i|we)(?: also| now)? have (?:an?|two|three|four|five|six|\d+|no|\w+s\b)(?! (?:bit|lot|feeling|question|idea|look|minute|moment|plan))", re.IGNORECASE)
_OF_THEM: Final = re.compile(
    r"^(?:he|she|they)(?:'s|'re| is| are) (?:also )?(?:an? (?!bit|lot|little|mess)\w+|the \w+ of|\w*allergic|vegan|vegetarian|diabetic|\d+|afraid of|from [A-Z]|married|pregnant|retired)"
    r"|^(?:he|she|they) (?:lives?|works?|teach\w*|stud\w+|speaks?|plays?|can't (?:eat|drink)|doesn't (?:eat|drink)|has (?:an?|two|three|\d)|owns?|prefers?)\b|^(?:her|his|their|its) name\b",
    re.IGNORECASE,
)
_REPORTED: Final = re.compile(r"\b(?:thought|said|wondered|asked|told me|thinks|says|guess|seems?|looks like|would|could|might|maybe|perhaps|if)\b", re.IGNORECASE)
_JUDGES: Final = re.compile(rf"\b(?:is|are|was|were|'s|looks?|sounds?|seems?|feels?|tastes?)(?: \w+ly)? {_JUDGED}", re.IGNORECASE)


_JUST: Final = frozenset(["just", "again", "finally", "yesterday", "today", "already"])
_OPENERS: Final = frozenset(["what", "how", "then", "maybe", "just", "nothing", "not", "no", "as", "rest", "now", "today"])


def _is_lasting(told: str, words: list[str], place: int, *, is_mine: bool) -> bool:
    """Whether a declarative sentence says something that a later question may ask for."""
    has_value = bool(_FIGURE.search(told) or _WHEN.search(told) or _NAMED.search(told))
    if is_mine:
        return bool(_FIRST.match(told) or _HAVE.match(told) or (has_value and not _REPORTED.search(told)))
    if _REPORTED.search(told) and not _FIGURE.search(told):
        return False
    head = words[0].partition("'")[0]
    if head in _PRONOUNS:
        return bool(_OF_THEM.match(told)) or (head in {"it", "its", "he", "she", "they"} and bool(_FIGURE.search(told) or (head != "it" and has_value)))
    verb = words[place]
    is_past = verb not in _AUXILIARIES and (verb in _PAST or verb.endswith("ed"))
    is_event = is_past and not has_value and (len(words) < 4 or not _JUST.isdisjoint(words))
    is_none = _JUDGES.search(told) or is_event or head in _OPENERS or head[:1].isdigit()
    return not is_none and len(words) > place + 1


# ── Values ──────────────────────────────────────────────────────────────────────────────

_ORDINAL: Final = (
    rf"\b(?:{_MONTH}) \d{{1,2}}(?:st|nd|rd|th)?\b|\b\d{{1,2}}(?:st|nd|rd|th|er|\.)?(?: of| de)? (?:{_MONTH})\b"
    r"|\b\d{1,2}(?:st|nd|rd|th)\b|(?<=\bder )\d{1,2}\.(?!\d)|(?<=\b[ad]en )\d{1,2}\.(?!\d)|(?<=\bam )\d{1,2}\.(?!\d)|\b\d{4}-\d{2}-\d{2}\b"
)
_CLOCK: Final = (
    r"(?:\b\d{1,2}[:.]\d{2}(?: ?(?:am|pm|uhr|h))?\b|\b\d{1,2} ?(?:am|pm|uhr|o'clock)\b"
    r"|\b(?:at|um|till|until|to) (?:half past )?(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|noon"
    r"|eins|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf)\b(?! \w+s\b))"
)
_NUMBER: Final = r"(?<![\w.,])\d[\d,.]*\d(?![\w])|(?<![\w.,])\d(?![\w])|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|fifty)\b"
_NAME: Final = r"(?<=[^.!?:\s] )(?!I\b|I')[A-ZÄÖÜÉ][\w-]+|(?<=\()[A-Z]\w+"
_VALUES: Final = (
    ("weekday", re.compile(rf"\b(?:{_WEEKDAY}|tomorrow|today|tonight)\b", re.IGNORECASE)),
    ("date", re.compile(_ORDINAL, re.IGNORECASE)),
    ("time", re.compile(_CLOCK, re.IGNORECASE)),
    ("number", re.compile(_NUMBER, re.IGNORECASE)),
    ("name", re.compile(_NAME)),
)


def values_of(text: str) -> dict[str, tuple[str, ...]]:
    """The values in a text by kind: weekday, date, time, number, name. What is part of a date is no number.

    >>> values_of("On Friday the 14th at 19:00 Anna brings 12 glasses.")
    {'weekday': ('Friday',), 'date': ('14th',), 'time': ('19:00',), 'number': ('12',), 'name': ('Anna',)}
    """
    found = dict[str, tuple[str, ...]]()
    for kind, pattern in _VALUES:
        held = tuple(match[0] for match in pattern.finditer(text))
        if held:
            found[kind] = held
            text = pattern.sub(lambda match: " " * len(match[0]), text) if kind != "name" else text
    return found
