"""What people write to each other and to agents, with the kind of each message. Pure data.

A message is a `statement` if a later question could ask for what it says; what only comments on the moment is a `remark`.
The rules were written with `TUNED` in view. `KEPT_APART` was written before them by the same hand, and was read once, at the
end; what it found then is not mended.
"""

from __future__ import annotations


def _cases(text: str) -> list[tuple[str, str]]:
    rows = (line.partition(" | ") for line in text.strip().splitlines())
    return [(said.strip(), kind.strip()) for kind, _, said in rows]


TUNED = _cases("""
small_talk | Morning!
small_talk | haha yes, totally
small_talk | I know
small_talk | bye
small_talk | yum
small_talk | Thanks a lot, that helps.
small_talk | ok cool
small_talk | No worries!
small_talk | See you tomorrow
small_talk | Good night, sleep well
small_talk | You're welcome :)
small_talk | Sounds good to me.
small_talk | Oh wow, congratulations!
small_talk | I see.
small_talk | Sorry to hear that.
small_talk | Got it, thank you.
small_talk | Sure, no problem at all.
small_talk | Guten Morgen!
small_talk | Danke dir, bis später
small_talk | Merci beaucoup !
small_talk | Gracias, hasta luego
small_talk | Alles klar
remark | That was fun.
remark | It took a while but it works now.
remark | I had lunch and it was good.
remark | Let me have a look at it.
remark | I'm a bit tired today.
remark | It's raining again.
remark | I'll think about it.
remark | That makes sense to me, I guess.
remark | I'm so happy right now
remark | We should catch up soon.
remark | This one looks nicer than the other.
remark | I'll be right back.
remark | I don't know what to say.
remark | Das war schön.
remark | Je ne sais pas.
remark | Estoy cansada hoy.
fragment | 90 cm
fragment | the blue one
fragment | maybe later
fragment | for the kitchen
fragment | Shopping list:
fragment | not bad at all
fragment | next to the station
fragment | https://example.org/kiln
fragment | Im Keller
fragment | dans la cuisine
question | How wide is the roller?
question | Did you call the landlord
question | What time does the train leave?
question | Can you remind me of the address?
question | is it still raining over there
question | Where did I put the invoice?
question | Do you think the felt will arrive in time?
question | You live in Graz, right?
question | Wo ist der Schlüssel?
question | Wann kommt der Zug
question | Où est la clé ?
question | ¿Dónde vive tu hermana?
command | Please send me the invoice.
command | Open the window
command | Show me the calendar for Friday.
command | Book a table for four.
command | Give me a summary of the week.
command | Could you translate this letter for me.
command | Remind me tomorrow at nine.
command | Find a hotel near the station, please.
command | Schick mir bitte die Rechnung.
command | Envoie-moi la facture.
command | Mándame la factura.
statement | I'm allergic to hazelnuts.
statement | My sister Anna lives in Graz.
statement | I teach printmaking at the art school.
statement | The roller is 62 mm wide.
statement | Our landlord is called Mr Brandl.
statement | The server runs on port 8080.
statement | The deploy key is in the vault under ops.
statement | My daughter has a peanut allergy.
statement | Tom works for a small brewery in Linz.
statement | The kiln reaches 1,240 degrees.
statement | I grew up near Porto.
statement | The rent is 940 euros a month.
statement | Lena is vegetarian.
statement | The staging database is a PostgreSQL 16 on the old machine.
statement | My car is a green Fiat from 2009.
statement | The nightly report reads from MySQL.
statement | We have two cats, Miso and Pepper.
statement | By the way, my mother is a retired nurse.
statement | The wifi password of the studio is linocut-22.
statement | I speak Portuguese and a little Czech.
statement | The insurance covers water damage only up to 5,000 euros.
statement | Nora's birthday present is hidden in the attic.
statement | I work night shifts on Tuesdays and Thursdays.
statement | Memory is what lets an agent persist.
statement | Meine Schwester wohnt in Graz.
statement | Ich bin gegen Nüsse allergisch.
statement | Der Vermieter heißt Brandl.
statement | Ma sœur habite à Lyon.
statement | Je suis allergique aux noix.
statement | Mi hermana vive en Sevilla.
statement | Soy alérgica a las nueces.
statement | El alquiler cuesta 940 euros al mes.
preference | I prefer tea over coffee.
preference | I really love hiking in the Alps.
preference | I can't stand cilantro.
preference | My favourite colour is petrol blue.
preference | Tom hates flying.
preference | I'd rather take the train than fly.
preference | I like my answers short.
preference | Window seats are what I like best.
preference | Ich trinke lieber Tee als Kaffee.
preference | Je préfère le train.
preference | Me gusta mucho el senderismo.
decision | We decided to keep PayPal until August.
decision | We went with the blue tiles.
decision | I've chosen the apartment on Mill Street.
decision | Let's go with PostgreSQL then.
decision | We agreed on 40 euros per print.
decision | The team settled on weekly releases.
decision | I'm going to take the job in Vienna.
decision | Wir haben uns für die blauen Fliesen entschieden.
decision | Nous avons décidé de garder le chat.
decision | Hemos decidido alquilar la casa.
date | The exhibition opens on Friday.
date | My dentist appointment is on 12 March at nine.
date | The rent is due on the first of each month.
date | Anna arrives tomorrow at 14:30.
date | The deadline for the grant is 30 November.
date | We are flying to Lisbon on Saturday.
date | Mum's birthday is on May 3rd.
date | The plumber comes next Tuesday between 8 and 10.
date | Die Ausstellung beginnt am Freitag.
date | Mein Termin ist am 12. März um neun.
date | Le rendez-vous est le 12 mars à neuf heures.
date | La cita es el 12 de marzo a las nueve.
correction | No, it's the 14th.
correction | Correction: the roller is 64 mm wide.
correction | Actually, the dentist is on Thursday.
correction | Sorry, I meant Hanna, not Anna.
correction | Scratch that, the train leaves at 9:40.
correction | The launch was moved to 17 May.
correction | I no longer eat meat.
correction | We live in Linz now, not in Graz.
correction | Not Tuesday but Wednesday.
correction | Nicht Dienstag, sondern Mittwoch.
correction | Nein, es ist der 14.
correction | En fait, le rendez-vous est jeudi.
correction | En realidad la cita es el jueves.
instruction | Always answer in German, please.
instruction | Never share my address with anyone.
instruction | From now on, call me Lis.
instruction | Don't use emojis when you write to me.
instruction | Please keep your answers under three sentences.
instruction | Whenever you book a hotel, check the cancellation rules first.
instruction | You must not touch the invoices table.
instruction | Antworte mir immer auf Deutsch.
instruction | Réponds toujours en français.
instruction | Responde siempre en español.
open_question | We still don't know who pays for the shipping.
open_question | It is still open whether Tom joins us.
open_question | To be decided: the venue for the party.
open_question | I haven't decided yet which paper to buy.
open_question | Es ist noch offen, wer den Transport zahlt.
""")

KEPT_APART = _cases("""
small_talk | Hey there, how's it going
small_talk | lol ok
small_talk | Nice!
small_talk | Thank you so much
small_talk | Yep, exactly.
small_talk | Have a great weekend!
small_talk | Fair enough.
small_talk | oh no :(
small_talk | Of course, happy to help!
small_talk | Talk to you later
small_talk | Understood.
small_talk | Great, perfect.
small_talk | that's awesome
small_talk | Hm, okay then
small_talk | My pleasure!
small_talk | I agree
small_talk | Good luck!
small_talk | Na gut, danke
small_talk | Schönes Wochenende!
small_talk | De rien, bonne soirée
small_talk | Muchas gracias
remark | I wonder what she meant.
remark | It was really nice to see everyone again.
remark | I'm on my way.
remark | That would be lovely.
remark | I just woke up.
remark | There you go.
remark | I think so too.
remark | I was about to say the same.
remark | This is getting complicated.
remark | I'll let you know.
remark | You did a great job with it.
remark | We had such a good time.
remark | Honestly I can't believe it.
remark | They were a bit late, but fine.
remark | Das klingt gut für mich.
remark | C'était super.
remark | Fue muy divertido.
fragment | about two metres
fragment | with oat milk
fragment | Notes from today:
fragment | red or green
fragment | at the back of the drawer
fragment | 14 pieces
fragment | same as last week
fragment | Ein paar Stunden
fragment | avec du sel
fragment | en la mesa
question | Who is picking up the kids today?
question | Have you heard from Jonas
question | What's the name of that bakery again?
question | Would you mind checking the invoice once more?
question | are there any tickets left for saturday
question | How much did the tiles cost?
question | Which of the two papers is thicker?
question | So we meet at six?
question | Wie heißt dein Bruder?
question | Was kostet das
question | Combien coûte le billet ?
question | ¿Cuándo llega el tren?
command | Call the plumber, please.
command | Add milk to the list.
command | Tell me a joke.
command | Please check whether the backup ran.
command | Write an email to Mr Brandl about the heating.
command | Look up the opening hours.
command | Turn off the lights in the hall.
command | Run the tests again.
command | Bitte ruf den Klempner an.
command | Appelle le plombier.
command | Llama al fontanero, por favor.
statement | My brother Jonas is a firefighter.
statement | I have lived in Trieste since 2018.
statement | The spare key is under the red flowerpot.
statement | Our dog Bruno is afraid of thunder.
statement | The API limits clients to 100 requests per minute.
statement | My blood type is 0 negative.
statement | The workshop has six benches and one press.
statement | Clara studies marine biology in Kiel.
statement | I'm lactose intolerant.
statement | The backup job runs every night at 2.
statement | Mr Brandl owns three houses on Mill Street.
statement | The glaze contains cobalt and tin.
statement | My husband's name is Paulo.
statement | The printer in the hall only takes A3 paper.
statement | I used to work as a baker.
statement | The old relay writes its log to /var/log/relay.
statement | Our budget for the kitchen is 8,500 euros.
statement | Ben has asthma and carries an inhaler.
statement | The contract with the gallery ends after two years.
statement | FYI, Ella plays the cello in the youth orchestra.
statement | I'm the treasurer of the rowing club.
statement | The tests of the parser need a running Redis.
statement | Nina and Paul got married last summer.
statement | My passport expires in 2027.
statement | Mein Bruder arbeitet bei der Feuerwehr.
statement | Der Schlüssel liegt unter dem Blumentopf.
statement | Ich vertrage keine Laktose.
statement | Mon frère travaille à Marseille.
statement | La clé est sous le pot de fleurs.
statement | Mi hermano trabaja en un hospital.
statement | El contrato termina en dos años.
preference | I like my coffee black.
preference | Paulo loves old westerns.
preference | I don't like surprises.
preference | We prefer to fly from Munich.
preference | My favorite bakery is the one on Harbour Lane.
preference | I enjoy working early in the morning.
preference | Ella can't stand mushrooms.
preference | Ich mag keine Überraschungen.
preference | J'adore les vieux films.
preference | Prefiero viajar en tren.
decision | We picked the oak floor.
decision | I decided against the new phone.
decision | We're going to rent the house in Piran.
decision | They chose Redis for the queue.
decision | We have agreed to split the costs.
decision | Okay, let's use the smaller kiln.
decision | Wir nehmen die Eichendielen.
decision | On a choisi le parquet en chêne.
decision | Decidimos vender el coche.
date | The kick-off meeting is on Monday at ten.
date | Jonas is coming on 4 July.
date | School starts on September 9.
date | The parcel should arrive by Thursday.
date | Our flight leaves at 6:15 on Sunday.
date | The invoice has to be paid by 15 December.
date | The concert is next Saturday evening.
date | Das Konzert ist am Samstag um acht.
date | Le concert commence samedi à vingt heures.
date | El concierto es el sábado a las ocho.
correction | Wait, I meant the 21st.
correction | Actually it's Harbour Road, not Harbour Lane.
correction | My mistake, the limit is 60 requests.
correction | The meeting has been postponed to Wednesday.
correction | Tom doesn't work there any more.
correction | Make that five tickets, not four.
correction | We switched from Redis to RabbitMQ.
correction | Nein, nicht Jonas, sondern Jonathan.
correction | Ich meinte den Donnerstag.
correction | Non, c'est le 14.
correction | No, es el 14.
instruction | Never book flights before eight in the morning.
instruction | Always use metric units.
instruction | From now on write the summaries in French.
instruction | Please don't call me after ten in the evening.
instruction | Keep Paulo out of the budget discussions.
instruction | When you cite a paper, include the year.
instruction | Only ever deploy from the main branch.
instruction | Benutze immer metrische Einheiten.
instruction | N'utilise jamais d'émojis.
instruction | Nunca compartas mi dirección.
open_question | We haven't settled on a name for the boat yet.
open_question | It's unclear who owns the old wall.
open_question | Still to be decided: who hosts in December.
open_question | We need to find out whether the permit covers the garage.
open_question | Wir wissen noch nicht, wer kommt.
""")
