"""Words of a text: folded, cut and stemmed, in the same way for memories and for queries.

Case, accents, width and vowel points are folded away. Latin, Cyrillic, Greek, Arabic and other spaced scripts are cut
into words; Chinese, Japanese, Korean, Thai and their kin, which do without spaces or glue particles to words, into
overlapping pairs of characters. Numbers stay whole ("2.3.1", "10:30", "1,200"). No word is dropped here: only questions
drop stop words (`search.query`).
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final
from unicodedata import normalize

import Stemmer


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


# ── Forms ───────────────────────────────────────────────────────────────────────────────
# Forms of English words that no stemmer unites, and stop words.
#
# Irregular verbs and plurals, numbers in letters, short names of months, other words for the same thing. A plural in "s"
# counts as its singular. "lives" and "leaves" are not here: they are forms of verbs at least as often. Stop words are
# kept per language: a question loses those of its own language. All are folded (`search.tokens.fold`).

_VERBS: Final = """
arise arose arisen|awake awoke awoken|bear borne|beat beaten|become became|begin began begun|bend bent
bet bets|bind bound|bite bit bitten|bleed bled|blow blew blown|break broke broken|breed bred|bring brought
build built|burn burnt|buy bought|catch caught|choose chose chosen choice|cling clung|come came
creep crept|deal dealt|dig dug|draw drew drawn|dream dreamt|drink drank drunk|drive drove driven
eat ate eaten|fall fell fallen|feed fed|feel felt|fight fought|find found|flee fled|fly flew flown
forbid forbade forbidden|forget forgot forgotten|forgive forgave forgiven|freeze froze frozen|get got gotten
give gave given|go went gone goes|grow grew grown|hang hung|hear heard|hide hid hidden|hold held
keep kept|kneel knelt|know knew known|lay laid|lead led|lean leant|leap leapt|learn learnt|leave left
lend lent|lie lain|light lit|lose lost|make made|mean meant|meet met|pay paid|ride rode ridden
ring rang rung|rise risen|run ran|say said|see saw seen|seek sought|sell sold|send sent|shake shook shaken
shine shone|shoot shot|show shown|shrink shrank shrunk|sing sang sung|sink sank sunk|sit sat|sleep slept|slide slid
speak spoke spoken|speed sped|spend spent|spin spun|spring sprang sprung|stand stood|steal stole stolen
stick stuck|sting stung|strike struck|strive strove striven|swear swore sworn|sweep swept|swell swollen
swim swam swum|swing swung|take took taken|teach taught|tear tore torn|tell told|think thought|throw threw thrown
understand understood|undergo underwent|wake woke woken|wear wore worn|weave wove woven|weep wept|win won|write wrote written
"""
_NOUNS: Final = """
child children kid kids|foot feet|goose geese|man men|mouse mice|person people|tooth teeth
woman women|wife wives|knife knives|half halves|shelf shelves|loaf loaves|wolf wolves
mom mum mother mommy|dad father daddy|grandma grandmother granny|grandpa grandfather
1 one|2 two twice|3 three thrice|4 four|5 five|6 six|7 seven|8 eight|9 nine|10 ten|11 eleven|12 twelve|20 twenty
1st first|2nd second
january jan|february feb|march mar|april apr|june jun|july jul|august aug|september sept sep|october oct
november nov|december dec|monday mon|tuesday tue tues|wednesday wed|thursday thu thurs|friday fri
color colour|favorite favourite|neighbor neighbour|center centre|theater theatre|organize organise
tv television|photo photograph pic picture|phone telephone|movie film|fridge refrigerator|bike bicycle
exam examination|gym gymnasium|vet veterinarian|app application|ad advertisement|info information
"""


def _others(groups: str) -> dict[str, str]:
    """Each word but the first of a group, and its plural, with the first."""
    rows = [group.split() for group in groups.replace("\n", "|").split("|") if group.strip()]
    return {form: first for first, *others in rows for other in others for form in (f"{other}s", other)}


PAST_FORMS: Final = _others(_VERBS)
SAME_WORD: Final = PAST_FORMS | _others(_NOUNS)  # word → the word it counts as

_ENGLISH: Final = """
a about above after again against ain all along already also although always am among an and another any anybody
anyone anything are aren around as ask asked asking at away back be became because been before being below besides between
both but by came can cannot cant come could couldn did didn do does doesn doing don done dont down during
each either else ever every everyone everything few for from further get gets getting give given go goes going gone got
had hadn happen happened has hasn have haven having he hence her here hers herself him himself his how however
i if im in indeed instead into is isn it its itself ive just kind know known let ll made make
many may maybe me mention mentioned might mine mustn more most much must my myself near neither never no nobody none nor not
nothing now of off often ok on once one only onto or other others otherwise our ours ourselves out over own per perhaps
please quite rather re really regarding s said same say says see seem seemed seems she should shouldn since so some
somebody someone something sometimes still such t take tell than that thats the their theirs them themselves then there
therefore these they thing things this those though through throughout thus to together too toward towards under until
up upon us use used using ve very via want wants was wasn way we well went were weren what whatever when whenever where
whether which while who whoever whole whom whose why will with within without won would wouldn yes yet you your
yours yourself yourselves type
"""
_GERMAN: Final = """
aber alle als also am an auch auf aus bei bin bis bist da damit dann das dass dein deine dem den denn der des dich die
dies diese dieser dieses dir doch du durch ein eine einem einen einer eines er es euch euer fur habe haben hat hatte
ich ihm ihn ihnen ihr ihre im in ins ist ja jede jeder kann kein keine man mein meine meinem meinen meiner mich mir mit
nach nicht noch nun nur ob oder sehr sein seine sich sie sind so und uns unser vom von vor wann war waren warum was
weil welche welcher welches wem wen wenn wer werden wie wieder will wir wird wo wurde zu zum zur uber
"""
_FRENCH: Final = """
a ai alors as au aussi aux avec avez avoir c ce ces cette comme d dans de des dont du elle elles en est et etait ete
etre eu eux fait il ils j je l la le les leur lui m ma mais me meme mes moi mon n ne nos notre nous on ou par pas
plus pour pourquoi qu quand que quel quelle quelles quels qui s sa sans se ses si son sont sur t ta te tes toi ton tu
un une vos votre vous y
"""
_SPANISH: Final = """
a al algo como con cual cuales cuando cuanto de del desde donde el ella ellas ellos en entre era es esa ese eso esta
estaba estan este esto fue ha han hasta hay la las le les lo los mas me mi mis muy nada ni no nos o para pero por
porque que quien quienes se ser si sin sobre son su sus te tiene tu tus un una unas uno unos y ya yo
"""
_PORTUGUESE: Final = """
a ao aos as ate com como da das de dela dele deles depois do dos e ela elas ele eles em entre era essa esse esta estao
este eu foi ha isso isto ja la lhe mais mas me meu meus minha minhas muito na nao nas nem no nos nossa nosso num numa o
onde os ou para pela pelo por porque qual quais quando quanto que quem se sem ser seu seus so sua suas tambem te tem
tinha tu um uma voce
"""
_ITALIAN: Final = """
a ad ai al alla alle anche c che chi ci come con cosa cui da dal dalla de degli dei del della delle di do dove e ed
era fu gli ha hai hanno ho i il in io l la le lei lo loro lui ma mi mia mie miei mio ne nei nel nella noi non o per
perche piu qual quale quali quando quanto quella quello questa questo se si sono su sua sue sul sulla suo tra tu un una
uno vi voi
"""
_DUTCH: Final = """
aan al als bij dan dat de die dit door dus een en er ge geen had heb hebben heeft hem het hier hij hoe hun ik in is ja je
kan kon maar me men met mij mijn naar niet nog nu of om onder ons ook op over te tot uit van veel voor waar waarom was
wat we wel werd wie wij wil wordt ze zei zich zij zijn zo zou
"""
STOP_WORDS: Final = {
    "english": frozenset(_ENGLISH.split()),
    "german": frozenset(_GERMAN.split()),
    "french": frozenset(_FRENCH.split()),
    "spanish": frozenset(_SPANISH.split()),
    "portuguese": frozenset(_PORTUGUESE.split()),
    "italian": frozenset(_ITALIAN.split()),
    "dutch": frozenset(_DUTCH.split()),
}
_STOP_ARABIC: Final = (
    "في من على الي عن ما ماذا متي اين كيف هل هو هي هذا هذه التي الذي و او لا ان كان كانت مع انا انت"
)
_STOP_RUSSIAN: Final = "и в во не что он на я с со как а то все она так его но да ты к у же вы за бы по ее мне где когда кто о от из для это мы они мой моя"  # noqa: RUF001
_STOP_KANA: Final = "です ます した てい いる ある する から まで これ それ どこ どれ なに いつ だれ"
STOP_ELSEWHERE: Final = frozenset(f"{_STOP_ARABIC} {_STOP_RUSSIAN} {_STOP_KANA}".split())


MAX_WORD_CHARS: Final = 64  # a longer run of letters is not a word of a language, and is cut here

# Scripts without spaces between words, and Hangul, whose particles cling to the noun.
UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
)
# Vowel signs, which are not letters to `re`.
_MARKS: Final = "\u0591-\u05c7\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff\u0f00-\u0fff"
_EMOJI: Final = "\u2600-\u27bf\U0001f300-\U0001faff"
_NUMBER: Final = r"v(?=\d+\.\d)|\d+(?:[.,:]\d+)*(?:(?:st|nd|rd|th)\b)?"  # "v2.3.1" is "v" and a number

_ASCII_WORDS: Final = re.compile(rf"{_NUMBER}|[a-z0-9]+(?:'[a-z]+)?")
_UNSPACED_CHAR: Final = f"[{UNSPACED}]"
# The patterns for other scripts are compiled for the first text that is not ASCII: compiling takes some milliseconds.
_WORDS: Final = (
    rf"(?P<unspaced>[{UNSPACED}]+)|{_NUMBER}"
    rf"|(?:(?![{UNSPACED}_])[\w{_MARKS}])+(?:'[a-z]+)?|[{_EMOJI}]"
)
_HYPHENATED: Final = re.compile(r"(?<![\w-])([^\W\d_]{1,12})-([^\W_]{2,12})(?![\w-])")
_ACCENTS: Final = (
    r"(?<=[a-z\u0370-\u03ff\u0590-\u05ff\u0620-\u06ff])[\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u0640]+"
)
_HAN: Final = "[\u3005\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
_LETTERS: Final = str.maketrans(
    {
        "ё": "\u0435",
        "ى": "ي",
        "ة": "\u0647",
        "ـ": "",
        "ø": "o",
        "ł": "l",
        "đ": "d",
        "æ": "ae",
        "œ": "oe",
        "\u0131": "i",
    }
    | {"\u2019": "'", "\u2018": "'", "\u02bc": "'", "`": "'", "\u200c": "", "\u200d": "", "\u00ad": ""}
)
# Between words of ASCII stands whatever can be in none of them; `_` is in none either, but keeps "3rd_" from being one.
_SEPARATORS: Final = {
    code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) in "'.,:_`")
} | {ord("`"): "'"}
_THOUSANDS: Final = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_ORDINAL: Final = re.compile(r"(\d+)(?:st|nd|rd|th)")

# The stemmer for words that are not Latin, by the first letter.
_STEMMERS: Final = (
    ("\u0370", "\u03ff", "greek"),
    ("\u0400", "\u04ff", "russian"),
    ("\u0531", "\u058f", "armenian"),
    ("\u0620", "\u06ff", "arabic"),
    ("\u0900", "\u097f", "hindi"),
    ("\u0b80", "\u0bff", "tamil"),
)


def fold(text: str) -> str:
    """Text without case, accents, vowel points, or differences of width and apostrophe."""
    if text.isascii():
        return text.lower().replace("`", "'")
    decomposed = normalize("NFKD", normalize("NFKD", text).casefold())
    return normalize("NFC", re.sub(_ACCENTS, "", decomposed)).translate(_LETTERS)


def words(text: str) -> list[str]:
    """The folded words of a text, in order; in scripts without spaces, each pair of adjacent characters is a word.

    Args:
        text: any text; characters other than letters, digits and emoji separate words.
    """
    folded = fold(text)
    if folded.isascii():
        return _ASCII_WORDS.findall(folded)
    found: list[str] = []
    for match in re.finditer(_WORDS, folded):
        if match["unspaced"]:
            found += pairs(match["unspaced"])
        else:
            found.append(match[0])
    return found


def chunks(text: str) -> list[str] | None:
    """The parts of an ASCII text that can be cut into words one by one; None for any other text.

    Most parts are one word that was seen before, and a dictionary finds such a word faster than a pattern does.
    """
    return text.lower().translate(_SEPARATORS).split() if text.isascii() else None


def words_of(chunk: str) -> list[str]:
    """The words of one chunk, in order."""
    return _ASCII_WORDS.findall(chunk)


def pairs(run: str) -> list[str]:
    """The overlapping pairs of a run of characters; a single character stands alone."""
    return [run[i : i + 2] for i in range(len(run) - 1)] if len(run) > 1 else [run]


def asides(text: str) -> list[str]:
    """Other terms that find a text, beyond its words: each Han character, "email" for "e-mail", "e52" for "E-52"."""
    found = []
    if "-" in text:
        found = ["".join(parts) for parts in _HYPHENATED.findall(fold(" ".join(_with_hyphens(text))))]
    return found if text.isascii() else found + re.findall(_HAN, fold(text))


def _with_hyphens(text: str) -> Iterator[str]:
    """The parts of a text between spaces that contain a hyphen."""
    end, hyphen = 0, text.find("-")
    while hyphen >= 0:
        begin, end = text.rfind(" ", end, hyphen) + 1 or end, text.find(" ", hyphen)
        yield text[begin:end] if end >= 0 else text[begin:]
        hyphen = text.find("-", end) if end >= 0 else -1


def is_unspaced(word: str) -> bool:
    """Whether a word is of a script without spaces."""
    return not word.isascii() and bool(re.match(_UNSPACED_CHAR, word))


PLAIN, PAST, ING, DERIVED = range(4)  # the form of a word: tire and tires, tired, tiring, and any other
_DERIVED: Final = re.compile(
    r"(?:ers?|ors?|ions?|ments?|ly|able|ible|ive|al|ness|ity|ities|ous|ance|ence|ful)$"
)


def form_of(word: str, stem: str) -> int:
    """The form of a folded English word with this stem: PLAIN, PAST, ING or DERIVED; PLAIN in other scripts."""
    word = word.removesuffix("'s")
    if word.endswith("ed") and not stem.endswith("ed"):
        return PAST
    if word.endswith(("ing", "ings")) and not stem.endswith("ing"):
        return ING
    if word in PAST_FORMS:
        return PAST
    ending = _DERIVED.search(word)
    return DERIVED if ending and not stem.endswith(ending[0].removesuffix("s")) else PLAIN


# English words of one root that the stemmer keeps apart: allergy, allergies, allergic, allergist.
_KIN: Final = ("ies", "y", "ically", "ical", "ics", "ic", "ists", "ist")
_KIN_CHARS: Final = 4  # the shortest root


def kin_of(word: str) -> list[str]:
    """Words of the same root as a folded English word, although their stems differ; most of them do not exist.

    >>> kin_of("allergy")[:4]
    ['allergies', 'allergically', 'allergical', 'allergics']
    """
    ending = next((ending for ending in _KIN if word.endswith(ending)), "")
    root = word.removesuffix(ending)
    if not ending or len(root) < _KIN_CHARS:
        return []
    return [root + other for other in _KIN if other != ending]


@cache
def stemmer(language: str) -> Callable[[str], str]:
    """The stem of a folded word.

    Args:
        language: of words in Latin letters, as Snowball names it ("english", "german", "portuguese", …).

    Raises:
        KeyError: no such language.
    """
    engines = {name: Stemmer.Stemmer(name, 0) for name in {language, *(row[2] for row in _STEMMERS)}}
    latin, same = engines[language].stemWord, SAME_WORD if language == "english" else {}

    def stem(word: str) -> str:
        word = word[:MAX_WORD_CHARS]
        first = word[:1]
        if first.isascii():
            root = same.get(word.removesuffix("'s"), word)
            return _number(root) if root[:1].isdigit() else str(latin(root)) or root
        for low, high, name in _STEMMERS:
            if low <= first <= high:
                return str(engines[name].stemWord(word)) or word
        return str(latin(word)) if first < "\u0250" else word

    return stem


def _number(word: str) -> str:
    """1,200 is 1200 and 3rd is 3; times and versions stay as they are."""
    if ordinal := _ORDINAL.fullmatch(word):
        return ordinal[1]
    return word.replace(",", "") if _THOUSANDS.fullmatch(word) else word
