"""The words that the rules of contradiction know: grammar, opposites, relations, places, kinds of things.

English, and for the commonest relations German, French, Spanish and Portuguese. The key of a word that is in
no table here is its stem. Opposites that may both be true of one thing (buy and sell, start and end) are
left out on purpose: a missed contradiction costs a reminder, a wrong one buries a memory.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Final
from unicodedata import normalize

import Stemmer


_ENGLISH: Final = Stemmer.Stemmer("english")
_IRREGULAR_TEXT: Final = """
chose choose, chosen choose, led lead, built build, went go, goes go, ran run, made make, has have, got get,
children child, licence license, favourit favorit, favour favor, colour color, centre center, js javascript,
ts typescript, postgresql postgres, tz timezone, bday birthday, i me, my me, mine me, we us, our us, ich me, mein me,
munchen munich, koln cologne, wien vienna, prag prague, roma rome, lisboa lisbon, sevilla seville"""
_IRREGULAR: Final = dict(pair.split() for pair in _IRREGULAR_TEXT.split(","))


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """The stem of a lowercase word; British, irregular and accented forms that matter here come out as one.

    >>> stem("favourite") == stem("favorites"), stem("tomás"), stem("my")
    (True, 'toma', 'me')
    """
    # `tomás` as `tomas`, the way keys are mostly written; other scripts keep their marks.
    bare = "".join(normalize("NFD", sign)[0] if sign < "\u0250" else sign for sign in word)
    root = str(_ENGLISH.stemWord(_IRREGULAR.get(bare, bare)))
    return _IRREGULAR.get(root, root)


def words(text: str) -> frozenset[str]:
    """The words of a table, separated by spaces."""
    return frozenset(text.split())


def _stems(text: str) -> frozenset[str]:
    return frozenset(map(stem, text.split()))


def _rows(text: str, sign: str) -> list[list[str]]:
    """The cells of a table, whose rows end with `;`; a row of alternatives may go on in the next line."""
    return [[cell.strip() for cell in row.split(sign)] for row in re.split(r";\s", text.replace("|\n", "|"))]


# ── Grammar ─────────────────────────────────────────────────────────────────────────────

ENGLISH_ARTICLES: Final = words("a an the")
ARTICLES: Final = ENGLISH_ARTICLES | words(
    "der das dem ein eine einen le la l un une el los las una o as um uma du de"
)
BE: Final = words("is are was were be been being am ist sind sont é são :")
AUXILIARIES: Final = BE | words("""has have had having do does did will would shall should can could may might must
haben tiene tienen tem têm""")
NEGATORS: Final = words("""not no never nor neither none nobody nothing without nicht kein keine keinen nie pas
jamais nunca não""")
# Of time, said of a claim and no part of it: when two notes differ in these words only, they say the same.
ADVERBS: Final = words("now currently again recently already finally just still jetzt maintenant ahora agora")
# What a phrase may begin with; it says what the phrase is to the clause.
LEADS: Final = words("""to in of on at by for from with into about as over than behind beside under near above below
between through across along around towards among during instead unless if when whenever until that im am bei zu nach
für auf von als en au al con por para à chez em na no ao""")
PLACING: Final = words("in at on under behind near im am en à em na no")
OVER: Final = words("over than als")
OVER_PREFERRED: Final = OVER | words("to à au a al ao que do as")
# Words that carry no content. Some lead a phrase.
STOP: Final = (ARTICLES | AUXILIARIES | ADVERBS | LEADS) - {"might", "could", "would"} | words("""this those these and
it its he she they him his her them their theirs who which what whose there here so too also very really quite
rather then both own such s t d m mr mrs ms dr per while get gets got even any anyone anything enough much
gezogen umgezogen n und y e ne da que ya""")
FIRST: Final = words("i my we our me us mine ich mein meine meu minha mon ma mes mi mis")
PRONOUNS: Final = words("he she it they his her its their er sie il elle él ella ele ela")
SUBJECTS: Final = words("""i we you they he she ich wir er je j nous vous ils elle elles yo nosotros eu ele ela eles ik wij
hij zij""")  # what stands before a verb only, and not before a noun
HAVE: Final = words(
    "habe hast hat habt hatte hatten heb hebt heeft hebben ai avons avez ont tengo tenemos tenho temos"
)
PLURALS: Final = words("people children men women teeth feet mice")
ROUGHLY: Final = words("some about around roughly almost nearly approximately circa ca over under rund etwa")

# ── What a text as a whole shows ────────────────────────────────────────────────────────

# To another date, place or price.
_MOVED: Final = """(?:moved|postponed|pushed|shifted|rescheduled|delayed|slipped|raised|cut|lowered|increased|reduced|
extended|changed)"""
# `turn` is the end of a state of things, or what takes its place; `event`: Nora played, not "is based"; `lasting`: past
# in form, and yet a fact of today; `added`: what was said before stays true, not the "too" of "too small".
_FLAGS_TEXT: Final = rf"""
turn = (?:no|any) longer|no more|ya no|já não|nicht länger|plus jamais|any ?more|instead|these days|as of|since the(?! age)|
formerly|after all(?=[,.;]|$)|
for good(?=[.,]|$)|turn(?:ed|s) out|a mistake|typo|correct(?:ed|ion)|(?:got|was|is) (?:it |that )?wrong|died|ceased|
decided (?:against|not)|{_MOVED}(?! by| her| him| me| due)|switch(?:es|ed)|swapped|replace[sd]?|traded|sold|handed|
(?<!not )(?:quit|stopped)|ended|retired|resigned|dismissed|divorced|widowed|cancell?ed|dropped(?! off)|deleted|expired|
scrapped|shelved|abandoned|abolished|withdr[ae]wn?|revoked|reverted|reversed|overturned|lifted|banned|rejected|declined|
migrated|renamed|re(?:written|licensed|built|designed|branded)|fixed|repaired|elected|succeed(?:s|ed)|gone(?=[.,;]|$)|
(?:has|have|had) (?:become|left|lost|gone|grown|turned|shrunk|fallen|risen)|became(?! friends)|broke up|
(?:is|are|was|were|been) (?:off(?! to)|closed|filled|shut|upgraded)(?=[ .,;:]|$)|got (?:married|divorced|engaged|rid)|
(?:down|gave|given|passed|put|rose) (?:\w+ ){{0,3}}to|(?:calls?|called|turned|gave|given|took|taken|pulled|ran|fell|cut|
paid|passed|stepped|backed|ruled|closed|put|split|broke|laid|phased|wound|swept|signed|moved|carried) (?:\w+ ){{0,4}}(?:off|away|down|up|out|over|back)|
from (?:[\w.]+ ){{1,2}}on|(?:took|got|found) an? (?:new |permanent )?(?:job|post|position)|started (?:at|as)|until further notice|not (?:\w+ )*until|n't (?:\w+ )*until|went (?:up|down)|bumped|doubled|halved|trimmed|lowered|resumed|reopened|uninstalled|
transferred|relocated|promoted|discharged|expelled|outgrew|outgrown|no more|put off|taken over|took over|brought forward|
(?:upgrad|updat|reinstall|remov|refus|merg|grant|approv|accept|hir|port|settl|join|shift|rewrit|overrul)ed|emptied|
shelved|forbidden|changed (?:\w+ )?mind|(?:has|have|is|are|been) (?:off|over)(?=[ .,;:]|$)|was (?:mistaken|my mistake)|
stays?|let (?:\w+ ){{0,4}}lapse|nicht mehr|inzwischen|mittlerweile|ab sofort|künftig|
statt(?:dessen)?|von nun an|doch (?:nicht|kein\w*)|lieber|steigt|sinkt|fällt aus|(?:ver(?:schob|leg|kauf|loren|lassen)|(?:ab|auf|aus|ein|um|zurück|zusammen|weg)ge|er(?:höh|setz)t|
gesenkt|gekündigt|gezogen|gewechselt|geändert|getauscht|getrennt|gestorben|gelöscht|übernommen|übergeben|beendet|genehmigt|gestrichen)\w*|
désormais|dorénavant|finalement|plus de|à la place|au lieu de|(?:report|déplac|remplac|annul|déménag|quitt|confi|embauch|arrêt|cess|chang|
abandonn|supprim|transfér|augment|baiss|licenci|décal|divorc)(?:é\w*|er?)|vendue?s?|promue?s?|rouverte?s?|passée?s? (?:à|au|en|sous)|
pas(?:ó|aron) a|(?:cambi|dej|mud|traslad|aplaz|cancel|aument|adelant|termin|troc|alter|adi)(?:ó|ad[oa]s?|aron|ou|aram)|(?:vend|sub|substitu|sustitu)(?:ió|id[oa]s?|ieron|iu|íram)|
en (?:vez|lugar) de|a partir de|em vez de|passou a|não (?:\w+ )+mais;
hint = ya|ahora|agora|desde|jetzt|nun|schon|ab|wieder|seit|doch|nur noch|mehr|neue\w*|maintenant|depuis|de nouveau|à partir|(?:as|since)(?= of| \w+day)|now|already|finally|left|(?<!a )new|back|again|only|today|this morning|up to|after the|from (?:this|next|the)|since;
result = (?:has|have|had|is|are|was|were|been|got|be) (?:\w+ )?(?:been|\w{{3,}}ed|got|taken|given|put|sold|made|gone|swept|built|
left|lost|found|kept|held|set|moved)|got|took|kept|found|gave|left|became|began|chose|went|won|wurden?|worden|(?:hat|haben|ist|sind) .*ge\w+(?:t|en)|
(?:a|ont|est|sont|été) (?:été |\w+ment )?\w+(?:é|i|u)e?s?|(?:ha|han|he|hemos|fue|fueron|foi|tem) (?:sido )?\w+[aií]d[oa]s?;
cause = ^(?:after|since|nach|seit|après|depuis|tras) (?:(?:the|this|that|our|my|his|her|dem|der|den|le|la|les|el|los|las) |l'|\w+'s )|
^(?:with|mit|avec|con) (?:(?:the|der|dem|den) )?(?:(?:new|neuen?|three|two|extra) |(?:\w+ )?\w+ (?:gone|open|closed|away|back|converted|weg)\b);
ongoing = still|yet|will|going to|decided|we are;
plan = thinks|(?:says|said) that|plan(?:s|ning) to|hop(?:es?|ing)|wants?|consider(?:s|ing)|might|maybe|perhaps|could|
would|if|whether|thinking|dreams?|probably|intends?|aims?|appl(?:ied|ying)|looking|suggest(?:s|ed);
past = used to|formerly|previously|once|was|were|had|did|ago|yesterday|went|felt|grew|ran|wrote|took|came|saw|met|
bought|sold|told|gave|spent|lived|worked|stayed|ate|paid|won|broke|slept|caught|sent|drank|last (?:year|month|week|\w+day|summer|winter|spring)|
(?:has|have) (?:been|had|done|made|gone|\w+ed);
event = ^(?:(?:the|an?|my|our|his|her) )?(?!(?:the|an?|my|our|his|her|is|are)\b)\w[\w#-]* (?!un|dis|enabled)\w{{3,}}ed;
lasting = born|founded|became|need|decided|settled on|{_MOVED}(?! (?:by )?[\d$€£]);
added = also|as well(?! as)|besides|auch|aussi|tambi[eé]n|tamb[eé]m|^\w+ too|
too(?= *(?:$|[,.)]|(?:now|again|at|in|on|for|from|with)\b));
now = {"|".join(sorted(ADVERBS - words("still already just finally")))}"""
FLAGS: Final = {name: re.compile(rf"\b(?:{said})\b") for name, said in _rows(_FLAGS_TEXT, " = ")}

# ── Opposites ───────────────────────────────────────────────────────────────────────────
# A word with a hyphen is also found where it is written with a space.

# One axis each: any word left of the bar opposes any word right of it. A word stands on one axis only.
_AXES: Final = """
like love enjoy adore appreciate mag liebt aime adora gusta gosta | dislike hate detest loathe hasst déteste odia;
support favor | oppose; accept allow permit permitted | reject refuse forbid forbidden prohibit ban banned deny;
ascending | descending; include | exclude; keep | drop discard; open reopen | closed shut resolved;
done finished completed complete | incomplete not-started in-progress todo to-do; brief short concise terse | long detailed verbose;
public | private secret confidential; online up reachable | down offline; easy simple | hard difficult complicated;
pass passing | fail failing;
enable activate active turned-on switched-on | disable deactivate inactive off turned-off switched-off;
work working run running functional in-service | broken defective out-of-order;
cheap affordable inexpensive | expensive costly pricey; success successful | failure; full-time | part-time;
self-hosted | cloud-hosted; morning-person early-bird | night-owl;
required mandatory compulsory necessary | optional voluntary; fast quick rapid speedy faster | slow sluggish slower;
permanent | temporary; local | remote; manual manually | automatic automatically automated;
synchronous | asynchronous; mutable | immutable; flexible | rigid; strict | lenient loose permissive;
calm relaxed | anxious nervous stressed; maximum | minimum; married | single divorced widowed; employed | jobless;
careful cautious | careless reckless; introvert shy | extrovert outgoing; left-handed | right-handed;
quiet silent | loud noisy; optimistic | pessimistic; proud | ashamed; early | late; increase grow | decrease shrink;
hot warm | cold cool; lost | found; inside indoor | outside outdoor; true correct accurate | false wrong incorrect;
good great excellent wonderful elegant beautiful useful helpful reliable | bad poor awful terrible horrible ugly;
strong | weak; big large huge | small little tiny; high | low; always everybody everyone | nobody;
patient | impatient; healthy | sick ill; alive | dead; clean | dirty; dark | light; more | less fewer;
happy glad | sad; full | empty"""
_UNLIKE: Final = re.compile(
    r"(?:un(?!i|cle|der)|dis(?=agree|connect|honest|trust)|il(?=leg)|im(?=poss)|ir(?=re)|non-?)-?(\w{4,})$"
)
_BY_WORD: Final = {
    form: (f"±{stem(left.split()[0])}", side is left)
    for left, right in _rows(_AXES, " | ")
    for side in (left, right)
    for word in side.split()
    for form in (word, f"{word}s", f"{word}d", f"{word}ed")
}


@lru_cache(maxsize=65_536)
def axis(word: str) -> tuple[str, bool]:
    """The axis of a word and its side of it; a word without a known opposite is its own axis.

    >>> axis("hates"), axis("loves"), axis("unstable"), axis("table")
    (('±like', False), ('±like', True), ('stabl', False), ('tabl', True))
    """
    if found := _BY_WORD.get(word):
        return found
    if match := _UNLIKE.match(word):
        name, side = _BY_WORD.get(match[1], (stem(match[1]), True))
        return name, not side
    return stem(word), True


# Words of one language that carry content in another: no topic of two notes.
NO_TOPIC: Final = _stems("""den des einer eines einem ihr ihre sein seine wir sie er es im zum zur vom beim als hat war die und oder
wird werden wurde wurden worden sich mit bis nach aus nur noch schon seit ab bitte jetzt nun c l d j s aux ce cette ces leur nous
vous ils elles il elle comme chez sous très est été et ou avec sur dans par qui que se sa ses on ont pas plus los del lo su sus ha
han fue está están sin con do dos das nos seu sua foi son please today time""")
# What notes in other words may be about together, if both name the same thing.
_KINDS_TEXT: Final = """
diet = vegetarian vegan meat fish egg eggs cheese vegetarisch vegetarisches fleisch végétarien végétarienne viande vegetariano carne;
home = live home transfer flat apartment house studio bungalow stay rent parent move relocat settl court village place own
 lives_in wohnt zieht gezogen umgezogen wohnung habit habite déménagé appartement student;
job = work start job studi degree intern contract post freelanc promot hire retir teach employ train apprentic career unemploy
 waiter teacher nurs develop works_at works_as audition studiert arbeitet gekündigt azubi ausbildung stagiaire embauché
 embauchée retraite travaille quitté; order = broken repair work run again fix kaputt defekt läuft fährt werkstatt repariert
 funktioniert abgeholt panne remarche réparé garag mechan;
pair = split dating engag marri coupl togeth partner date divorc wed singl girlfriend boyfriend husband wife separ broke;
gate = open close shut clos reopen öffnet geöffnet geschlossen schließt ouvert fermé; health = hospit ill injured hamstring crutches fit leg wound recovered sick injuri discharg recov clinic krank gesund hôpital;
role = owner own handl maintain review respons charg charge look contact belongs_to leads hold verantwortlich zuständig kümmert
 übernimmt übernommen confi confié confiée gère géré tient; form = format languag tone english french german spanish pdf mail email letter post
 deutsch englisch französisch post vouvoiement tutoy tutoyer word long short page"""
_KIND_ROWS: Final = sorted(
    {
        (form, name)
        for name, said in _rows(_KINDS_TEXT, " = ")
        for word in said.split()
        for form in (word, stem(word), axis(word)[0], f"→{word}")
    }
)
KINDS: Final = {
    form: frozenset(name for _, name in rows) for form, rows in groupby(_KIND_ROWS, itemgetter(0))
}
# What an instruction begins with.
INSTRUCTING: Final = words("""always never don't use keep send put call address respond reply answer write speak talk format
requires require needs prefer avoid show give add ask include report reports replies comments answers summaries bitte
antworte antworten schreib répondre réponds écrire""")

# A thing has one of these at a time, but the words mean too much to be sure.
STATUSES: Final = words("""planned proposed pending scheduled waiting draft open active started ongoing in-progress in-review
under-way paused on-hold postponed suspended cancelled canceled called-off abandoned scrapped declined rejected accepted
confirmed done finished completed complete merged shipped released launched deployed closed resolved not-started todo to-do
unfinished incomplete""")


# ── Idioms and relations ────────────────────────────────────────────────────────────────

# What a phrase means, said before tokens are cut: an idiom in one word, a relation by its name. Of a relation also how
# many values it has at a time: `one`, one `place`, `likely` one, or `many`.
_MEANINGS_TEXT: Final = rf"""
hates = (?:can|could) not (?:stand|bear); not works_at = (?:quit|left|lost) \w+ (?:job|position) at;
not = no longer|ya no|já não|nicht mehr|(?:(?:has |have )?stopped(?= \w+ing)|quits?|(?:gave|given|gives?|giving) up)(?= );
 = not (?:to )?(?:forget|let|worry|mind)|not (?:only|just)|no (?:doubt|matter|problem|(?:more|less) than);
two times = twice; one time = once(?= (?:an?|per|every)\b); now = any ?more|any longer|these days|at the moment|right now; enabled = (?<=is )on(?=[ .!]*$);
supports = (?:is|am) (?:for|in favou?r of)(?= ); opposes = (?:is|am) against; wants:many = wants?;
new york = nyc; usa = united states; uk = great britain;
is now = (?:was|were|has been|have been|is|got) (?:now )?(?:{_MOVED}|brought|put|set)(?: \w+)? (?:to|until)|
{_MOVED}(?: \w+)? to(?= (?:\w+ )?\d| \w+day\b)|(?:went|goes) (?:up|down) to;
is at = (?:is |are )?(?:due|scheduled|planned|set)(?= (?:on|for|at)\b)|happens(?= on| at)|takes place on;
lives_in:place = lives? in(?: an? [\w -]+? in)?|(?:living|resides?|based|settled) in|(?:flat|apartment) is in|
moved into an? [\w -]+? in|rents? an? (?:\w+ )?(?:flat|apartment|house|room) in|
(?:(?:has|have) )?(?:moved|relocated) (?:back )?to|viv[eo]? en|vit à|
(?:wohn|leb)[et] (?:jetzt )?in|ist nach(?= \w+ (?:um)?gezogen)|habite (?:à|en)|se mudó a|(?:mor[ao]|viv[eo]) em|
mudou-se para; works_as:likely = profession|works? as; studies_at:one = (?:studies|study|studying) at;
works_at:one = employer|works? (?:at|for)|employed (?:at|by)|arbeitet? (?:jetzt )?(?:bei|für)|travaille (?:chez|pour)|
trabaj[ao] (?:en|para)|trabalh[ao] (?:na|no|em|para); runs_on:likely = runs? on(?! port);
called:likely = names?(?= (?:is|of)\b)|called|named|renamed to|heißt|s' ?appelle|se (?:llama|chama);
born_on:one = birthday|born on; reports_to:one = reports? to; belongs_to:one = owner|belongs? to|owned by;
leads:many = leads?(?! to)|heads(?! to| home| for)|chairs|manages|maintain(?:s|er)|coaches|(?:led|managed|headed|run|maintained|taught) by;
costs:one = price|costs?|fee|kostet|coûte|cuesta|custa; chose:likely = chose|chosen|picked|settled on|went with;
prefers:likely = prefers?|(?:trinkt|isst|mag) lieber|préfère|prefier[eo]|prefer[eo];
uses:many = uses?|(?:switched|migrated|(?:was|has been) (?:up|down)graded) to|benutzt|utilise|(?<!the )(?<!in )usa"""
_MEANINGS: Final = _rows(_MEANINGS_TEXT, " = ")
RELATIONS: Final = dict(meaning.split(":") for meaning, _ in _MEANINGS if ":" in meaning)
_HYPHENED: Final = {
    word.replace("-", " "): word for word in re.findall(r"\w+(?:-\w+)+", f"{_AXES} {STATUSES}")
}
# One pattern without groups: most texts contain no phrase, and that is cheaper to test than which.
_PHRASES: Final = "|".join([*_HYPHENED, *(text for _, text in _MEANINGS)])
_PHRASE: Final = re.compile(rf"\b(?<![\w'])(?:{_PHRASES})(?![\w-])")
_MEANT: Final = [(name.partition(":")[0], re.compile(rf"(?:{text})(?![\w-])")) for name, text in _MEANINGS]


def in_one_word(text: str) -> str:
    """A lowercase clause with its idioms and its relations said in one word each.

    >>> in_one_word("nora no longer drinks coffee"), in_one_word("the bus is called off")
    ('nora not drinks coffee', 'the bus is called-off')
    >>> in_one_word("nora moved to oslo") == in_one_word("nora lives in oslo"), in_one_word("nora's employer is bosch")
    (True, "nora's works_at is bosch")
    """
    return _PHRASE.sub(_meant, text)


def _meant(match: re.Match[str]) -> str:
    found = (name for name, pattern in _MEANT if pattern.match(match.string, match.start()))
    return _HYPHENED.get(match[0]) or next(found, match[0])


# ── Places ──────────────────────────────────────────────────────────────────────────────

# Well-known cities, none of them part of another; any other place may be part of one.
_CITIES: Final = """
Amsterdam Antwerp Athens Austin Bangkok Barcelona Basel Beijing Berlin Bern Bilbao Bogotá Bonn Bordeaux Boston Braga
Bremen Bristol Brussels Budapest Cairo Chicago Cologne Copenhagen Cork Dallas Delhi Denver Dresden Dubai Dublin
Edinburgh Frankfurt Gdańsk Geneva Ghent Glasgow Gothenburg Graz Hamburg Helsinki Hong-Kong Istanbul Kiel Kraków Kyiv
Kyoto Lagos Leeds Leipzig Lille Lima Linz Lisbon Liverpool London Los-Angeles Lyon Madrid Málaga Manchester Marseille
Melbourne Miami Milan Montreal Moscow Mumbai Munich Nairobi Nantes Naples New-York Nice Osaka Oslo Paris Perth Porto
Prague Riga Rome Rostock Rotterdam San-Francisco Seattle Seoul Seville Shanghai Singapore Stockholm Stuttgart Sydney
Tallinn Tokyo Toronto Toulouse Turin Utrecht Valencia Vancouver Venice Vienna Vilnius Warsaw York Zagreb Zurich"""
_CITY_NAMES: Final = {tuple(map(stem, name.lower().split("-"))) for name in _CITIES.split()}


def is_city(name: tuple[str, ...]) -> bool:
    """Whether these are the stems of a city that everybody knows.

    >>> is_city(("rome",)), is_city((stem("münchen"),)), is_city(("traster",))
    (True, True, False)
    """
    return name in _CITY_NAMES


# ── Subjects ──────────────────────────────────────────────────────────────────────────────

# Attributes whose value is a name: "her manager is strict" does not say who the manager is.
NAMED: Final = _stems("""wife husband spouse boss manager doctor dentist owner maintainer landlord teacher president
mayor director captain coach author ceo cto phone car bank university address email
capital height weight size age salary price cost fee rent budget employer name nickname username birthplace rate
endpoint branch deadline framework database version port""")
# Said of one thing among several of its sort.
ONLY: Final = _stems("default favorite usual primary preferred")
# Nouns whose owner has one of them at a time: "the default branch is …", "Lisa's email is …".
ATTRIBUTES: Final = (
    ONLY
    | NAMED
    | _stems("""password priority timezone birthday color license browser os pronouns url hometown headquarters office host
domain currency font theme scheme surname handle backend limit target editor nationality shell provider path
directory repository grade tier interval timeout ttl protocol region profession job occupation retention quota
prix preis precio preço plazo prazo""")
)
# Nouns before a number that they have: "port 7777", "size 43". Behind another noun a number may tell which one is meant.
MEASURED: Final = _stems("""weight height size age salary price cost fee rent budget rate port limit quota timeout interval
ttl target preis prix precio preço""")
TIMES: Final = words("time times mal fois vez veces vezes")  # what a number before them counts
# Words for what happens on one date only, unlike an appointment.
SCHEDULED: Final = _stems("""
deadline due launch release birthday standup retro relaunch wedding birth born found freeze graduation kickoff frist
abgabe plazo prazo born_on""")
# Nouns for things that may occur many times, on different dates.
OCCASIONS: Final = _stems("""appointment meeting call visit session flight trip exam interview lesson class dinner
lunch party concert game match workshop talk event review termin treffen cita reunión reunião""")
# A number behind one of these tells which one it is.
IDENTIFYING: Final = words("""issue chapter room part phase invoice ticket section season episode server user agent
house lamp player team flat floor gate track platform step version v bus number numéro numero número nummer""")
# A subject may have several of these, each with a name of its own.
SEVERAL: Final = _stems("""
sister brother son daughter child dog cat pet friend colleague cousin aunt uncle nephew niece grandson granddaughter
neighbor neighbour roommate flatmate tenant twin ex kid client customer patient student mentor lawyer contractor
contact intern guest applicant grandmother grandfather grandma grandpa grandchild parrot plant rabbit hamster horse
goat hen hund katze haustier freund freundin kollege kollegin schwester bruder tochter sohn kind onkel tante neffe
nichte enkel nachbar nachbarin mitbewohner sœur soeur frère fille fils enfant chien chat ami amie collègue oncle
neveu nièce voisin voisine hermana hermano hija hijo perro gato amigo amiga colega prima primo tía tío sobrina
sobrino vecina vecino irmã irmão filha filho cão cachorro tia tio vizinha vizinho""")
# Said of a key, and no part of the subject that it names.
KEY_NOISE: Final = _stems("""one two place company new old now first second latest note current is not no the of a in
on at moved prefers likes lives home city address job work employer fact memory mem item entry key id k m info""")
