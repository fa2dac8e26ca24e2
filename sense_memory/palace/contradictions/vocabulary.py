"""The words that the rules of contradiction know: stems, grammar, opposites, kinds of things, relations. Data, and how they are looked up.

English, and for the commonest relations German, French, Spanish and Portuguese. A word that is in no table here is
compared by its stem. Opposites that may both be true of one thing (buy and sell, start and end) are
left out on purpose: a missed contradiction costs a reminder, a wrong one buries a memory.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final
from unicodedata import normalize

import Stemmer


_LATIN_END: Final = "\u0250"
_ENGLISH: Final = Stemmer.Stemmer("english")
_IRREGULAR_TEXT: Final = """
chose choose, chosen choose, led lead, wrote write, written write, built build, went go, goes go, married marry, has
have, having have, licence license, colour color, colours color, coloured color, favourite favorite, favourites
favorite, favour favor, centre center, ran run, made make, got get, lives live, children child, js javascript, ts
typescript, postgresql postgres, tz timezone, bday birthday, e-mail email, i me, my me, mine me, myself me, we us, our
us, ours us, ich me, mein me, meine me, meu me, minha me"""
_IRREGULAR: Final = dict(pair.split() for pair in _IRREGULAR_TEXT.split(","))


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """The stem of a lowercase word; British, irregular and accented forms that matter here come out as one.

    >>> stem("favourite") == stem("favorites"), stem("tomás"), stem("my")
    (True, 'toma', 'me')
    """
    plain = word if word.isascii() else _unaccented(word)
    return str(_ENGLISH.stemWord(_IRREGULAR.get(plain, plain)))


def _unaccented(word: str) -> str:
    """`tomás` as `tomas`, the way keys are mostly written; other scripts keep their marks."""
    return "".join(normalize("NFD", sign)[0] if sign < _LATIN_END else sign for sign in word)


def words(text: str) -> frozenset[str]:
    """The words of a table, separated by spaces."""
    return frozenset(text.split())


def _stems(text: str) -> frozenset[str]:
    return frozenset(map(stem, text.split()))


def _said(alternatives: str) -> re.Pattern[str]:
    """A pattern of whole words; its alternatives may go on in the next line."""
    return re.compile(rf"\b(?:{alternatives.replace(chr(10), '')})\b")


# ── Grammar ─────────────────────────────────────────────────────────────────────────────

ARTICLES: Final = words("a an the der das dem ein eine einen le la l un une el los las una o as um uma du de")
BE: Final = words("is are was were be been being am ist sind sont é são são :")
AUXILIARIES: Final = BE | words("""has have had having do does did will would shall should can
could may might must haben tiene tienen tem têm""")
NEGATORS: Final = words("""not no never nor neither none nobody nothing hardly nicht kein keine keinen
keiner nie niemals pas jamais nunca jamás não nada without""")
# Said of a claim and no part of it: when two notes differ in these words only, they say the same.
CHANGES: Final = words("""now currently again recently already finally instead just still nowadays
lately meanwhile jetzt nun mittlerweile maintenant désormais ahora agora""")
# What a phrase may begin with; it says what the phrase is to the clause.
LEADS: Final = words("""to in of on at by for from with into onto about as over than behind beside beneath
beyond under near above below between through across along around towards among during im am bei zu nach für
auf von en em na no au ao al con por para à chez als instead unless if when whenever until that""")
PLACING: Final = words("in at on under behind beside beneath near above below between en em na no à im am")
OVER: Final = words("over than als")
OVER_PREFERRED: Final = OVER | words("to à au aux a al ao que do as")
STOP: Final = (
    (ARTICLES | AUXILIARIES | CHANGES | LEADS) - {"might", "could", "would"}
    | words("""
this those these and it its it'd he she they them his her hers their theirs him who which what whom whose there here so
too also very really quite rather then both own such s t d ll re ve m mr mrs ms dr per while get gets got actually simply even any anyone anything enough much bit kind sort gezogen umgezogen n und y e ne do da das que ya""")
)
FIRST: Final = words("i my we our me us mine ich mein meine meu minha")
PRONOUNS: Final = words("he she it they his her its their er sie il elle él ella ele ela")
ROUGHLY: Final = words("some about around roughly almost nearly approximately circa ca over under rund etwa")
WHEN: Final = r"""january|february|march|april|may|june|july|august|september|october|november|december|\w+day|spring|summer|autumn|winter"""
# The end of a state of things, and what hints at one.
_TURN_TEXT: Final = r"""
no longer|no more|not any|any ?more|any longer|instead|in place of|switch(?:es|ed)|swapped|(?<!not )quit|(?<!not )stopped|ceased|(?:gave|given) (?:it )?up|
turn(?:ed|s) out|turned (?:down|up)|became(?! friends)|(?:has|have|had) become|a mistake|mistaken|(?:had|got|was|were|is) (?:it |that )?wrong|
ended|retired|refuse[sd]?|declined|cancell?ed|postponed|replaces?|replaced|succeed(?:s|ed|ing)|stepped (?:down|back|aside)|decided (?:against|not)|changed (?:my|his|her|our|their) mind|slipped to|rose to|cut (?:\w+ )?(?:\w+ )?to|cut down|came off|ran out|taken off|took (?:\w+ ){1,4}off|gave (?:\w+ ){1,4}(?:to|away)|got rid|gone(?=[.,;]|$)|goes away|merged into|lost and|mix-?up|typo|correction|in fact|done with|discharged|died|passed away|dropped(?! off)|sold|divorced|separated|broke up|widow(?:er|ed)?|
(?:has|have) (?:grown|come to|turned|shrunk|fallen|risen)|changed(?! due)|(?:was|were|been) raised|raised (?:to|from)|lowered|reverted|revoked|withdr[ae]wn?|
abandoned|abolished|lifted|scrapped|banned|handed|taken over|took over|passed (?:from|to)|dismissed|expired|deleted|traded|fixed|repaired|(?:was|were|been) upgraded|migrated|resigned|ruled out|fell through|(?:is|are|was|were) (?:off(?! to)|closed|filled|shut)(?=[ .,;:]|$)|closed down|gone off|pulled (?:out|it|the)|stays|after all(?=[,.;]|$)|overturned|reversed|rolled back|re(?:written|licensed|built|designed|branded)|corrected|shifted|for good(?=[.,]|$)|moved(?! by| her| him| me)|elected|rejected|shelved|misread|turned (?:\w+ ){1,3}down|rented out|(?:asked|told) me to (?:stop|leave)|innocent|(?:was|were|is) stopped|put (?:\w+ )?up to|rescheduled|raised the|relocated|call(?:ed|s) .*off|backed out|
got (?:married|divorced)|(?:going|gone|went|switched|moved|handed) over to|went (?:up|down)|extension|extended|renamed|formerly|from (?:now on|today)|as of|left (?:the|us|in)|(?:has|have) (?:left|lost|gone)|down to|pushed|these days|cut the|(?:we|she|he|i|they) cut|paid off|since the(?! age)|got engaged|works again"""
# What a text as a whole shows.
FLAGS: Final = {
    "turn": _said(_TURN_TEXT),
    "hint": _said(rf"""
now|already|finally|left|lost(?! to| in)|new|went to|goes to|back|again|only|today|this morning|up to|after the|from (?:this|next|the)|since (?=last|{WHEN})"""),
    "ongoing": _said(r"still|yet|will|going to|decided|we are|so far|until further notice"),
    "plan": _said(r"""
thinks|(?:said|says|wrote|told \w+) that|plan(?:s|ning) to|means to|hop(?:es?|ing)|wants?|wish(?:es)?|consider(?:s|ing)|might|maybe|perhaps|could|would|if|whether|
thinking (?:of|about)|dreams?|possibly|probably|intends?|aims?|appl(?:ied|ying)|looking (?:for|into)|interested in|
propose[sd]?|suggest(?:s|ed)|heard|rumou?rs?|according"""),
    "past": _said(r"""
used to|formerly|previously|once|originally|former|was|were|had|did|ago|yesterday|went|felt|drove|lost|
grew|ran|wrote|took|came|saw|met|bought|sold|told|gave|spent|lived|worked|stayed|
(?:as a|when \w+ was a) (?:child|kid|student|teenager)|last (?:year|month|week|\w+day|summer|winter|spring)|(?:has|have)
 (?:recently |already |just )?(?:been|\w+ed(?= (?:an?|the|to|in|for|with|on|his|her|their|\w+ing)\b| *$)|won|had|done|seen|made|gone)"""),
    # Nora played; not "a used car", "is based", "is it unused".
    "event": re.compile(
        r"^(?!(?:is|are|the|an?|my|our)\b)[\w#-]+ (?!un|dis|enabled|activated|resolved)\w{3,}ed\b"
    ),
    # Past in form, and yet a fact of today.
    "lasting": _said(r"""
born|founded|established|moved|switched|renamed|became|decided|picked|opted|need|embed|relocated|settled|migrated|shifted|
postponed|rescheduled|delayed|brought forward|raised|cut|lowered|increased|reduced|extended|pushed|went (?:up|down)"""),
    # What was said before stays true; not the "too" of "too small".
    "added": _said(r"""
also|as well(?! as)|in addition|additionally|besides|auch|aussi|tambi[eé]n|tamb[eé]m|^\w+ too|
too(?= *(?:$|[,.)]|(?:now|again|already|currently|at|in|on|for|from|with|by|and|since|as|during|every|of)\b))"""),
    "changed": _said("|".join((*sorted(CHANGES), "new", "current"))),
}


# What a phrase means, said before tokens are cut: an idiom in one word, a relation by its name. Of a relation also how many
# values it has at a time: `one`, one `place`, `likely` one, or `many`; `held` by one, who may have many of them.
_MEANINGS_TEXT: Final = r"""
not works_at = (?:quit|left|lost) (?:my|his|her|their|the) (?:job|position) (?:at|with);
not = no longer|ya no|já não|nicht mehr|not any ?more|not any longer|(?:(?:has |have )?stopped|quits?|(?:gave|given|gives?|giving) up|ceased)(?= );
 = not (?:to )?(?:forget|let|worry|stop|mind)|not only|not just|not yet|no doubt|no problem|nothing but|no (?:more|later|fewer|less) than|no matter|(?:has|have) come to|
after all|ne (?=\w+ (?:pas|plus)\b)|n' ?(?=\w+ (?:pas|plus)\b);
now = any ?more|any longer|these days|at the moment|right now|as of now|from now on|at present;
can = knows? how to; hates = (?:can|could) not (?:stand|bear);
nightowl = night owl|(?:evening|night) person|late riser;
morningperson = morning person|early (?:riser|bird); enabled = (?:turned|switched) on|(?<=is )on(?=[ .!]*$);
disabled = (?:turned|switched) off;
ongoing = in progress|in the works|being built|under ?way|(?:in|under) review; paused = on hold;
planned = not started|to do; cancelled = called off; onlychild = only child; outoforder = out of order|out of service; part-time = part time; full-time = full time; enough = in service;
supports = (?:is|am) (?:for|in favou?r of)(?= ); opposes = (?:is|am) (?:against|opposed to);
offline = (?:has been|was) (?:shut|taken) (?:down|offline);
than = rather than|instead of|better than|more than(?= (?!\d));
is now in = (?:was|were|has been|have been|is|got) (?:now )?(?:moved|postponed|pushed|put|shifted|rescheduled|delayed|brought|slipped|
changed|raised|cut|lowered|increased|reduced|extended|set)(?: back| forward| up| out| down)? (?:to|until)|
(?:moved|postponed|pushed|slipped|shifted)(?: back| forward)? to(?= \d| \w+ \d| \w+day\b)|(?:went|goes) (?:up|down) to;
is at = (?:is |are )?(?:due|scheduled|planned|set)(?= (?:on|for|at)\b)|happens(?= on| at)|takes place on;
is = turned(?= \d);
lives_in:place = lives? in(?: an? [\w -]{2,30}? in)?|living in|resides? in|based in|settled in|rents? an? (?:\w+ )?(?:flat|room|house|apartment|studio) in|
(?:(?:has|have) )?(?:moved|relocated) (?:back )?to|moved into an? [\w -]{2,30}? in|(?:home|residence)(?= is\b)|(?:flat|apartment|house) is (?:now )?in|
wohn(?:t|e) (?:jetzt )?in|leb(?:t|e) (?:jetzt )?in|ist nach(?= \w+ (?:um)?gezogen)|habite (?:à|en)|vit à|a déménagé à|vive? en|
se ha mudado a|se mudó a|mor[ao] em|viv[eo] em|mudou-se para|se mudou para;
works_at:one = employer|workplace|works? (?:at|for)|employed (?:at|by)|(?:has|got) a job at|arbeitet? (?:jetzt )?(?:bei|für)|
travaille (?:chez|pour)|trabaj[ao] (?:en|para)|trabalh[ao] (?:na|no|em|para);
works_as:likely = profession|occupation|works? as|arbeitet? als|travaille comme|trabaj[ao] como|trabalh[ao] como;
called:one = names?(?= (?:is|of)\b)|called|named|renamed to|goes by|heißt|heisst|s' ?appelle|se llama|se chama|chama-se;
born_on:one = birthday|birthdate|geburtstag|anniversaire|cumpleaños|aniversário|born on;
reports_to:one = reports? to;
belongs_to:one = owner|belongs? to|owned by;
leads:held = leads?|heads|chairs|manages|maintains|maintainer|coaches|commands|directs|
(?:led|managed|headed|run|maintained|taught|designed|coached) by;
costs:one = price|costs?|fee|kostet|coûte|cuesta|custa;
runs_on:likely = runs? on(?! port);
studies_at:one = (?:studies|study|studying) at|goes to(?= (?:the )?\w+ (?:school|university|college));
prefers:many = prefers?|likes?(?= [\w ]+ than )|(?:trinkt|isst|mag) lieber|bevorzug[te]|préfère|prefiere|prefiero|prefere|prefiro;
wants:many = wants?;
uses:many = uses?|(?:switched|migrated|(?:was|has been) (?:up|down)graded) to|benutzt|verwendet|utilise|(?<!the )(?<!in )usa;
chose:likely = chose|chosen|picked|decided (?:on|for)|settled on|opted for|went with|go with"""
_MEANINGS, _PATTERNS = zip(
    *(row.split(" = ") for row in _MEANINGS_TEXT.replace("|\n", "|").split(";")), strict=True
)
RELATIONS: Final = dict(meaning.strip().split(":") for meaning in _MEANINGS if ":" in meaning)
_MEANT: Final = [meaning.strip().partition(":")[0] for meaning in _MEANINGS]
# Few texts have a phrase; whether one does is found out in a fraction of the time that it takes to find out which.
_ANY_PHRASE, _PHRASE = (
    re.compile(rf"\b(?<![\w'])(?:{'|'.join(texts)})(?![\w-])")
    for texts in (_PATTERNS, [f"(?P<i{at}>{text})" for at, text in enumerate(_PATTERNS)])
)


def plain(text: str) -> str:
    """A lowercase clause with its idioms and its relations said in one word each.

    >>> plain("nora no longer drinks coffee"), plain("the bus is called off")
    ('nora not drinks coffee', 'the bus is cancelled')
    >>> plain("nora moved to oslo") == plain("nora lives in oslo"), plain("nora's employer is bosch")
    (True, "nora's works_at is bosch")
    """
    if not _ANY_PHRASE.search(text):
        return text
    return _PHRASE.sub(lambda match: _MEANT[int((match.lastgroup or "i0")[1:])], text)


# ── Opposites ───────────────────────────────────────────────────────────────────────────
# One axis each: any word left of the bar opposes any word right of it. A word stands on one axis only.

_AXES: Final = """proud | ashamed embarrassed; mutable | immutable; rounded | square; flexible | rigid; keep
retain | drop discard; like love enjoy adore appreciate cherish mag liebt aime adora gusta gosta | dislike
hate detest loathe despise hasst déteste odia odeia; support favor | oppose; accept allow permit | reject
refuse forbid forbidden prohibit ban banned deny disallow; include | exclude omit; enable activate active |
disable deactivate inactive off; open unresolved | closed shut resolved; public | private secret confidential;
synchronous | asynchronous; morningperson | nightowl; introvert introverted shy | extrovert extroverted
outgoing; dark | light; strict | lenient loose permissive; pass | fail; lost | found; work run functional | broken defective outoforder; success successful | failure
unsuccessful; selfhosted self-hosted | cloudhosted cloud-hosted; cautious careful | reckless careless; married
| single unmarried divorced widowed; employed | unemployed jobless;  cheap inexpensive
affordable | expensive costly pricey; early | late; fast quick rapid speedy faster | slow sluggish slower; brief short
concise terse | long detailed verbose lengthy; left-handed | right-handed; optimistic | pessimistic; online up
reachable | down offline unreachable; mandatory required compulsory obligatory necessary | optional voluntary;
ascending | descending; increase grow | decrease shrink; inside indoors indoor | outside outdoors outdoor;
alive | dead deceased; true correct accurate | false wrong incorrect inaccurate; full | empty; full-time
fulltime | part-time parttime; permanent | temporary provisional; local | remote; manual manually | automatic
automatically automated; good great excellent wonderful elegant beautiful lovely useful helpful reliable
impressed delight relief fantastic tasty interesting | bad poor awful terrible horrible ugly useless worthless
annoyed disappointment disaster boring disgusting tedious; easy simple | hard difficult complicated; strong |
weak; hot warm | cold cool; big large huge | small little tiny; high | low; healthy | sick ill; clean | dirty;
quiet silent | loud noisy; calm relaxed | anxious nervous stressed; happy glad | sad; patient | impatient;
polite | rude impolite; always everybody everyone | nobody; maximum | minimum; more | less fewer"""
_UNLIKE: Final = re.compile(
    r"(?:un(?!i[toqvf]|der|til|less|cle)|dis(?=connect|engag|abl|trust|agree|honest|loyal)|non-?|il(?=leg)|im(?=possib)|ir(?=rel|reg|resp))-?(\w{4,})$"
)
_BY_WORD: Final[dict[str, tuple[str, bool]]] = {}
for _line in _AXES.split(";"):
    _left, _right = ([stem(word) for word in side.split()] for side in _line.split("|"))
    for _word in _left + _right:
        _BY_WORD.setdefault(_word, (f"±{_left[0]}", _word in _left))


@lru_cache(maxsize=65_536)
def axis(word: str) -> tuple[str, bool]:
    """The axis of a word and its side of it; a word without a known opposite is its own axis.

    >>> axis("hates"), axis("loves"), axis("unstable"), axis("table")
    (('±like', False), ('±like', True), ('stabl', False), ('tabl', True))
    """
    if found := _BY_WORD.get(stem(word)):
        return found
    if match := _UNLIKE.match(word):
        name, side = _BY_WORD.get(stem(match[1]), (stem(match[1]), True))
        return name, not side
    return stem(word), True


# ── Statuses ────────────────────────────────────────────────────────────────────────────
# Statuses: what a stem amounts to; which of them a thing may have together.
_STATUSES: Final = """planned: planned todo draft proposed pending waiting unstarted scheduled queued; open:
unfinished incomplete vacant; active: inprogress ongoing started; confirmed: confirmed; done: done finished
complete completed merged shipped delivered accepted approved released launched implemented deployed
published; paused: blocked paused postponed delayed stalled deferred suspended; stopped: cancelled canceled
abandoned dropped rejected scrapped declined discontinued"""
STATUS: Final = {
    word: name.strip()
    for name, text in (line.split(":") for line in _STATUSES.split(";"))
    for word in text.split()
}
_STATUS_NAMES: Final = frozenset(STATUS.values())
_TOGETHER: Final = "open planned,active open,open paused,confirmed planned,active confirmed,confirmed done"


def statuses_apart(one: str, other: str) -> bool:
    """Whether something cannot have both statuses at one time.

    >>> statuses_apart("planned", "done"), statuses_apart("open", "active"), statuses_apart("open", "air")
    (True, False, False)
    """
    is_known = one != other and {one, other} <= _STATUS_NAMES
    return is_known and " ".join(sorted((one, other))) not in _TOGETHER.split(",")


# ── Places ──────────────────────────────────────────────────────────────────────────────
# Well-known cities, none of them part of another; any other place may be part of one. With their other names.
_CITIES: Final = """
Amsterdam|Antwerp=Antwerpen|Athens=Athen=Athina|Atlanta|Auckland|Austin|Bangkok|Barcelona|Basel|
Beijing=Peking|Beirut|Belfast|Bergen|Berlin|Bern|Bilbao|Bogotá|Bonn|Bordeaux|Boston|Braga|Bremen|Brisbane|
Bristol|Brussels=Brüssel=Bruxelles|Bucharest=București=Bukarest|Budapest|Buenos Aires|Cairo|Calgary|Cambridge|
Cape Town|Cardiff|Chicago|Coimbra|Cologne=Köln|Copenhagen=København=Kopenhagen|Cork|Dallas|Delhi|Denver|
Dresden|Dubai|Dublin|Düsseldorf|Edinburgh|Faro|Florence=Firenze=Florenz|Frankfurt|Gdańsk|Geneva=Genf=Genève|
Genoa=Genova|Ghent=Gent=Gand|Glasgow|Gothenburg=Göteborg|Graz|Hamburg|Hanoi|Havana|Helsinki|Hong Kong|Houston|
Innsbruck|Istanbul|Jakarta|Jerusalem|Kiel|Kraków=Cracow=Krakow=Krakau|Kyiv=Kiev|Kyoto|Lagos|Las Vegas|Leeds|
Leipzig|Lille|Lima|Linz|Lisbon=Lisboa=Lissabon|Liverpool|Ljubljana|London|Los Angeles|Lyon|Madrid|Mainz|
Málaga|Malmö|Manchester|Manila|Marseille|Melbourne|Mexico City|Miami|Milan=Milano=Mailand|Montreal|
Moscow=Moskau=Moskva|Mumbai=Bombay|Munich=München|Nairobi|Nantes|Naples=Napoli=Neapel|New Orleans|
New York=NYC=New York City|Nice|Osaka|Oslo|Oxford|Paris|Perth|Philadelphia|Portland|Porto=Oporto|
Prague=Praha=Prag|Riga|Rio de Janeiro=Rio|Rome=Roma=Rom|Rostock|Rotterdam|Salzburg|San Diego|San Francisco=SF|
Santiago|São Paulo|Seattle|Seoul|Seville=Sevilla|Shanghai|Singapore|Sofia|Stockholm|Strasbourg|Stuttgart|
Sydney|Taipei|Tallinn|Tbilisi|Tel Aviv|The Hague=Den Haag|Tokyo|Toronto|Toulouse|Trieste|Turin=Torino|Utrecht|
Valencia|Vancouver|Venice=Venezia=Venedig|Vienna=Wien|Vilnius|Warsaw=Warszawa=Warschau|
Washington=Washington DC=DC|York|Zagreb|Zaragoza|Zurich=Zürich"""
# Other places of several names.
_PLACES: Final = """
United States=USA=US=United States of America=America|United Kingdom=UK=Great Britain=Britain=GB|Netherlands=Holland|
Germany=Deutschland=Allemagne=Alemania=Alemanha|Spain=España=Espanha|Switzerland=Schweiz=Suisse|Brazil=Brasil"""


def _names(text: str) -> list[list[tuple[str, ...]]]:
    """The stems of places that `|` separates, each with its names."""
    return [
        [tuple(stem(word) for word in name.lower().split() if word not in STOP) for name in line.split("=")]
        for line in text.replace("\n", "").split("|")
    ]


_KNOWN_CITIES: Final = frozenset(names[0] for names in _names(_CITIES))
_BY_PLACE_NAME: Final = {name: names[0] for names in _names(f"{_CITIES}|{_PLACES}") for name in names}


def place(name: tuple[str, ...]) -> tuple[str, ...]:
    """The stems of a name, or of the English name of the same place.

    >>> place(("nyc",)), place((stem("münchen"),)) == (stem("munich"),), place(())
    (('new', 'york'), True, ())
    """
    return _BY_PLACE_NAME.get(name, name)


def is_city(name: tuple[str, ...]) -> bool:
    """Whether these are the stems of a city that everybody knows.

    >>> is_city(("rome",)), is_city((stem("münchen"),)), is_city(("traster",))
    (True, True, False)
    """
    return place(name) in _KNOWN_CITIES


# ── Subjects ──────────────────────────────────────────────────────────────────────────────

# Attributes whose value is a name: "her manager is strict" does not say who the manager is.
NAMED: Final = _stems("""wife husband spouse boss manager doctor dentist owner maintainer landlord teacher
president mayor director captain coach author ceo cto phone car bank university address hometown headquarters
office email capital height weight size age salary price cost fee rent budget employer host name nickname
username birthplace""")
# Nouns whose owner has one of them at a time: "the default branch is …", "Lisa's email is …".
ATTRIBUTES: Final = NAMED | _stems("""timezone birthday color license browser os pronouns branch version port
rate deadline password url domain currency font typeface theme scheme surname handle priority backend encoding
default favorite usual primary preferred limit maximum minimum target editor database nationality shell
provider path endpoint directory repository grade tier interval timeout ttl major framework protocol bucket
region profession job occupation password retention quota lieblingsfarbe geburtstag frist preis couleur
préférée anniversaire cumpleaños plazo precio prazo preço""")
# Nouns for what happens on one date only, unlike an appointment.
SCHEDULED: Final = _stems("""deadline due start begin end open close launch release birthday expire standup
retro relaunch wedding birth born found founded establish leave arrive ship take handover bed sleep wake run
cutover freeze graduation kickoff frist abgabe échéance plazo prazo born_on""")
TIMETABLED: Final = _stems("begin start end open close leave arrive ship take run")  # at many times of day
# Nouns for things that may occur many times, on different dates.
OCCASIONS: Final = _stems("""appointment meeting call visit session flight trip exam interview lesson class
dinner lunch party concert game match workshop talk event review termin treffen rendez-vous réunion cita
reunión consulta reunião""")
# A number behind one of these tells which one it is.
IDENTIFYING: Final = words("""issue chapter room part phase invoice ticket bug item lesson section figure case
option season episode volume server user agent house lamp player team unit flat line floor gate track platform
level step milestone version v story bus""")
# A subject may have several of these, each with a name of its own.
SEVERAL: Final = _stems(
    "sister brother son daughter child dog cat pet friend colleague cousin aunt uncle horse baby"
)
# Said of a key, and no part of the subject that it names.
KEY_NOISE: Final = _stems("""new old now first second third one two 1 2 3 latest note current is not no the of a in on at moved prefers likes lives home city place
address job work works employer company""")
