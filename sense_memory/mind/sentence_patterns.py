"""The words and patterns by which `sentence_kinds` tells kinds of sentences apart. Pure data, without logic.

English first, then the commonest forms of German, French and Spanish. Every pattern ignores case, except those in which only
a capital letter tells a name from a word.
"""

from __future__ import annotations

import re
from typing import Final

from sense_memory.mind.sentence_values import MONTH, WEEKDAY
from sense_memory.search.tokens import PAST_FORMS


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


# ── Words ───────────────────────────────────────────────────────────────────────────────

WORDS: Final = re.compile(r"[^\W_]+(?:['.,:-][^\W_]+)*").findall


def _any(*words: str, flags: int = re.IGNORECASE) -> re.Pattern[str]:
    return re.compile("|".join(words), flags)


LEAD: Final = re.compile(
    r"^(?:[-*•>] |\d+[.:)] )?(?:(?:oh|ah|hm+|well|ok(?:ay)?|yes|yeah|yep|haha|lol|btw|fyi|also|and|so|but|right|great|hi|hello|hey|quick note|good news"
    r"|by the way|for your information|just so you know|(?:please )?(?:remember|note|keep in mind)(?: that|:)|that said|honestly"
    r"|before i forget|one more thing|as i said|to be (?:honest|clear)|as you know|übrigens|also|naja|ach|au fait|bon|por cierto"
    r"|bueno|what was i going to say)"
    r"(?:[,.:!…]+|(?=\s))\s*)*",
    re.IGNORECASE,
)
BE: Final = "is are was were am be been isn't aren't wasn't weren't"
AUXILIARIES: Final = _set(f"""{BE} has have had hasn't haven't hadn't does do did doesn't don't didn't can can't cannot could couldn't will won't
would wouldn't shall should shouldn't may might must mustn't needs need""")
THIRD: Final = _set("""lives works runs owns costs reaches covers reads writes contains limits takes speaks plays studies teaches
coaches knows loves hates likes prefers enjoys dislikes wants means says keeps makes gives goes comes opens
closes begins starts ends leaves arrives lasts carries belongs depends expires matters stores handles manages
leads drives rides sings paints cooks bakes sells buys pays uses eats drinks smokes wears weighs measures holds
serves supports requires allows changes rotates happens turns stays stands lies sits hangs sleeps wakes calls
hosts repairs fits grows needs lets includes consists follows returns fades persists gets""")
STATES: Final = (
    r"live|lived|have lived|work|worked|have worked|teach|taught|study|studied|speak|own|run|drive|ride|play|sing|paint|coach|manage"
    r"|lead|use|wear|grew up|was born|were born|used to|come from|can't (?:eat|drink|swim|drive|hear|see|stand)|cannot (?:eat|drink|swim"
    r"|drive|hear|see)|don't (?:eat|drink|smoke|drive|own|have|use|speak)|never (?:eat|drink|smoke|fly)|only (?:eat|drink|use|work|have)"
    r"|eat|drink|collect|volunteer|rent|sell|make (?:a living|pots|prints)|suffer from|need (?:a wheelchair|glasses|insulin)"
)
BEING: Final = (
    r"an? (?!bit|little|lot|few|big fan|huge|mess|idiot|fool|step|moment|minute|fan)[\w-]+|the (?!one\b|same\b|only\b)[\w-]+|[\w-]*(?:allergic|intolerant)|vegan|vegetarian"
    r"|diabetic|celiac|coeliac|pregnant|from (?!there|here)\w+|born|married|divorced|widowed|engaged|single|retired|based|left-handed"
    r"|right-handed|colou?r-?blind|deaf|blind|dyslexic|self-employed|unemployed|\d+ years old|\d+\b|afraid of|responsible for|called"
    r"|named|on call|in charge|[A-Z]\w+(?:,|\.|$| and )"
)
JUDGED: Final = (
    r"(?:always |never |just |still |really |so |very |quite |pretty |rather |too |a bit |all |also |more |most |not |that |a |an |such a |the |"
    r"quite )*(?:long (?:day|week|night|time)|lot|pleasure|start|choice|boss|nice|good|great|fine|lovely|wonderful|bad|ok(?:ay)?|fun|funny|awesome|amazing|beautiful|terrible|awful|kind"
    r"|better|best|worse|delicious|perfect|cool|sweet|tasty|interesting|exciting|weird|strange|sad|boring|important to me|healthy"
    r"|fair|hard|easy|tricky|fantastic|gorgeous|annoying|impressive|true|right|wrong|sure|possible|complicated|the best kind|it"
    r"|on it|here|there|back|done|ready|on (?:my|the|his|her|their) way|gone|over|fun)\b"
)
PRONOUNS: Final = _set(
    """it its this that these those there one he she they you everything something nothing"""
)
NO_SUBJECT: Final = PRONOUNS | _set("""i we me my our your his her their the a an and or of in on at to for from with by as both all some many most
each every another no not only still also already who which what whose is are was were be i'm we're i've we've
he's she's it's that's there's they're you're just still now then here newest old new next last first final
finally will would should longer again today ein eine der die das mein meine unser unsere ich wir mon ma mes
notre le la les je nous on el mi mis nuestro nuestra yo""")
NOT_VERBS: Final = _set("""as this his its yes always perhaps less plus versus minus news thanks besides red bed shed seed speed
hundred indeed feed breed united used weed kids tickets cats dogs pieces notes hours days weeks months years
euros metres meters""")
DETERMINERS: Final = _set("""the a an my our your his her their its this that these those some any no all both many two three four five six
seven eight nine ten of in on at for from with by to and or between per about than""")
PAST: Final = frozenset(PAST_FORMS) - {
    "left",
    "found",
    "felt",
    "ground",
    "saw",
    "wound",
    "lay",
    "bore",
    "rose",
}


ADVERBS: Final = _set("still also always never often usually only now really currently")
BASE: Final = frozenset(word.removesuffix("s") for word in THIRD) | {
    "read",
    "hit",
    "cut",
    "put",
    "set",
    "cost",
}


CONTRACTED: Final = _set("i we you they he she it that this there here who what")


# ── Dates and figures ───────────────────────────────────────────────────────────────────

WHEN: Final = _any(
    rf"\b(?:{WEEKDAY})\b",
    rf"\b\d{{1,2}}(?:st|nd|rd|th|er|\.)?(?: of| de)? (?:{MONTH})\b|\b(?:{MONTH}) \d{{1,2}}(?:st|nd|rd|th)?\b",
    rf"\b(?:in|until|till|by|since|from|before|after|im|seit|bis|en|depuis) (?:early |late |mid-?)?(?:{MONTH})\b",
    r"\b(?:the|am|den|der|le|el) \d{1,2}(?:st|nd|rd|th|\.)(?!\d)",
    r"\b\d{1,2}[:.]\d{2}(?: ?(?:am|pm|uhr|h))?\b|\b\d{1,2} ?(?:am|pm|uhr|o'clock)\b|\b\d{4}-\d{2}-\d{2}\b",
    r"\b(?:tomorrow|next (?:week|month|year)|the first of (?:each|every|the) month|morgen (?:früh|um)|nächste\w* (?:woche|monat)|demain"
    r"|la semaine prochaine|mañana a|la próxima semana)\b",
)
FIGURE: Final = re.compile(r"\d")
NAMED: Final = re.compile(r"(?<=[^.!?:\s] )(?!I\b|I')[A-ZÄÖÜÉ][\w-]+")

# ── The rules, in their order ───────────────────────────────────────────────────────────

SMALL_TALK: Final = _set("""hi hello hey ha haha hahaha lol yes yeah yep no nope ok okay oh ah hm hmm hmmm sure see thanks thank thx nice
great good cool fine right well wow bye please glad hear welcome sound sounds got understand understood
interesting indeed perfect alright sorry know noted lovely yum morning evening afternoon night luck tomorrow
later soon weekend day worries problem pleasure agree fair enough exactly awesome exciting sweet phew ugh brb
congrats congratulations totally absolutely definitely course happy help helps sleep enjoy cheers take care same
there again done true wonderful excellent amazing works for me you too i that's it's you're it is a lot so much
very my of the at all to and have an your that this be will do i'll we back oh then been kind mean course deal
how's going everything bit guess hope guten tag morgen abend nacht danke dir ihnen bis später klar alles gut ja
nein genau super toll na tschüss schönes wochenende schön merci beaucoup bonjour bonsoir bonne soirée journée
rien oui non d'accord gracias hasta luego hola muchas adiós buenas noches buenos días vale claro sí""")
GREETING: Final = re.compile(
    r"^(?:thanks|thank you|see you|good (?:morning|night|evening|luck)|bye|hi|hello|hey|have a|talk to you|welcome|congrat\w*|sounds|you're"
    r" welcome|no (?:worries|problem|hurry)|of course|take (?:care|your time)|sorry to|nice to|glad|happy to|got it|never mind|don't"
    r" (?:worry|mention)|enjoy|stay|will do|good to|okay?,? \w+ (?:it is|then)|danke|merci|gracias|how (?:nice|exciting|lovely)|what a"
    r"|i(?:'ll| will) (?:remember|keep|do|let you|be|think|look|ask|see)|i (?:know|see|agree|understand|hope|guess|wish|can't believe))\b"
    r"(?!.*\d)[^,;:]{0,50}$|^(?:thank\w*|sorry|welcome|hi|hello|hey)\b(?!.*\d)[^.]{0,30}$",
    re.IGNORECASE,
)
REPLY: Final = re.compile(
    r"^\W*(?:i know|i see|i agree|i think so(?: too)?|me too|fair enough|that's \w+|oh no)\W*$", re.IGNORECASE
)
ASKS: Final = re.compile(
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
CORRECTS: Final = _any(
    r"^\W*(?:(?:quick|small) )?correction\b|^(?:oh,? )?(?:no|nope|wait|sorry|oops|hm+|ach|nein|non)\b(?:[, .…-]+(?:no|wait|sorry|not so fast|actually|about \w[\w ]{0,30}:))*[,:. -]+"
    r"(?:it'?s|it is|it was|that'?s|that was|the\b|my\b|our\b|i meant|i mean\b|make (?:that|it)|not\b|there (?:are|is)\b|only\b|on (?:the )?\w*(?:day|\d)"
    r"|es (?:ist|war|sind)|am (?!ende)|nicht\b|der\b|die\b|das\b|c'est|c'était|le\b|la\b|pas\b|es\b|era\b|son\b|el\b|[\w']+(?: \w+){0,2} \d|\d"
    rf"|(?:{WEEKDAY})\b|(?-i:[A-Z])\w+[,.])",
    r"^\W*(?:actually|in fact|eigentlich|tatsächlich|en fait|en realidad|mejor dicho|bzw)\b[, ]",
    r"\bi (?:meant|misspoke|mixed (?:that|it|them|this) up|got (?:that|it) wrong|was wrong|looked at the wrong)\b|\bi mean (?:the )?(?:\d|(?-i:[A-Z]))",
    r"\b(?:scratch|forget|ignore|strike) (?:that|what i said)\b|\bmake (?:that|it) (?:\d|the\b|an?\b|one\b|two\b|three\b|four\b|five\b|six\b|(?-i:[A-Z]))",
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
CLOSED: Final = re.compile(r"\b(?:matter|worry|problem|doubt|idea|longer than)\b", re.IGNORECASE)
OPEN: Final = _any(
    r"\b(?:i|we|they|nobody|no one)(?:'ve| have|'re| are)? (?:still )?(?:don't|do not|doesn't|didn't|not|haven't|hasn't) (?:yet |quite )?(?:know|decided?|settled|agreed|chosen|sure)"
    r"(?: yet)?,? (?:on |about )?(?:a |the |who|what(?! to (?:say|think))|which|when|where|whether|if|how)",
    r"\b(?:still|is|are|remains?) (?:still )?(?:open|unclear|undecided|unknown|not clear)\b(?: yet)?,? (?:who|what|which|when|where|whether|if|how)",
    r"^(?:still )?(?:to be (?:decided|clarified|discussed|determined)|tbd|open (?:question|point|issue)|undecided)\b.*\w{3}",
    r"\b(?:need|have) to (?:find out|decide|clarify|figure out|settle) (?:who|what|which|when|where|whether|if|how|on)\b",
    r"\bnoch (?:offen|unklar|nicht (?:klar|entschieden))\b|\bwissen noch nicht\b|\bmüssen noch (?:klären|entscheiden)\b",
    r"\bne (?:sait|savons) pas encore\b|\breste à (?:décider|savoir)\b|\bn'(?:a|avons) pas encore (?:décidé|choisi)",
    r"\b(?:todavía|aún) no (?:sabemos|sé|hemos decidido|se sabe)\b|\bpor decidir\b|\bfalta (?:decidir|saber)\b",
)
VERB_OF_RULE: Final = (
    r"use|keep|avoid|stick to|call me|address me|answer|reply|respond|write (?:to me|all|the|your|in|short)|speak|ask me|treat|make sure|let me know before"
    r"|include|deploy|format|respect|name|put|sign|cite|spell|send|book|share|publish|mention|tell|touch|give|check|remind|round|start|end"
)
INSTRUCTS: Final = _any(
    rf"^(?:please,? )?(?:always|never|only ever|only)\b,? (?!mind|again|been|had|a\b|the\b|one\b|one\b|say never)(?:ever )?(?:{VERB_OF_RULE}|\w+ (?:me|us|my|our|the|any|a|an|your|in|with|before|from|to|flights|metric|more|for)\b)",
    r"^(?:please,? )?from now on\b",
    r"^(?:please,? )?(?:don't|do not|dont) (?!worry|bother|be |forget|mention|get me|know|think|care|like|love|want|have|need|eat|drink|tell me|i |you )\w+ \w+",
    r"^(?:please,? )?(?:use|keep|avoid|stick to|call me(?= [A-Z])|address me|ask me before|make sure|let me know before|treat) (?!it up\b|in touch\b|going\b|it\b(?! (?:short|brief))|that in mind|this in mind|me (?:posted|updated))\w+",
    r"^(?:please,? )?(?:when|whenever|if|before|after|every time|each time|in case) (?:you|we|i ask you)\b[^,]*,? (?:always |never |please )*(?!i\b|we\b|you\b|it\b|that\b|they\b|he\b|she\b|would|can|there)\w+",
    r"\byou (?:must|may|should|have to|are to) (?:always |never |not |only )?(?!be\b|know|see|come|try|hear|have\b|rest|really)\w+(?: \w+)+",
    r"^(?:bitte )?(?:\w+e|schreib|sprich|nenn|frag|gib|ruf) (?:mir |mich |uns |dich )?(?:bitte )?(?:immer|nie|niemals|nur|ab jetzt)\b|^(?:ab jetzt|von nun an|bitte (?:immer|nie))\b",
    r"^(?:\w+s|\w+e|ne \w+|n'\w+)(?:-moi)? (?:toujours|jamais|désormais)\b|^(?:à partir de maintenant|désormais|toujours \w+er)\b",
    r"^(?:nunca|siempre|a partir de ahora|de ahora en adelante) \w+|^\w+[ea](?:me|nos)? (?:siempre|nunca)\b",
)
COMMANDS: Final = _any(
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
DECIDES: Final = _any(
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
WISHED: Final = re.compile(
    r"\b(?:would love|'d love|would like|'d like|love to (?:hear|see|know)|hate to|like to (?:know|see|hear|ask|think)|if you (?:like|prefer)|might|maybe|perhaps|wish|"
    r"as (?:i|you|we) like|whatever you|do(?:es)? (?:you|he|she) (?:like|prefer)|want to try)\b",
    re.IGNORECASE,
)
NO_OBJECT: Final = r"(?!it\b|that\b|this\b|them\b|those\b|these\b|you\b|your\b|how\b|what\b|when\b|where\b|the (?:sound|way|look|idea|vibe|new)|so\b|too\b|hearing|seeing|a lot\b|[.!]|$)"
PREFERS: Final = _any(
    rf"\b(?:i|we|he|she|they|(?!sounds|looks|feels|seems|tastes|something|just|is|was|are|be|been|more|much|people|would|that|what|not|it)\w+(?<!s(?= (?:love|like|hate|enjoy|prefer) )))(?:'d| would)?(?: really| absolutely| always| usually| still| never| much| just| both| only)* (?:prefers?|loves?|adores?|enjoys?|hates?|dislikes?|likes?|can't stand|cannot stand"
    rf"|(?:don't|do not|doesn't) (?:like|enjoy|want any)|despises?) {NO_OBJECT}",
    r"\b(?:my|our|his|her|\w+'s) (?:all-time )?favou?rite [\w ]{2,30}?(?:is|are|was)\b|\b(?:is|are) (?:my|our|his|her|\w+'s) favou?rite\b|\blike best\b",
    r"\b(?:i|we) (?:value|care about|stand for|believe in) (?!it\b|that\b|this\b|you\b|your\b)\w",
    r"\b(?:i'd|i would|we'd|he'd|she'd) rather \w+.* than\b|\b(?:fond of|keen on|a big fan of|not a fan of|passionate about)\b (?!you|that|this|it\b)",
    r"\b(?:ich|wir|er|sie|[A-ZÄÖÜ]\w+) (?:\w+ )?(?:mag|mögen|liebe|liebt|hasse|hasst|bevorzuge|bevorzugt)\b (?!es\b|das\b|dich|sie\b|ihn)|\b\w+e lieber\b|\b\w+t lieber\b",
    r"\b(?:je|j'|il|elle|nous|on) ?(?:n')?(?:préfère|préférons|adore|aime(?! ça)|déteste)|\bj'(?:adore|aime(?! ça)|aime pas|ai horreur)",
    r"\b(?:me|nos|le) (?:gusta|gustan|encanta|encantan)\b(?!\W*$)|^(?:prefiero|odio|detesto|adoro)\b",
)
PASSING: Final = re.compile(
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
OTHER_FIRST: Final = _any(
    r"^(?:ich|wir) (?:wohne\w*|lebe\w*|arbeite\w*|heiße\w*|habe|haben|bin|sind|spreche\w*|esse\w*|trinke\w*|vertrage\w*|studiere\w*|fahre\w*|besitze\w*|spiele\w*|komme\w* aus|benutze\w*|nutze\w*)\b \w+",
    r"^(?:je|j'|nous|on) ?(?:n[e'] ?)?(?:suis|habite|habitons|vis|travaille|travaillons|ai|avons|parle|mange|bois|étudie|m'appelle|joue|possède|utilise|sommes)\b \w+",
    r"^(?:yo )?(?:no )?(?:soy|somos|vivo|vivimos|trabajo|trabajamos|tengo|tenemos|hablo|como|bebo|estudio|me llamo|uso|juego|conduzco)\b \w+",
)
GERMAN: Final = (
    "ist|sind|hat|haben|wohnt|lebt|arbeitet|heißt|kostet|liegt|steht|spricht|läuft|braucht|spielt|studiert|gehört|fährt|beginnt|endet"
    "|öffnet|schließt|kommt|findet|kann|muss|darf|isst|trinkt|hängt"
)
FRENCH: Final = (
    "est|sont|a (?:un|une|des|le|la|du)|ont|habite|travaille|vit|coûte|s'appelle|parle|joue|étudie|contient|commence|finit|ouvre|ferme"
    "|arrive|part|appartient|doit|peut"
)
SPANISH: Final = (
    "es|son|tiene|tienen|vive|viven|trabaja|trabajan|cuesta|cuestan|está|están|se llama|habla|juega|estudia|contiene|empieza|termina"
    "|abre|cierra|llega|sale|pertenece|debe|puede"
)
OTHER_VERBS: Final = frozenset(
    word for word in f"{GERMAN}|{FRENCH}|{SPANISH}".split("|") if word.isalpha()
) - {"es", "son", "part", "hat", "une", "des", "le", "la"}
OTHER_NOUN: Final = _any(
    rf"^(?:(?i:mein|meine|unser|unsere|der|die|das|sein|seine|ihr|ihre|herr|frau|ein|eine)|[A-ZÄÖÜ][\wäöüß-]+)(?: [\wäöüß-]+){{0,4}}? (?:{GERMAN})\b \S",
    rf"^(?:(?i:mon|ma|mes|notre|nos|le|la|les|l'|son|sa|un|une)|[A-ZÉ]\w+)(?: ?[\wéèêçàœ'-]+){{0,4}}? (?:{FRENCH})\b \S",
    rf"^(?:(?i:mi|mis|nuestro|nuestra|el|la|los|las|su|un|una)|[A-ZÁÉ]\w+)(?: [\wáéíóúñ-]+){{0,4}}? (?:{SPANISH})\b \S",
    flags=re.NOFLAG,
)


FIRST: Final = re.compile(
    rf"^(?:i|we)(?:'m| am|'re| are)(?: also| now| originally)? (?:{BEING})|^(?:i|we)(?:'ve)?(?: also| now| both)? (?:{STATES})\b",
    re.IGNORECASE,
)
HAVE: Final = re.compile(
    r"^(?:i|we)(?: also| now)? have (?:an?|two|three|four|five|six|\d+|no|\w+s\b)(?! (?:bit|lot|feeling|question|idea|look|minute|moment|plan))",
    re.IGNORECASE,
)
OF_THEM: Final = re.compile(
    r"^(?:he|she|they)(?:'s|'re| is| are) (?:also )?(?:an? (?!bit|lot|little|mess)\w+|the \w+ of|\w*allergic|vegan|vegetarian|diabetic|\d+|afraid of|from [A-Z]|married|pregnant|retired)"
    r"|^(?:he|she|they) (?:lives?|works?|teach\w*|stud\w+|speaks?|plays?|can't (?:eat|drink)|doesn't (?:eat|drink)|has (?:an?|two|three|\d)|owns?|prefers?)\b|^(?:her|his|their|its) name\b",
    re.IGNORECASE,
)
REPORTED: Final = re.compile(
    r"\b(?:thought|said|wondered|asked|told me|thinks|says|guess|seems?|looks like|would|could|might|maybe|perhaps|if)\b",
    re.IGNORECASE,
)
JUDGES: Final = re.compile(
    rf"\b(?:is|are|was|were|'s|looks?|sounds?|seems?|feels?|tastes?)(?: \w+ly)? {JUDGED}", re.IGNORECASE
)


JUST: Final = _set("just again finally yesterday today already")
OPENERS: Final = _set("what how then maybe just nothing not no as rest now today")
