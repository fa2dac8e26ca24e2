"""The words of dates in English, German, French, Spanish, Portuguese, Italian and Dutch, and the months of Russian.

`search.dates` gives each word of a question a letter for its role, and knows dates as patterns of these letters. All words
are folded (`search.tokens.fold`). Apostrophes and hyphens separate words ("l'ete" is two words, "mid-march" too). A word
that is more often something else ("may", "sun", "ete") is *doubtful*: it needs a word beside it that makes it a date.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final, NamedTuple

from sense_memory.search.holidays import HOLIDAYS


class DateWord(NamedTuple):
    """The role of a word in dates.

    Attributes:
        role: a letter; see the constants of this module.
        value: what the word means in this role.
    """

    role: str
    value: Any = None


# ── Roles ───────────────────────────────────────────────────────────────────────────────

MONTH, DOUBTFUL_MONTH = "M", "m"  # 1 to 12
WEEKDAY, DOUBTFUL_WEEKDAY = "W", "w"  # 0 for Monday
SEASON, DOUBTFUL_SEASON = "S", "s"  # the first month
UNIT, WEEKEND, QUARTER = "U", "e", "u"  # a name of `_UNITS`
COUNT, ORDINAL_WORD = "n", "o"  # a number
STEP, STEP_AFTER = "R", "J"  # last -1, this 0, next 1; STEP_AFTER may also follow its noun: "mois dernier"
AGO, AGO_BEFORE = "A", "V"  # "ago"; "il y a", "hace"; "vor", which also means "before"
NEAR = "K"  # yesterday -1, tomorrow 1; or (days, part of the day)
TOMORROW = "Q"
PART = "P"  # a part of the day: its first and last hour
HOLIDAY = "H"  # a name of `HOLIDAYS`
UNITS = "Ueu"
EDGE = "E"  # "early" 0, "middle" 1, "end" 2
HALF = "h"  # of a year or month
LINK, AND, TO, ARTICLE, IN = "L", "&", "-", "t", "p"
BETWEEN, FROM = "B", "F"
BEFORE, AFTER, SINCE, UNTIL = "<", ">", "+", "_"
FOR = "f"  # makes a holiday a date, but no season: "plans for the summer" were made before
A, AN = "a", "i"  # English articles that count; prepositions of other languages, and "an" a French year
COUNTED = "c"  # a word after which a number is no year
OTHER = "z"

_MONTHS: Final = (
    "january jan januar janvier enero janeiro gennaio januari janner января январе январь",
    "february feb februar fevrier febrero fevereiro febbraio februari feber февраля феврале февраль",
    "march marz mars marzo marco maart марта марте март",
    "april apr avril abril aprile апреля апреле апрель",
    "may mai mayo maio maggio mei мая мае май",
    "june jun juni juin junio junho giugno июня июне июнь",
    "july jul juli juillet julio julho luglio июля июле июль",
    "august aug aout agosto augustus августа августе август",
    "september sept sep septembre septiembre setembro settembre сентября сентябре сентябрь",
    "october oct oktober okt octobre octubre outubro ottobre октября октябре октябрь",
    "november nov novembre noviembre novembro ноября ноябре ноябрь",
    "december dec dezember dez decembre diciembre dezembro dicembre декабря декабре декабрь",
)
_DOUBTFUL_MONTHS: Final = """
may march mars mar jan sep mai mei jun dec april june august avril abril aprile agosto augustus juni juin jul nov
"""
_WEEKDAYS: Final = (
    "monday montag lundi lunes segunda-feira lunedi maandag понедельник",
    "tuesday dienstag mardi martes terca-feira martedi dinsdag вторник",
    "wednesday mittwoch mercredi miercoles quarta-feira mercoledi woensdag среду",
    "thursday donnerstag jeudi jueves quinta-feira giovedi donderdag четверг",
    "friday freitag vendredi viernes sexta-feira venerdi vrijdag пятницу",
    "saturday samstag sonnabend samedi sabado sabato zaterdag субботу",
    "sunday sonntag dimanche domingo domenica zondag воскресенье",
)
_DOUBTFUL_WEEKDAYS: Final = ("mon", "tue tues", "wed", "thu thurs", "fri", "sat", "sun")
_SEASONS: Final = {
    3: "spring fruhling fruhjahr printemps primavera lente voorjaar",
    6: "summer sommer ete verano verao estate zomer",
    9: "autumn fall herbst automne otono outono autunno herfst",
    12: "winter hiver invierno inverno",
}
_UNITS: Final = {
    "minute": "minute minutes min minuten minuto minutos minuti minuut",
    "hour": "hour hours stunde stunden heure heures hora horas ora ore uur uren",
    "day": "day days night nights tag tage tagen tages jour jours dia dias giorno giorni dag dagen nachten nuits noches",
    "week": "week weeks woche wochen semaine semaines semana semanas settimana settimane weken",
    "weekend": "weekend weekends wochenende wochenenden weekeinde",
    "month": "month months monat monate monaten monats mois mes meses mese mesi maand maanden",
    "quarter": "quarter quarters quartal quartale quartals trimestre trimestres trimestri kwartaal",
    "year": "year years jahr jahre jahren jahres ans annee annees ano anos anni anno jaar jaren",
}
_NUMBERS: Final = (
    "zero null",
    "one ein eine einem einer eines einen un une una uno um uma een",
    "two zwei deux dos dois duas due twee",
    "three drei trois tres tre drie",
    "four vier quatre cuatro quatro quattro",
    "five funf cinq cinco cinque vijf",
    "six sechs seis sei zes",
    "seven sieben  siete sete sette zeven",
    "eight acht huit ocho oito otto",
    "nine neun neuf nueve nove negen",
    "ten zehn dix diez  dieci tien",
    "eleven elf onze once undici",
    "twelve zwolf douze doce doze dodici twaalf",
)
_ORDINALS: Final = (
    "first erste ersten erster erstes premier premiere primer primero primera primo primeiro primeira eerste",
    "second zweite zweiten zweiter zweites deuxieme segundo segunda secondo seconda tweede",
    "third dritte dritten dritter drittes troisieme tercer tercero tercera terzo terza terceiro terceira derde",
    "fourth vierte vierten viertes quatrieme cuarto cuarta quarto quarta vierde",
)
_STEPS: Final = {
    -2: "vorletzte vorletzten vorletztes vorletzter vorletztem",
    -1: """
last past previous letzte letzten letztes letzter letztem vergangene vergangenen vergangenes vergangener vorige vorigen voriges
voriger vorig afgelopen laatste прошлой прошлом прошлую прошлый
""",
    0: """
this these diese diesen dieses dieser diesem ce cet cette ces este esta estos estas esse essa neste nesta deste desta questo
questa quest questi queste dit deze этой этом эту этот
""",
    1: "next coming nachste nachsten nachstes nachster nachstem kommende kommenden kommendes volgende komende",
}
_STEPS_AFTER: Final = {
    -1: """
dernier derniere derniers dernieres passe passee pasado pasada pasados pasadas ultimo ultima ultimos ultimas passado passada
passados passadas scorso scorsa scorsi scorse ultimi ultime passato passata
""",
    1: "prochain prochaine prochains proximo proxima proximos prossimo prossima prossimi",
}
_NEAR: Final = {
    -2: "vorgestern anteayer antier anteontem eergisteren позавчера",
    -1: "yesterday gestern hier ayer ontem ieri gisteren вчера",
    0: "today heute hoy hoje oggi vandaag сегодня",
    1: "tomorrow demain amanha domani завтра",
    2: "ubermorgen dopodomani overmorgen послезавтра",
}
MORNING, _NOON, _AFTERNOON, _EVENING, _NIGHT = (5, 12), (11, 14), (12, 18), (17, 23), (18, 30)
_PARTS: Final = {
    MORNING: "morning mornings vormittag matin mattina mattino ochtend früh fruh madrugada утром",
    _NOON: "noon midday lunchtime mittag midi mediodia mezzogiorno",
    _AFTERNOON: "afternoon nachmittag pomeriggio middag днем",
    _EVENING: "evening abend soir soiree sera avond вечером",
    _NIGHT: "night nacht nuit noche noite notte ночью",
    (12, 20): "tarde",
}
_HOLIDAY_NAMES: Final = {
    "new year": "neujahr|neujahrstag|nouvel an|jour de l an|ano nuevo|ano novo|capodanno|nieuwjaar|new years|new year s day|new year s",
    "epiphany": "dreikonigstag|heilige drei konige|dia de reyes|los reyes|epiphanie|befana|epifania|dia de reis",
    "valentine": "valentine s day|valentines day|valentinstag|saint valentin|san valentin|san valentino|valentijnsdag",
    "carnival": "karneval|fasching|carnaval|carnevale|mardi gras",
    "ash wednesday": "aschermittwoch|mercredi des cendres|miercoles de ceniza|quarta feira de cinzas",
    "saint patrick": "st patrick s day|saint patrick s day",
    "holy week": "karwoche|semaine sainte|semana santa|settimana santa",
    "palm sunday": "palmsonntag|domingo de ramos|dimanche des rameaux",
    "maundy thursday": "grundonnerstag|jueves santo|jeudi saint",
    "good friday": "karfreitag|vendredi saint|viernes santo|sexta feira santa|venerdi santo|goede vrijdag",
    "easter": "ostern|osterferien|paques|pascua|pascoa|pasqua|pasen|easter weekend|osterwochenende",
    "easter sunday": "ostersonntag|dimanche de paques|domingo de pascua|domingo de resurreccion",
    "easter monday": "ostermontag|lundi de paques|pasquetta|lunes de pascua",
    "kings day": "koningsdag",
    "may day": "tag der arbeit|fete du travail|dia del trabajo|dia do trabalho|festa del lavoro",
    "mothers day": "mother s day|muttertag|moederdag",
    "ascension": "ascension day|himmelfahrt|christi himmelfahrt|vatertag|hemelvaart",
    "pentecost": "whitsun|whit sunday|whitsuntide|pfingsten|pentecote|pentecostes|pentecoste|pinksteren",
    "whit monday": "pfingstmontag|lundi de pentecote",
    "corpus christi": "fronleichnam|fete dieu",
    "fathers day": "father s day|fete des peres|vaderdag",
    "midsummer": "san juan|noche de san juan",
    "independence day": "fourth of july|the fourth of july",
    "bastille day": "quatorze juillet|fete nationale",
    "assumption": "maria himmelfahrt|ferragosto|la asuncion|l assomption",
    "labor day": "labour day",
    "german unity": "tag der deutschen einheit",
    "all saints": "all saints day|allerheiligen|toussaint|todos los santos|ognissanti|todos os santos",
    "all souls": "all souls day|allerseelen|dia de los muertos|dia de muertos|finados",
    "martinmas": "martinstag|sankt martin|sint maarten",
    "thanksgiving": "thanksgiving day",
    "saint nicholas": "nikolaus|nikolaustag|saint nicolas|sinterklaas",
    "christmas eve": "heiligabend|heiliger abend|nochebuena|vispera de navidad|veille de noel|reveillon de noel|vigilia di natale|kerstavond",
    "christmas": "xmas|weihnachten|weihnachtsferien|noel|navidad|navidades|natal|natale|kerst|kerstmis",
    "christmas day": "erster weihnachtstag|jour de noel|dia de navidad",
    "boxing day": "zweiter weihnachtstag|saint etienne|santo stefano|tweede kerstdag",
    "new years eve": "new year s eve|silvester|silvesterabend|saint sylvestre|nochevieja|reveillon|noche vieja|san silvestro|oudejaarsavond|oud en nieuw",
}
_EDGES: Final = (
    "early beginning start anfang beginn debut principios inicios principio comienzos inicio inizio begin",
    "mid middle mitte milieu mi mediados meados meta midden",
    "late end ende fin finales fim final fine eind einde",
)
_ROLES: Final = {
    LINK: "of de del des di do da von van d dos della dell dello degli",
    AND: "and und et y e",
    TO: "to bis a au al through thru tot",
    ARTICLE: "the der die das dem den le la les l el los las il lo o as os het gli",
    IN: """
in on at during over around within im am en aux em no na nos nas nel nella nell sul op om rond por durante pendant dans
lors con zu zum zur auf uber pour para per met with ins um wahrend gegen vers hacia в на по nei nelle ao pela pelo tijdens
""",
    BETWEEN: "between zwischen entre tra fra tussen между",
    FROM: "from vom",
    BEFORE: "before avant antes prima voor до",
    AFTER: "after nach apres despues depois dopo following после",
    SINCE: "since seit seitdem depuis desde dal dall dalla sinds ab",
    UNTIL: "until till jusqu jusque hasta ate fino by",
    AGO: "ago atras fa geleden назад",
    AGO_BEFORE: "vor hace ha faz",
    HALF: "half halfte halbjahr moitie mitad semestre metade",
    FOR: "for",
    COUNTED: """
euro euros eur usd gbp dollar dollars dolares dollari pounds pfund francs yen km m cm mm kg g mg ml miles meters metres meter
words word worter mots palabras tokens lines zeilen people personen personnes personas steps files users items rows bytes kb mb gb
tb ms px kcal calories kalorien watts watt volts degrees grad stuck percent prozent times pages seiten
""",
}  # fmt: skip
_PHRASES: Final = {
    "the day before yesterday": (NEAR, -2),
    "day before yesterday": (NEAR, -2),
    "the day after tomorrow": (NEAR, 2),
    "day after tomorrow": (NEAR, 2),
    "avant hier": (NEAR, -2),
    "apres demain": (NEAR, 2),
    "altro ieri": (NEAR, -2),
    "pasado manana": (NEAR, 2),
    "depois de amanha": (NEAR, 2),
    "antes de ontem": (NEAR, -2),
    "aujourd hui": (NEAR, 0),
    "zwischen den jahren": (NEAR, "between the years"),
    "before last": (STEP_AFTER, -2),
    "que viene": (STEP_AFTER, 1),
    "que vem": (STEP_AFTER, 1),
    "a couple of": (COUNT, 2),
    "a few": (COUNT, 3),
    "ein paar": (COUNT, 3),
    "quelques": (COUNT, 3),
    "unos": (COUNT, 3),
    "unas": (COUNT, 3),
    "il y a": (AGO_BEFORE, None),
    "fin de semana": (WEEKEND, "weekend"),
    "fim de semana": (WEEKEND, "weekend"),
    "fine settimana": (WEEKEND, "weekend"),
    "week end": (WEEKEND, "weekend"),
    "apres midi": (PART, _AFTERNOON),
    "despues de": (AFTER, None),
    "depois de": (AFTER, None),
    "prior to": (BEFORE, None),
    "a partir de": (SINCE, None),
    "as of": (SINCE, None),
    "up to": (UNTIL, None),
    "up until": (UNTIL, None),
    "last night": (NEAR, (-1, _NIGHT)),
    "letzte nacht": (NEAR, (-1, _NIGHT)),
    "cette nuit": (NEAR, (-1, _NIGHT)),
    "heute nacht": (NEAR, (0, _NIGHT)),
    "tonight": (NEAR, (0, _NIGHT)),
    "anoche": (NEAR, (-1, _NIGHT)),
    "gisteravond": (NEAR, (-1, _EVENING)),
    "gisterochtend": (NEAR, (-1, MORNING)),
    "gistermiddag": (NEAR, (-1, _AFTERNOON)),
    "vannacht": (NEAR, (-1, _NIGHT)),
    "vanavond": (NEAR, (0, _EVENING)),
    "vanochtend": (NEAR, (0, MORNING)),
    "vanmorgen": (NEAR, (0, MORNING)),
    "vanmiddag": (NEAR, (0, _AFTERNOON)),
    "stamattina": (NEAR, (0, MORNING)),
    "stasera": (NEAR, (0, _EVENING)),
    "stanotte": (NEAR, (0, _NIGHT)),
    "manana": (TOMORROW, None),
    "morgen": (TOMORROW, None),
    "manha": (PART, MORNING),
    "guten morgen": (OTHER, None),
    "a": (A, 1),
    "an": (AN, 1),
}


@cache
def date_words() -> dict[str, DateWord]:
    """The role of each word and phrase; of several roles, the one that was added first stays. Made for the first date."""
    found: dict[str, DateWord] = {name: DateWord(*reading) for name, reading in _PHRASES.items()}

    def add(names: str, role: str, value: Any = None) -> None:
        for name in names.split():
            found.setdefault(name, DateWord(role, value))

    doubtful = frozenset(_DOUBTFUL_MONTHS.split())
    for number, names in enumerate(_MONTHS, 1):
        for name in names.split():
            add(name, DOUBTFUL_MONTH if name in doubtful else MONTH, number)
    for number, (names, short) in enumerate(zip(_WEEKDAYS, _DOUBTFUL_WEEKDAYS, strict=True)):
        for name in names.split():
            found.setdefault(name.replace("-", " "), DateWord(WEEKDAY, number))
        add(short, DOUBTFUL_WEEKDAY, number)
    for value, names in _SEASONS.items():
        for name in names.split():
            add(
                name,
                DOUBTFUL_SEASON if name in {"spring", "fall", "ete", "estate", "lente"} else SEASON,
                value,
            )
    for name, names in _UNITS.items():
        add(names, {"weekend": WEEKEND, "quarter": QUARTER}.get(name, UNIT), name)
    for holiday, names in _HOLIDAY_NAMES.items():
        for name in (holiday, *names.split("|")):
            found.setdefault(name, DateWord(HOLIDAY, holiday))
    for holiday in HOLIDAYS:
        found.setdefault(holiday, DateWord(HOLIDAY, holiday))
    for role, groups in ((COUNT, _NUMBERS), (ORDINAL_WORD, _ORDINALS), (EDGE, _EDGES)):
        for number, names in enumerate(groups, 1 if role == ORDINAL_WORD else 0):
            add(names, role, number)
    for role, steps in ((STEP, _STEPS), (STEP_AFTER, _STEPS_AFTER), (NEAR, _NEAR)):
        for step, names in steps.items():
            add(names, role, step)
    for hours, names in _PARTS.items():
        add(names, PART, hours)
    for role, names in _ROLES.items():
        add(names, role)
    found |= {f"q{number}": DateWord(QUARTER_OF, number) for number in range(1, 5)}
    return found | _compounds(found)


def _compounds(found: dict[str, DateWord]) -> dict[str, DateWord]:
    """A weekday and a part of the day in one word: "Montagabend", "maandagochtend"."""
    parts = {name: word for name, word in found.items() if word.role == PART and " " not in name}
    parts["morgen"] = DateWord(PART, MORNING)
    days = {
        name: word
        for name, word in found.items()
        if word.role == WEEKDAY and name.endswith(("tag", "dag", "woch"))
    }
    return {
        day + part: DateWord(NEAR, (("weekday", word.value), hours.value))
        for day, word in days.items()
        for part, hours in parts.items()
    }


@cache
def phrases() -> dict[str, list[list[str]]]:
    """The names of several words, by their first word, the longest first."""
    found: dict[str, list[list[str]]] = {}
    for name in sorted(date_words(), key=len, reverse=True):
        if " " in name:
            parts = name.split()
            found.setdefault(parts[0], []).append(parts)
    return found


# ── A text as tokens ────────────────────────────────────────────────────────────────────

DAY, DAY_TH, NUMBER, YEAR = "D", "O", "N", "Y"  # 14; 14th; a larger number; 1900 to 2199
ISO, NUMERIC, DECADE, QUARTER_OF = "I", "x", "d", "q"  # 2024-03-15; 15.03.2024; 1990s; q3
MAX_DATED_CHARS: Final = 1_000  # a longer text is searched for dates only up to here

_YEAR: Final = r"(?:19|20|21)\d\d"
_TOKEN: Final = re.compile(r"q[1-4](?!\w)|[^\W\d_]+|\d[\w.:,/-]*|(?<![^\W\d_])[-\u2013\u2014]|[.,]")
_NUMERAL: Final = re.compile(
    rf"(?P<I>{_YEAR}-\d\d?-\d\d?)|(?P<x>\d\d?[./]\d\d?[./]{_YEAR})|(?P<d>(?:19|20)?\d0s)|(?P<O>\d\d?)(?:st|nd|rd|th|er|o|a)|(?P<N>\d+)"
)
_DATE_DIGITS: Final = re.compile(r"\d(?:(?<=[12])[901]\d\d|(?:st|nd|rd|th|er|o|a|0s)\b|(?<=am \d)\.)")
_WHOLE_DATE: Final = re.compile(r"\d[-./]\d\d?[-./]\d")
_SPACES: Final = {code: " " for code in range(128) if not chr(code).isalnum()}
_WORD: Final = re.compile(r"q[1-4]|[^\W\d_]+")
_YEARS: Final = range(1900, 2200)


class Token(NamedTuple):
    """A word, a number or a mark of a text: its role, what it means there, and its folded text."""

    role: str
    value: Any
    text: str


def tokens_of(text: str) -> list[Token]:
    """The tokens of a folded text, in order; a phrase of `phrases` is one token."""
    found = [part for said in _TOKEN.findall(text[:MAX_DATED_CHARS]) for part in _parts(said)]
    known, several = date_words(), phrases()
    tokens, at = list[Token](), 0
    while at < len(found):
        said = found[at]
        at += 1
        if not said[0].isalpha():
            tokens.append(_numeral(said))
            continue
        for phrase in several.get(said, ()):
            if found[at : at + len(phrase) - 1] == phrase[1:]:
                said, at = " ".join(phrase), at + len(phrase) - 1
                break
        word = known.get(said)
        tokens.append(Token(OTHER, None, said) if word is None else Token(*word, said))
    return tokens


def _parts(said: str) -> list[str]:
    """A run of digits with its marks, as the tokens that it is: "3." is two, "15-20" three, "2024-03-15" one."""
    if not said[0].isdigit():
        return [said]
    end = said.rstrip(".,:/-")
    marks = list(said[len(end) :][:1])
    if "-" in end and not _NUMERAL.fullmatch(end):
        first, _, last = end.partition("-")
        return [first, "-", last, *marks] if last else [first, "-", *marks]
    return [end, *marks]


def _numeral(said: str) -> Token:
    """The token of a number or a mark."""
    if not said[0].isdigit():
        return Token(said if said in {".", ","} else TO if said in "-\u2013\u2014" else OTHER, None, said)
    match = _NUMERAL.fullmatch(said)
    if match is None:
        return Token(OTHER, None, said)
    kind = match.lastgroup or OTHER
    if kind not in {DAY_TH, NUMBER}:
        return Token(kind, None, said)
    value = int(match[kind][:5])
    is_day = 1 <= value <= 31
    if kind == DAY_TH:
        return Token(kind if is_day else OTHER, value, said)
    return Token(
        DAY if is_day else YEAR if value in _YEARS else NUMBER if value < _YEARS[0] else OTHER, value, said
    )


def mentions_date(text: str, *, is_question: bool = True) -> bool:
    """Whether a folded text may name a date; this costs less than looking for dates.

    Args:
        text: folded text.
        is_question: whether a bare year or "the 3rd" counts.
    """
    text = text[:MAX_DATED_CHARS]
    if (_DATE_DIGITS if is_question else _WHOLE_DATE).search(text):
        return True
    sure, units, steps = _telling_words()
    said = text.translate(_SPACES).split() if text.isascii() else _WORD.findall(text)
    return not sure.isdisjoint(said) or not (units.isdisjoint(said) or steps.isdisjoint(said))


@cache
def _telling_words() -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Words one of which every date without digits has: one of the first, or one of the second and one of the third."""

    def words_in(wanted: str) -> frozenset[str]:
        names = (name for name, word in date_words().items() if word.role in wanted)
        return frozenset(max(name.split(), key=len) for name in names)

    return words_in("MmWwSsKQHeq"), words_in("UuP"), words_in("RJAVEo")
