"""What opposes what: antonyms, words of liking and disliking, rivals for one place, and the statuses of work.

Curated by hand, English, and data only. Pairs that may both be true of one thing (buy and sell, teach and
learn, start and end, left and right) are left out on purpose: a missed contradiction costs a reminder, a
wrong one buries a memory.
"""

from __future__ import annotations

from itertools import product
from typing import Final

from sense_memory.palace.contradictions.words import stem


# One line, one opposition: any word left of the bar opposes any word right of it.
_ANTONYMS: Final = """
like enjoy | dislike
love adore | hate detest loathe despise
trust | distrust mistrust
agree | disagree
approve | disapprove
support favour favor | oppose against
accept allow permit | reject refuse forbid prohibit ban deny disallow
allowed permitted | forbidden prohibited banned disallowed
include included | exclude excluded omit omitted
enable enabled activate activated active on | disable disabled deactivate deactivated inactive off
open opened | closed shut
public | private secret confidential
sync synchronous blocking | async asynchronous nonblocking
morningperson | nightowl
introvert introverted shy | extrovert extroverted outgoing
dark | light
strict | lenient loose permissive tolerant
pass passing | fail failing broken
success successful succeed | failure unsuccessful fail failed
vegetarian vegan | omnivore carnivore meateater
selfhosted self-hosted onpremise | cloudhosted cloud-hosted managed
cautious careful prudent | reckless careless rash
married | single unmarried divorced widowed
employed | unemployed jobless
before | after
stable | unstable flaky
cheap inexpensive affordable | expensive costly pricey
free gratis | paid commercial
early | late
punctual | unpunctual
fast quick rapid | slow sluggish
brief short concise terse | long detailed verbose lengthy
left-handed lefthanded | right-handed righthanded
left-wing | right-wing
pinned | unpinned
optimistic hopeful | pessimistic hopeless
up online reachable available running | down offline unreachable unavailable
mandatory required compulsory obligatory necessary | optional voluntary unnecessary unneeded
ascending | descending
increase increasing rise rising grow growing | decrease decreasing fall falling shrink shrinking
upstairs | downstairs
inside indoors indoor | outside outdoors outdoor
mutable | immutable
alive | dead deceased
true correct right accurate | false wrong incorrect inaccurate
safe secure | unsafe insecure dangerous
legal lawful | illegal unlawful
possible | impossible
visible | invisible hidden
present | absent
full | empty
full-time fulltime | part-time parttime
permanent | temporary provisional
local | remote
remotely | onsite on-site
manual manually | automatic automatically automated
static | dynamic
encrypted | unencrypted plaintext
signed | unsigned
paid | unpaid
verified | unverified
tested | untested
documented | undocumented
supported | unsupported
deprecated obsolete | recommended current
locked | unlocked
read-only readonly | writable writeable
persistent durable | ephemeral volatile transient
deterministic | nondeterministic non-deterministic random
compatible | incompatible
reliable dependable | unreliable
useful helpful valuable | useless unhelpful worthless
important crucial essential | unimportant irrelevant negligible
good great | bad poor
easy simple | hard difficult complicated complex
strong | weak
hot warm | cold cool
big large huge | small little tiny
high | low
rich wealthy | poor
healthy well | sick ill unhealthy
clean | dirty
quiet silent | loud noisy
calm relaxed | anxious nervous stressed
happy glad | unhappy sad
proud | ashamed embarrassed
patient | impatient
polite | rude impolite
honest truthful | dishonest lying
friendly kind | unfriendly hostile unkind
confident certain sure | unsure uncertain insecure
brave courageous | cowardly timid
lazy idle | diligent industrious hardworking
tidy organised organized neat | messy untidy disorganised disorganized chaotic
generous | stingy miserly
modern new | outdated old-fashioned
formal | informal casual
flexible | rigid inflexible
centralised centralized | decentralised decentralized
monolithic monolith | microservices distributed
proprietary closed-source | open-source opensource
stateless | stateful
case-sensitive | case-insensitive
nullable | non-null required
win won | lose lost
always | never
everybody everyone anyone | nobody
majority most | minority few
maximum max | minimum min
more | less fewer
keep retain | drop remove delete discard
add | remove
start begin | stop quit
attend | miss skip
remember | forget
arrive | depart
hire hired | fire fired
install | uninstall
mount | unmount
subscribe subscribed | unsubscribe unsubscribed
follow | unfollow
encourage recommend | discourage
male man | female woman
adult | minor
teetotal sober | drinker
atheist | religious believer
smoker | non-smoker nonsmoker
"""

# Feelings and judgements; what is liked and what is not.
_POSITIVE: Final = """like love enjoy adore appreciate admire cherish excellent wonderful great good fantastic amazing awesome
brilliant beautiful elegant lovely delightful delight joy pleasure pleasant happy glad proud excited impressed
thrilled calm relief relieved relaxed confident hopeful useful helpful reliable tasty delicious fun funny perfect superb nice
pretty gorgeous inspiring interesting worthwhile success triumph comfortable content grateful energised energized eager
praise recommend fond favour favor trust"""
_NEGATIVE: Final = """dislike hate detest loathe despise dread resent awful terrible horrible bad poor disgusting ugly hideous
dreadful pain painful annoying annoyed misery unhappy sad ashamed embarrassed anxious nervous worried afraid angry furious
disappointed disappointment disaster regret bored boring useless unhelpful unreliable frustrating frustrated tedious
nasty unpleasant stressful stressed exhausting ridiculous failure uncomfortable sick fear complain criticise criticize
distrust mistrust clumsy"""

# Alternatives of which a slot usually holds one.
_RIVALS: Final = """
tabs spaces
vim neovim emacs zed helix nano vscode sublime intellij pycharm webstorm kakoune
react vue svelte angular solid vanilla jquery preact
npm pnpm yarn bun
pip poetry uv pipenv conda
postgres postgresql mysql mariadb sqlite oracle mssql mongodb duckdb dynamodb
rabbitmq nats kafka zeromq sqs
phone email mail sms letter chat signal whatsapp telegram slack
linux windows macos arch debian ubuntu fedora nixos
bash zsh fish powershell
git mercurial svn
github gitlab codeberg gitea bitbucket sourcehut
aws azure gcp cloudflare hetzner vercel netlify heroku fly.io
black ruff yapf autopep8
pytest unittest nose
rest graphql grpc soap
http https grpc websocket websockets
json yaml toml xml
mit apache gpl agpl bsd mpl
merge rebase squash
camelcase snake_case kebab-case pascalcase
metric imperial
celsius fahrenheit
train plane car bike bicycle bus
window aisle
firefox chrome safari edge brave
ios android
markdown restructuredtext asciidoc
astro eleventy hugo jekyll gatsby next.js nextjs
docker podman kubernetes nomad
formal informal
"""

# Places that contain other places: "Vancouver" and "Canada" are no opposites.
_WIDE_PLACES: Final = """africa america asia europe oceania scandinavia usa us uk england scotland wales ireland britain canada
mexico brazil brasil argentina chile peru colombia germany deutschland france spain portugal italy austria switzerland belgium
netherlands holland denmark sweden norway finland iceland poland czechia slovakia hungary romania bulgaria greece
turkey ukraine russia estonia latvia lithuania croatia serbia slovenia israel egypt morocco nigeria kenya ghana
ethiopia india pakistan bangladesh nepal china japan korea taiwan thailand vietnam indonesia malaysia singapore
philippines australia zealand california texas florida oregon washington ontario quebec québec alberta bavaria
bayern saxony catalonia andalusia tuscany brittany states kingdom republic columbia flanders wallonia east west north
south coast abroad overseas countryside suburb village city town"""

# Which statuses a thing cannot have together; the rest go along with each other.
_STATUSES: Final = {
    "planned": "planned todo draft proposed pending waiting notstarted unstarted scheduled upcoming queued",
    "open": "open unpaid unsigned unfixed unresolved unfinished incomplete vacant unmerged undelivered unreleased",
    "active": "inprogress ongoing underway inreview started active",
    "done": "done finished complete completed merged shipped delivered resolved accepted approved paid signed "
    "fixed released launched filled closed implemented deployed arrived published",
    "paused": "onhold blocked paused postponed delayed stalled deferred suspended",
    "stopped": "cancelled canceled abandoned dropped rejected scrapped declined discontinued calledoff",
    "confirmed": "confirmed",
    "online": "online",
    "offline": "offline",
}
_APART: Final = """planned done|planned stopped|open done|open stopped|active done|active stopped|active paused|
done paused|done stopped|paused stopped|confirmed stopped|confirmed paused|online offline|planned paused"""


def _opposites() -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for line in _ANTONYMS.strip().splitlines():
        left, right = ([stem(word) for word in side.split()] for side in line.split("|"))
        for one, other in product(left, right):
            if one != other:
                found.setdefault(one, set()).add(other)
                found.setdefault(other, set()).add(one)
    return {word: frozenset(others) for word, others in found.items()}


def _stems(text: str) -> frozenset[str]:
    return frozenset(stem(word) for word in text.split())


_OPPOSITES: Final = _opposites()
_OPPOSING: Final = frozenset(_OPPOSITES)
_POLARITY: Final = dict.fromkeys(_stems(_POSITIVE), 1) | dict.fromkeys(_stems(_NEGATIVE), -1)
_GROUPS: Final = tuple(_stems(line) for line in _RIVALS.strip().splitlines())
_BY_RIVAL: Final = {
    word: frozenset(number for number, group in enumerate(_GROUPS) if word in group)
    for word in frozenset().union(*_GROUPS)
}
WIDE_PLACES: Final = _stems(_WIDE_PLACES)
STATUS: Final = {word: name for name, text in _STATUSES.items() for word in text.split()}
_APART_PAIRS: Final = frozenset(frozenset(pair.split()) for pair in _APART.replace("\n", "").split("|"))
_PREFIXES: Final = ("un", "non", "dis")


def opposites(old: frozenset[str], new: frozenset[str]) -> list[tuple[str, str]]:
    """The pairs of antonyms between two sets of stems, sorted; `un-`, `non-` and `dis-` make antonyms too."""
    found: list[tuple[str, str]] = []
    if not _OPPOSING.isdisjoint(old):
        found += [(one, other) for one in old & _OPPOSING for other in new & _OPPOSITES[one]]
    for words, others, ours_first in ((old, new, True), (new, old, False)):
        for word in words:
            if word.startswith(_PREFIXES) and (base := _bare(word)) in others:
                found.append((word, base) if ours_first else (base, word))
    found.sort()
    return found


def _bare(word: str) -> str:
    """`stable` of `unstable`; nothing where too little would be left."""
    base = word[2 if word[0] == "u" else 3 :].lstrip("-")
    return base if len(base) > 3 else ""


def is_quality(word: str) -> bool:
    """Whether a stem stands among the antonyms or the judgements: mostly adjectives."""
    return word in _OPPOSITES or word in _POLARITY


def polarity(word: str) -> int:
    """1 for a stem of liking, -1 for one of disliking, 0 for all others."""
    return _POLARITY.get(word, 0)


def rivals(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether two values hold alternatives of the same kind, such as tabs and spaces."""
    mine = {group for word in one for group in _BY_RIVAL.get(word, ())}
    return any(not mine.isdisjoint(_BY_RIVAL.get(word, ())) for word in other)


def statuses_apart(one: str, other: str) -> bool:
    """Whether something cannot have both statuses (names of `STATUS`) at one time."""
    return frozenset((one, other)) in _APART_PAIRS
