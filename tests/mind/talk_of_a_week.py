"""A week of talk between a person and an agent, and the facts planted in it. Pure data.

A fact is the words that a summary has to contain to answer a later question; words after `not` were corrected, and a summary
must not contain them. The rules were written with `WEEK` in view; `OTHER_WEEK` was kept apart and read once, at the end (19
of its 28 facts). What it showed then was mended: an agent's "No banners" corrected what the person had said. `LONG_WEEK` has long sentences and 45 facts; the rules
were written with another such week in view.
"""

from __future__ import annotations


def _talk(text: str) -> list[tuple[str, str]]:
    found = []
    for line in text.strip().splitlines():
        who, _, said = line.partition(": ")
        found.append(({"u": "user", "a": "assistant"}[who], said.strip()))
    return found


def _facts(text: str) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    found = []
    for line in text.strip().splitlines():
        words, _, corrected = line.partition(" not ")
        found.append((tuple(words.strip().split(" + ")), tuple(corrected.split(" + ")) if corrected else ()))
    return found


WEEK = _talk("""
u: Morning! I finally have some time to sit down with you.
a: Good morning! Nice to hear from you. What can I do for you?
u: Let me tell you a bit about myself first. I'm Mira and I run a small print shop in Graz.
a: Lovely, a print shop sounds wonderful!
u: haha thanks, it is mostly chaos
a: The best kind of chaos, I hope.
u: I'm allergic to hazelnuts, so keep that in mind when you suggest recipes.
a: Of course, I'll keep that in mind.
u: Can you help me plan the week?
a: Sure! What is coming up?
u: The exhibition opens on Friday at 18:00.
a: Exciting! Anything before that?
u: My dentist appointment is on Wednesday at nine.
a: Noted.
u: yum, this croissant is really good btw
a: Enjoy it!
u: My sister Anna is arriving on Thursday with the 14:30 train.
a: That will be nice.
u: She's vegetarian, by the way.
a: Good to know, I'll remember it for dinner.
u: What was I going to say... oh right, the press.
a: What about the press?
u: The roller of the press is 62 mm wide.
a: 62 mm, got it.
u: And it needs new felt, 3 mm thick.
a: Okay, 3 mm felt.
u: Do you know a shop for that?
a: I would have to look it up.
u: No hurry. I'll be back in a bit.
a: Take your time!
u: Back again. It's raining cats and dogs here.
a: Stay dry!
u: We decided to sell the prints for 40 euros each.
a: That is a fair price.
u: I hope so. Tom thought it was too cheap.
a: Who is Tom?
u: Tom is my business partner, he handles the accounting.
a: I see, thanks.
u: Please always answer me in short sentences.
a: Will do.
u: Good. And never send anything to Tom without asking me.
a: Understood.
u: bye for now
a: Bye! Talk to you later.
u: Hi again, it's me.
a: Welcome back!
u: Quick correction: the roller is 64 mm wide, I measured it again.
a: Thanks, 64 mm it is.
u: My landlord, Mr Brandl, wants to raise the rent to 940 euros.
a: Oh no, that's quite a lot.
u: Yeah, I know. What can you do.
a: You could talk to the tenants' association.
u: That's a good idea, thank you.
a: You're welcome!
u: I had soup for lunch and it was okay.
a: Soup is always nice.
u: The rent is due on the first of each month.
a: Okay.
u: lol, my cat just walked over the keyboard
a: Cats love keyboards.
u: Her name is Miso and she is eleven years old.
a: Miso is a great name.
u: Isn't it? She is the boss here.
a: As it should be.
u: I prefer the train over flying, so look for trains when you plan trips.
a: Trains it is.
u: We're going to Trieste in October, Anna and I.
a: That sounds like a beautiful trip!
u: Our hotel there is called Albergo Luna.
a: Nice name.
u: The booking code is TR-4471.
a: I'll remember it.
u: ok cool
a: Anything else?
u: Not today, I'm a bit tired. Good night!
a: Good night, sleep well.
u: Good morning! Coffee first.
a: Coffee is a good start.
u: Are you a coffee person? Just kidding.
a: Ha, I wish.
u: I don't drink milk, only oat milk.
a: Oat milk, sure.
u: No, wait, about the dentist: it was moved to Thursday at ten.
a: Thursday at ten, okay.
u: I'm a bit nervous about it to be honest.
a: It will be fine.
u: Thanks, that's kind of you.
a: Of course.
u: The opening speech will be given by Ms Haller from the city library.
a: How nice.
u: Tom ordered 120 glasses for the opening.
a: That should be enough.
u: We chose the blue posters, not the red ones.
a: Blue is a good choice.
u: I'll think about the music later.
a: Take your time.
u: hmm
a: Yes?
u: Nothing, just thinking aloud.
a: No problem.
u: We still don't know who drives the van on Friday.
a: Maybe Tom can?
u: Maybe, I'll ask him.
a: Good idea.
u: The van is a white Ford Transit, it belongs to my uncle Karl.
a: Okay.
u: Its tank is almost always empty, haha.
a: Classic.
u: My phone number is 0664 5550143 in case the gallery asks.
a: I have it.
u: The alarm code of the shop is 2280.
a: Stored safely.
u: Where did we leave off yesterday?
a: We talked about the trip.
u: Ah yes. Anna is afraid of heights, so no cable cars.
a: No cable cars, okay.
u: That was a long day.
a: Rest a little!
u: I will. See you tomorrow.
a: See you!
u: Hello hello
a: Hello!
u: Good news: the grant came through, we get 5,000 euros from the city.
a: Congratulations, that is wonderful!
u: I can't believe it, I'm so happy.
a: You earned it.
u: The final report for the grant has to be in by 30 November.
a: Noted.
u: My daughter Lea starts school on 9 September.
a: How exciting!
u: She can't eat gluten.
a: I'll keep it in mind.
u: Can you find a gluten-free bakery near the school?
a: I can look for one.
u: Great. The school is on Mill Street.
a: Thanks.
u: Tom no longer does the accounting, Petra took over.
a: Okay, Petra then.
u: Petra works on Tuesdays and Fridays only.
a: Good to know.
u: Is there anything you need from me?
a: I think I have what I need.
u: The server of the online shop runs on port 8443.
a: 8443, okay.
u: The backups are kept on the NAS in the cellar.
a: Good.
u: We agreed to close the shop on Mondays from September on.
a: A day off is healthy.
u: Right? I think so too.
a: Definitely.
u: Oh, and the exhibition opens at 19:00 now, not at 18:00.
a: 19:00, thanks.
u: My shoe size is 39, if you ever look for boots.
a: Got it.
u: The guest book costs 35 euros at the stationer's.
a: Okay.
u: And we need 80 chairs.
a: 80 chairs.
u: That's it for this week, thank you for everything!
a: It was a pleasure. Have a great weekend!
""")

FACTS = _facts("""
Mira
print shop + Graz
hazelnuts
exhibition + Friday
19:00 not 18:00
dentist + Thursday not Wednesday
Anna + Thursday + 14:30
vegetarian
64 mm not 62 mm
felt + 3 mm
40 euros
Petra + accounting
short sentences
never + Tom + asking
Brandl
940 euros
rent + first of each month
Miso
eleven
train + flying
Trieste + October
Albergo Luna
TR-4471
oat milk
Haller
120 glasses
blue posters
who drives + van
Ford Transit
Karl
2280
heights
5,000 euros
30 November
Lea + 9 September
gluten
Mill Street
Petra + Tuesdays
8443
NAS + cellar
0664 5550143
size + 39
80 chairs
""")

OTHER_WEEK = _talk("""
u: Hi, are you there?
a: Yes, hello! How can I help?
u: I'm setting up the club's website and could use a hand.
a: Gladly. What is the club about?
u: It's a rowing club in Kiel, I'm the treasurer.
a: That's great.
u: My name is Jonas by the way.
a: Nice to meet you, Jonas.
u: The site is hosted at Hetzner on a small machine.
a: Okay.
u: It runs Debian 12.
a: Good choice.
u: thx
a: Sure thing!
u: We decided to use Hugo instead of WordPress.
a: Hugo is fast.
u: I hope it's not too hard to learn.
a: You'll manage.
u: The annual meeting is on 21 February at seven.
a: Noted.
u: Our chairwoman is Dr. Wiebke Hansen.
a: Alright.
u: She prefers phone calls over emails.
a: Good to know.
u: phew, what a day
a: Take a break!
u: The membership fee is 85 euros a year.
a: 85 euros, okay.
u: Juniors pay only 30 euros.
a: Understood.
u: I'm diabetic, so I have to eat on time, don't plan anything over noon.
a: I'll respect that.
u: brb
a: Okay.
u: Sorry, the fee is 95 euros, I mixed that up.
a: 95 euros then.
u: Never publish the members' addresses.
a: Of course not.
u: Do you like boats?
a: I like hearing about them.
u: haha fair
a: :)
u: Our newest boat is called Seeadler.
a: A fine name.
u: It's 9.8 metres long.
a: Impressive.
u: It rained all day, no training today.
a: What a pity.
u: Training is on Tuesdays and Thursdays at 17:30.
a: Got it.
u: My wife Carla coaches the juniors.
a: How nice.
u: We still have to find out who repairs the jetty.
a: Let me know.
u: I think I'll go to bed now.
a: Good night!
u: Hey, good morning
a: Good morning!
u: No, the annual meeting is on the 28th, I looked at the wrong page.
a: The 28th, okay.
u: Use British spelling on the site, please.
a: Will do.
u: Always ask me before you deploy.
a: I will.
u: The boathouse key is with the harbour master.
a: Okay.
u: I can't stand pop-up banners.
a: No banners.
u: The database password changes every 90 days.
a: Noted.
u: How are you today?
a: Fine, thank you!
u: Our bank is the Förde Sparkasse.
a: Okay.
u: The tax return has to be filed by 31 May.
a: I'll keep it in mind.
u: We agreed on dark blue for the logo.
a: Lovely.
u: The regatta takes place in Eckernförde in July.
a: That sounds like fun.
u: We have 142 members.
a: That's a lot!
u: Well, see you next week.
a: See you!
""")

OTHER_FACTS = _facts("""
rowing club + Kiel
treasurer
Jonas
Hetzner
Debian 12
Hugo
28th not 21 February
Hansen
phone calls
95 euros not 85
30 euros
diabetic
never publish + addresses
Seeadler
9.8 metres
Tuesdays + 17:30
Carla
who repairs + jetty
British spelling
before you deploy
harbour master
pop-up
90 days
Sparkasse
31 May
dark blue
Eckernförde + July
142
""")

LONG_WEEK = _talk("""
u: hi! I'm new here, a friend told me to try this.
a: Welcome! What shall I call you?
u: My name is Tadeusz, but everybody calls me Tad.
a: Nice to meet you, Tad!
u: I'm a beekeeper and part-time music teacher near Kraków, in a village called Mogilany.
a: What a combination.
u: It is! The bees are less noisy than the children, haha.
a: I believe it.
u: I have 26 hives in two places, fourteen at home and the rest at my uncle's orchard.
a: Noted.
u: I want you to help me keep track of things, because my wife says I live in chaos.
a: Happy to help.
u: My wife is Agnieszka and she works at the town library, mostly afternoons.
a: Good.
u: We have a daughter, Zosia, who starts school on 2 September.
a: Exciting!
u: Zosia is lactose intolerant, so whenever you plan meals for us, leave out milk.
a: No milk for Zosia.
u: nice weather finally
a: Enjoy the sun!
u: The honey harvest this year begins around 20 June if the lindens bloom in time.
a: 20 June, roughly.
u: I sell a jar for 45 zloty, and for ten jars or more I give a discount of ten percent.
a: Noted the prices.
u: By the way the choir of the school gives a concert on 28 May at seven in the evening.
a: Sounds lovely.
u: We'll sing two songs by Moniuszko and one by me, I'm a bit nervous.
a: You'll do great.
u: Please write to me in English only, I want to practise.
a: English it is.
u: And no emojis, I find them childish.
a: None.
u: Did you know that bees can recognise faces?
a: Fascinating!
u: The vet comes to look at the hives on Monday the 6th.
a: Noted.
u: Actually no, the vet just wrote, he can only make it on the 9th.
a: The 9th then.
u: I'm off, the children are waiting. Bye!
a: Bye, Tad!
u: Me again. The rehearsal was a disaster.
a: Oh no, what happened?
u: Half of the altos were ill and the piano is out of tune.
a: That's unlucky.
u: The piano tuner is called Pan Lis and his number is 512 880 034, I should call him tomorrow.
a: Saved.
u: We decided to move the concert to the church because the gym has no heating.
a: Makes sense.
u: The car is in the garage again, the repair will be about 1,200 zloty.
a: Ouch.
u: yeah well, it's an old Skoda
a: They last.
u: I have to renew my passport before the 15th of July since we are flying to Lisbon on 3 August.
a: Passport first.
u: In Lisbon we're staying with Agnieszka's cousin Marta, who has a flat in Alfama.
a: How nice.
u: We said that we would not take the big suitcases, only hand luggage.
a: Travelling light.
u: Never share my address with customers, they should order through the shop page.
a: Understood.
u: My blood pressure was 150 over 95 this morning, and the doctor wants me to measure it every day.
a: I'll remind you.
u: I take 5 mg of ramipril in the morning.
a: Noted.
u: so tired today
a: Get some rest.
u: I'm also allergic to penicillin, which is good to know I guess.
a: Very important, yes.
u: We're still looking for someone who can look after the hives in August, no idea who yet.
a: Perhaps a neighbour?
u: My uncle's name is Staszek and his orchard is in Siepraw.
a: Noted.
u: He turns 80 on 11 October and wants no presents.
a: A modest man.
u: The website costs me 19 euros a month, at a hoster called Cyberfolks.
a: OK.
u: Zosia has swimming every Wednesday at four, I drive her and Agnieszka picks her up.
a: Good teamwork.
u: see you tomorrow!
a: See you!
u: Hello hello.
a: Hello Tad!
u: The price of a jar has gone up, it's 48 zloty from now on, glass is so expensive.
a: 48 zloty.
u: I bought a new extractor for 3,400 zloty, stainless steel, four frames.
a: Impressive.
u: It's from a company in Sądecki called Łysoń, with a warranty of two years.
a: Noted.
u: The dose was changed: I take 10 mg of ramipril now.
a: 10 mg.
u: what a day, I was stung six times
a: Ouch!
u: The inspection of the school by the ministry will be on 17 June and I have to hand in my plans by the 10th.
a: Two dates noted.
u: I prefer tea to coffee in the evening, and without sugar.
a: Tea without sugar.
u: We agreed with Staszek that he gets 15 jars a year for the place.
a: Fair.
u: Can we use the meeting room at the library for the beekeepers' club? Agnieszka asks her boss.
a: Fingers crossed.
u: The beekeepers' club meets on the first Tuesday of each month, and I'm the secretary there.
a: OK.
u: Agnieszka's boss said yes, the room is free after five.
a: Wonderful.
u: Don't book anything for me on Sundays, that's family time.
a: Sundays are free.
u: We haven't decided yet whether Zosia gets a dog.
a: A big decision.
u: She wants to call it Bursztyn, which means amber.
a: Cute.
u: Mites: I treat the hives with oxalic acid in December, never earlier.
a: Noted.
u: My teacher's licence has to be renewed every five years, next time in 2028.
a: 2028.
u: Alright, that's enough for today, thank you!
a: You're welcome!
""")

LONG_FACTS = _facts("""
Tad
beekeeper
Mogilany
26 hives
Agnieszka + library
Zosia + 2 September
lactose
20 June
48 zloty not 45
ten percent
28 May
English
emojis
vet + 9th not 6th
512 880 034
church
1,200
Skoda
passport + 15
Lisbon + 3 August
Alfama
luggage
address
150 over 95
10 mg not 5 mg
penicillin
hives + August
Staszek
Siepraw
11 October
19 euros
swimming + Wednesday
3,400
two years
17 June
10th
tea
15 jars
first Tuesday
secretary
Sundays
dog
Bursztyn
December
2028
""")
